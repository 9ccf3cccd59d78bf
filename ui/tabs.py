"""Pages of one cluster that are made of tabs; only the one that is looked at is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from contracts.cluster import ClusterRecord
from ui.cluster_picker import chosen_cluster, view_of
from ui.links import parameter
from ui.problems import problems_shown
from ui.session import may_change, signed_in

Tab = Callable[[ClusterRecord, bool], None]
"""Draws a tab for a cluster, and for somebody who may change things or not."""


def tabbed_page(title: str, tabs: Mapping[str, Tab]) -> None:
    """Draw a page. The address names the cluster and the tab."""
    st.title(title, anchor=False)
    caller = signed_in()
    tag = chosen_cluster(caller)
    with problems_shown():
        record = view_of(tag).record
        _as_linked(tabs)
        for tab, draw in zip(st.tabs(list(tabs), key="tab", bind="query-params"), tabs.values(), strict=True):
            if tab.open:
                with tab:
                    draw(record, may_change(caller))


def _as_linked(tabs: Mapping[str, Tab]) -> None:
    """Open the tab that a link names. Streamlit remembers the one that was open when the page was left, and a link to
    the first tab would not win over that."""
    named = parameter("tab")
    if named in tabs and st.session_state.get("tab") != named:
        st.session_state["tab"] = named
