"""What was read a moment ago, kept for one browser session: a click beside it does not ask the account anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast

import streamlit as st

from client.sync import GatewayProblem
from ui.problems import escaped

T = TypeVar("T")


def kept(name: str, seconds: float, read: Callable[[], T]) -> T:
    """What ``read`` gave at most so many seconds ago under this name. Its exceptions are not kept.

    Where nobody answers for the moment, what it gave last, and a line that says so: what is entered into a form is lost
    when the form is not drawn.
    """
    key = f"kept/{name}"
    at, found = st.session_state.get(key, (None, None))
    if at is None or time.monotonic() - at > seconds:
        try:
            found = read()
        except GatewayProblem as error:
            if at is None or not error.problem.retryable:
                raise
            st.caption(f":material/cloud_off: Not up to date: {escaped(error.problem.detail)}")
        else:
            st.session_state[key] = (time.monotonic(), found)
    return cast(T, found)


def drop(name: str) -> None:
    """Read it anew next time."""
    st.session_state.pop(f"kept/{name}", None)
