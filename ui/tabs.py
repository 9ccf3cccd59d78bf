"""Pages of one cluster that are made of tabs; only the one that is looked at is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from contracts.cluster import ClusterRecord
from ui.cluster_picker import chosen_cluster, view_of
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
        for tab, draw in zip(st.tabs(list(tabs), key="tab", bind="query-params"), tabs.values(), strict=True):
            if tab.open:
                with tab:
                    draw(record, may_change(caller))
