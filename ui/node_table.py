"""Nodes as a table, page by page, in which several can be chosen."""

from __future__ import annotations

import hashlib
from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.answers import NodePage
from contracts.node_views import NodeResource, NodesSummary, NodeView
from contracts.words import number_of
from ui.problems import problems_shown
from ui.session import gateway
from ui.times import at

REFRESH = "15s"
PAGE_SIZE = 50
DEVICES = ("nvidia.com/gpu", "aws.amazon.com/neuron")
"""Accelerators as Kubernetes names them."""


def device_of(resources: list[NodeResource]) -> NodeResource | None:
    """The accelerator of a node."""
    by_name = {each.name: each for each in resources}
    return next((by_name[name] for name in DEVICES if name in by_name), None)


def table(tag: str, group: str | None, unhealthy: bool) -> list[str]:
    """Draw the nodes that pass the filter, and return the names of those that are chosen."""
    scope = f"{tag}/nodes/{group or ''}/{unhealthy}"
    tokens: list[str | None] = st.session_state.setdefault(f"{scope}/pages", [None])
    _live(scope, tag, group, unhealthy, tokens[-1], len(tokens))
    chosen: list[str] = st.session_state.get(f"{scope}/chosen", [])
    return chosen


@st.fragment(run_every=REFRESH)
def _live(scope: str, tag: str, group: str | None, unhealthy: bool, token: str | None, number: int) -> None:
    with problems_shown():
        with st.spinner("Reading the nodes…"):
            page = gateway().call(
                endpoints.LIST_NODES,
                tag=tag,
                group=group,
                unhealthy=unhealthy or None,
                page_size=PAGE_SIZE,
                page_token=token,
            )
        _summary(page.summary)
        if not page.nodes:
            _nothing(group, unhealthy, page.summary.nodes)
            _choose(scope, [])
            return
        _choose(scope, _drawn(scope, page))
        _paging(scope, page, number)


def _summary(summary: NodesSummary) -> None:
    with st.container(horizontal=True):
        st.metric("Nodes", summary.nodes, border=True)
        st.metric("Ready", summary.ready, border=True)
        st.metric("Unhealthy", summary.unhealthy, border=True)
        for each in summary.resources:
            if each.name in DEVICES:
                pending = f"{each.pending} asked for by pending pods" if each.pending else None
                st.metric(
                    f"{each.name} used / allocatable",
                    f"{each.used} / {each.allocatable}",
                    pending,
                    delta_color="off",
                    border=True,
                )
        st.metric("Pods (pending)", f"{summary.pods} ({summary.pods_pending})", border=True)


def _nothing(group: str | None, unhealthy: bool, nodes: int) -> None:
    if not nodes:
        st.info("The cluster has no nodes.", icon=":material/dns:")
    elif unhealthy:
        st.success("No node is unhealthy" + (f" in {group}." if group else "."), icon=":material/check_circle:")
    else:
        st.info(f"There are no nodes in `{group}`.", icon=":material/search_off:")


def _drawn(scope: str, page: NodePage) -> list[str]:
    names = [each.name for each in page.nodes]
    # Rows are chosen by their places: with other nodes in them, nothing is chosen any more.
    content = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    state = st.dataframe(
        [_row(each) for each in page.nodes],
        hide_index=True,
        height="content" if len(names) <= 10 else 400,
        key=f"{scope}/table/{content}",
        on_select="rerun",
        selection_mode="multi-row",
        alt=number_of(len(names), "node"),
    )
    return [names[place] for place in state.selection.rows if place < len(names)]


def _choose(scope: str, chosen: list[str]) -> None:
    """What is chosen is told to the whole page, once."""
    key = f"{scope}/chosen"
    if st.session_state.get(key, []) != chosen:
        st.session_state[key] = chosen
        st.rerun()


def _row(node: NodeView) -> dict[str, Any]:
    device = device_of(node.resources)
    return {
        "Node": node.name,
        "Group": node.group,
        "Health": "healthy" if node.healthy else "; ".join(node.problems) or "not healthy",
        "Status": node.status or ("Ready" if node.ready else "not Ready"),
        "Type": node.instance_type,
        "Zone": node.zone,
        "Bought as": node.capacity_type,
        "GPUs": f"{device.used} / {device.allocatable}" if device is not None else "",
        "Pods": node.pods,
        "Launched": at(node.launched_at) if node.launched_at is not None else "",
    }


def _paging(scope: str, page: NodePage, number: int) -> None:
    tokens: list[str | None] = st.session_state[f"{scope}/pages"]
    last = max(1, -(-page.matching // PAGE_SIZE))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{number_of(page.matching, 'node')} · page {number} of {last} · read {at(page.read_at)}")
        if number > 1 and st.button("Back", key=f"{scope}/back", icon=":material/chevron_left:"):
            tokens.pop()
            st.rerun()
        if page.next_page_token and st.button("Next", key=f"{scope}/next", icon=":material/chevron_right:"):
            tokens.append(page.next_page_token)
            st.rerun()
