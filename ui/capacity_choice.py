"""What is to be done, and to which of those that are there."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st


def chosen_action(key: str, create: str, others: list[str], what: str, names: Iterable[str]) -> tuple[str, str | None]:
    """``create``, or one of ``others`` with the name that it is for. Only the first where there are no names."""
    known = sorted(names)
    if not known:
        st.markdown(f"**{create}**")
        return create, None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        action = st.segmented_control(
            "What to do", [create, *others], default=create, required=True, key=f"{key}/action"
        )
        name = st.selectbox(what, known, key=f"{key}/name", width=280) if action != create else None
    return action, name
