"""Who looks at the console: the gateway as that person reaches it."""

from __future__ import annotations

import httpx
import streamlit as st

from client.sync import Gateway, GatewayProblem, connections
from contracts import endpoints
from contracts.access import SESSION_COOKIE, Caller, Role
from ui.kept import drop, kept
from ui.settings import settings

AGENT = "instantstart-console"
_CALLER_SECONDS = 1.0
"""The script and its page ask in the same run."""


@st.cache_resource(show_spinner=False)
def _connections(url: str) -> httpx.Client:
    return connections(url, AGENT)


def session_token() -> str | None:
    """What the person at this browser is known by; None where nobody has signed in."""
    return st.context.cookies.get(SESSION_COOKIE)


def gateway() -> Gateway:
    """The gateway as the person at this browser reaches it."""
    return Gateway(_connections(settings().url), session_token())


def _where() -> dict[str, str]:
    """Host and Origin as the browser sent them: where authentication is off, the gateway serves this machine's own
    pages only."""
    sent = st.context.headers
    return {name: sent[name] for name in ("Host", "Origin") if name in sent}


def signed_in() -> Caller:
    """Who is signed in; ends the run with a way to sign in where nobody is, or with the problem where the gateway
    does not answer."""
    try:
        read = lambda: gateway().call(endpoints.GET_CALLER, headers=_where())  # noqa: E731
        return kept(_caller_name(), _CALLER_SECONDS, read)
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


def forget_caller() -> None:
    """Ask anew who is signed in: something of them has changed."""
    drop(_caller_name())


def _caller_name() -> str:
    return f"caller/{hash(session_token())}"


def may_approve(caller: Caller) -> bool:
    """Whether the person may approve what agents ask for; the gateway decides here, too."""
    return caller.role in (Role.OPERATOR, Role.ADMIN)


def may_change(caller: Caller) -> bool:
    """Whether the person may start and answer operations; the gateway decides, this only dims what it would refuse."""
    return caller.role is not Role.VIEWER
