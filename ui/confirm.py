"""Asking once more before something irreversible: the plan is shown, and a name must be typed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from contracts.plans import Plan
from ui.plan_view import plan_shown
from ui.problems import escaped


def ask(key: str) -> None:
    """Open the dialog ``key`` at the next :func:`confirmation` of it."""
    st.session_state[_flag(key)] = True


def close(key: str) -> None:
    """Do not ask any more: it was done, or is not wanted."""
    for each in (_flag(key), f"{_flag(key)}/plan"):
        st.session_state.pop(each, None)


def confirmation(
    key: str,
    *,
    title: str,
    name: str,
    verb: str,
    planned: Callable[[], Plan | None],
    carried_out: Callable[[Plan], None],
) -> None:
    """Draw the dialog ``key`` where :func:`ask` has opened it.

    ``planned`` makes the plan and shows why there is none; it is asked once for each opening. ``name`` must be typed
    before ``verb`` can be clicked; ``carried_out`` then starts what was shown, and says what the gateway refused.
    """
    if _flag(key) not in st.session_state:
        return

    def asked() -> None:
        kept = f"{_flag(key)}/plan"
        if kept not in st.session_state:
            with st.spinner("Making the plan…"):
                st.session_state[kept] = planned()
        plan = st.session_state[kept]
        if plan is None:
            st.session_state.pop(kept)
            return
        plan_shown(plan)
        if not plan.checked_against_account:
            st.button(
                "Make the plan again",
                key=f"{key}/again",
                icon=":material/refresh:",
                on_click=lambda: st.session_state.pop(kept, None),
            )
        typed = st.text_input(f"Type **{escaped(name)}** to confirm", key=f"{key}/typed", autocomplete="off", live=True)
        with st.container(horizontal=True):
            sure = st.button(
                verb,
                key=f"{key}/confirmed",
                type="primary",
                icon=":material/delete_forever:",
                disabled=typed.strip() != name or not plan.valid,
            )
            if st.button("Cancel", key=f"{key}/cancelled"):
                close(key)
                st.rerun()
        if sure:
            carried_out(plan)

    st.dialog(title, width="large", on_dismiss=lambda: close(key))(asked)()


def _flag(key: str) -> str:
    return f"confirm/{key}"
