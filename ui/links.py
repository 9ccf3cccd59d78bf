"""Links between pages. The address of a page holds all of its state, so that it can be sent to somebody else."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st


def operation_url(operation: str, run_id: str | None = None) -> str:
    """The page of an operation."""
    return "/operation?" + urlencode({"id": operation, **({"run": run_id} if run_id else {})})


def cluster_url(tag: str, page: str = "cluster") -> str:
    """A page of a cluster: ``cluster``, ``capacity``, ``features`` or ``nodes``."""
    return f"/{page}?" + urlencode({"cluster": tag})


def operation_link(operation: str) -> None:
    """A link to the page of an operation."""
    st.markdown(f"[:material/open_in_new: `{operation}`]({operation_url(operation)})")


def parameter(name: str) -> str | None:
    """A parameter of the page's address."""
    return st.query_params.get(name) or None
