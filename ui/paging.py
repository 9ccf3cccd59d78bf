"""Lists that come page by page. How far one has read is kept by the session: a token may be longer than an address."""

from __future__ import annotations

import streamlit as st


def page_token(key: str) -> str | None:
    """Of the page that is looked at; None: the first."""
    token: str | None = st.session_state.get(key)
    return token


def page_buttons(name: str, key: str, following: str | None) -> None:
    """Buttons to the first page and to the next one, which ``following`` is the token of. ``name``: of the list."""
    with st.container(horizontal=True):
        if page_token(key) is not None:
            st.button("First page", key=f"{name}/first", icon=":material/first_page:", on_click=_turn, args=(key, None))
        if following is not None:
            st.button(
                "Next page", key=f"{name}/next", icon=":material/navigate_next:", on_click=_turn, args=(key, following)
            )


def _turn(key: str, token: str | None) -> None:
    st.session_state[key] = token
