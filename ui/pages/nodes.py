"""Nodes of a cluster: health, devices and pods; rebooted, replaced and deleted."""

from __future__ import annotations

import streamlit as st

from contracts.cluster import ClusterRecord
from ui.cluster_picker import chosen_cluster, view_of
from ui.diagnosis import diagnose_link
from ui.links import parameter
from ui.node_actions import actions
from ui.node_detail import living_there, node_shown
from ui.node_table import table
from ui.problems import escaped, problems_shown
from ui.session import may_change, signed_in

_MOST_LINKS = 5


def page() -> None:
    """Draw the page."""
    st.title("Nodes", anchor=False)
    caller = signed_in()
    tag = chosen_cluster(caller)
    may = may_change(caller)
    node = parameter("node")
    with problems_shown():
        if node is not None:
            _one(tag, node, may)
        else:
            _all(view_of(tag).record, may)


def _one(tag: str, node: str, may: bool) -> None:
    st.button(
        "All nodes", key="nodes/all", icon=":material/arrow_back:", type="tertiary", on_click=_look_at, args=(None,)
    )
    st.subheader(escaped(node), anchor=False)
    diagnose_link(tag, "node", node, label="Diagnose this node")
    node_shown(tag, node)
    actions(tag, [node], may)


def _all(record: ClusterRecord, may: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        group = st.selectbox(
            "Group", _groups(record), index=None, key="group", bind="query-params", placeholder="all groups", width=280
        )
        unhealthy = st.toggle("Only unhealthy ones", key="unhealthy", bind="query-params")
    chosen = table(record.tag, group, unhealthy)
    if not chosen:
        st.caption("Choose nodes in the table to see one closely, or to do something to them.")
        return
    with st.container(horizontal=True):
        for name in chosen[:_MOST_LINKS]:
            st.button(
                name,
                key=f"nodes/look/{name}",
                icon=":material/zoom_in:",
                type="tertiary",
                on_click=_look_at,
                args=(name,),
            )
    living_there(record.tag, chosen)
    actions(record.tag, chosen, may)


def _look_at(node: str | None) -> None:
    """One node, or all of them: the address says so."""
    if node is None:
        st.query_params.pop("node", None)
    else:
        st.query_params["node"] = node


def _groups(record: ClusterRecord) -> list[str]:
    """Groups that nodes may be of; also one that only the address names."""
    named = {each.name for each in record.hyperpod.groups} if record.hyperpod is not None else set()
    named |= {each.name for each in record.node_groups} | {each.name for each in record.node_pools}
    return sorted(named | ({asked} if (asked := parameter("group")) else set()))
