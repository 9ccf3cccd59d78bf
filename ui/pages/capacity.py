"""What a cluster's nodes are made of: instance groups, EKS node groups, node pools, and their software."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from contracts.cluster import ClusterRecord
from ui.capacity_add import add_tab
from ui.capacity_groups import groups_tab
from ui.capacity_node_groups import node_groups_tab
from ui.capacity_node_pools import node_pools_tab
from ui.capacity_software import software_tab
from ui.cluster_picker import chosen_cluster, view_of
from ui.problems import problems_shown
from ui.session import may_change, signed_in

_TABS: dict[str, Callable[[ClusterRecord, bool], None]] = {
    "Instance groups": groups_tab,
    "Add a group": add_tab,
    "EKS node groups": node_groups_tab,
    "Node pools": node_pools_tab,
    "Software": software_tab,
}


def page() -> None:
    """Draw the page."""
    st.title("Capacity", anchor=False)
    caller = signed_in()
    tag = chosen_cluster(caller)
    with problems_shown():
        record = view_of(tag).record
        for tab, draw in zip(st.tabs(list(_TABS), key="tab", bind="query-params"), _TABS.values(), strict=True):
            if tab.open:
                with tab:
                    draw(record, may_change(caller))
