"""Who looks at the console: the gateway as that person reaches it."""

from __future__ import annotations

import httpx
import streamlit as st

from client.sync import Gateway, GatewayProblem, connections
from contracts import endpoints
from contracts.access import Caller, Role
from ui.settings import settings

COOKIE = "instantstart_session"
AGENT = "instantstart-console"


@st.cache_resource(show_spinner=False)
def _connections(url: str) -> httpx.Client:
    return connections(url, AGENT)


def session_token() -> str | None:
    """What the person at this browser is known by; None where nobody has signed in."""
    return st.context.cookies.get(COOKIE)


def gateway() -> Gateway:
    """The gateway as the person at this browser reaches it."""
    return Gateway(_connections(settings().url), session_token())


def signed_in() -> Caller:
    """Who is signed in; ends the run with a way to sign in where nobody is, or with the problem where the gateway
    does not answer."""
    try:
        return gateway().call(endpoints.GET_CALLER)
    except GatewayProblem as error:
        from ui.links import plain_link, sign_in_url
        from ui.problems import problem_box

        if error.problem.status != 401:
            problem_box(error.problem)
            if st.button("Try again", icon=":material/refresh:"):
                st.rerun()
        else:
            st.title("InstantStart")
            st.write("You are not signed in, or your session has ended.")
            plain_link("Sign in", sign_in_url())
            st.caption("`instantstart console` prints a link that signs you in.")
        st.stop()


def may_change(caller: Caller) -> bool:
    """Whether the person may start and answer operations; the gateway decides, this only dims what it would refuse."""
    return caller.role is not Role.VIEWER
