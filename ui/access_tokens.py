"""Tokens: who has one, new ones, and those that are taken back."""

from __future__ import annotations

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.access import CreatedToken, CreateTokenRequest, Role, TokenView
from contracts.problem import Problem
from ui.faults import Faults
from ui.fields import Fields
from ui.problems import escaped, problem_box, problems_shown
from ui.session import gateway
from ui.times import at

_NEW = "access/new-token"
_REFUSED = "access/refused"


def tokens_shown() -> None:
    """Draw the tokens, and the form for another one."""
    _new_one()
    with problems_shown():
        for token in gateway().call(endpoints.LIST_TOKENS).tokens:
            _row(token)
    with st.expander("Make a token", icon=":material/key:", expanded=_REFUSED in st.session_state):
        _form()


def _new_one() -> None:
    """The token that was just made: the gateway tells it once, and so does the page."""
    made: CreatedToken | None = st.session_state.get(_NEW)
    if made is None:
        return
    with st.container(border=True):
        st.markdown(f"The token of **{escaped(made.name)}** ({made.role}). It is not kept anywhere: copy it now.")
        st.code(made.token, language=None)
        if st.button("I have copied it", key="access/copied", icon=":material/check:"):
            del st.session_state[_NEW]
            st.rerun()


def _row(token: TokenView) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{escaped(token.name)}**", width=220)
        st.markdown(token.role, width=110)
        st.caption(f"since {at(token.created_at)}", width=260)
        with st.popover("Revoke…", icon=":material/key_off:"):
            st.markdown(f"The token of **{escaped(token.name)}** and all sessions that began with it end at once.")
            if st.button("Revoke it", key=f"access/revoke/{token.name}", type="primary"):
                with problems_shown():
                    gateway().call(endpoints.REVOKE_TOKEN, name=token.name)
                    st.rerun()


def _form() -> None:
    refused: Problem | None = st.session_state.get(_REFUSED)
    found = Faults(refused)
    fields = Fields(CreateTokenRequest, "access/token", found)
    name = fields.text("name", "For whom", placeholder="alice")
    role = st.selectbox("Role", [each.value for each in Role], index=None, key="access/token/role")
    found.at("/role")
    body = {**name, **({"role": role} if role is not None else {})}
    if refused is not None and not found.any("/name", "/role"):
        problem_box(refused)
    if st.button("Make the token", key="access/make", type="primary", icon=":material/add:"):
        st.session_state.pop(_REFUSED, None)
        try:
            st.session_state[_NEW] = gateway().call(endpoints.CREATE_TOKEN, body)
        except GatewayProblem as error:
            st.session_state[_REFUSED] = error.problem
        st.rerun()
