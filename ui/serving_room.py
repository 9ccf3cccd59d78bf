"""Which nodes have room for a model server now, by their instance type."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.answers import NodePage
from contracts.node_views import NodeView
from ui.kept import kept
from ui.node_table import device_of
from ui.problems import escaped
from ui.session import gateway

_SECONDS = 15.0
_MOST = 200


@dataclass(frozen=True)
class Room:
    """Accelerators of all ready nodes of a type, in whole devices."""

    instance_type: str
    nodes: int
    total: int
    free: int
    most_on_one: int
    """Free on one node: a replica takes all of its own from one."""


def rooms_of(nodes: list[NodeView]) -> list[Room]:
    """By instance type; only of nodes that would take a pod."""
    by_type: dict[str, list[NodeView]] = {}
    for node in nodes:
        if node.ready and not node.unschedulable and node.instance_type:
            by_type.setdefault(node.instance_type, []).append(node)
    return [_room(name, each) for name, each in sorted(by_type.items())]


def _room(name: str, nodes: list[NodeView]) -> Room:
    devices = [device for node in nodes if (device := device_of(node.resources)) is not None]
    free = [max(device.allocatable - device.used, 0) for device in devices]
    return Room(name, len(nodes), sum(each.allocatable for each in devices), sum(free), max(free, default=0))


def room_shown(tag: str) -> list[str]:
    """Draw free capacity, and return the instance types that there are. What cannot be told is said so."""
    try:
        page = kept(f"room/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_NODES, tag=tag, page_size=_MOST))
    except GatewayProblem as error:
        st.caption(f":material/cloud_off: Free capacity is not known: {escaped(error.problem.detail)}")
        return []
    rooms = rooms_of(page.nodes)
    _drawn(rooms, page)
    return [each.instance_type for each in rooms]


def _drawn(rooms: list[Room], page: NodePage) -> None:
    st.markdown("**Free now**")
    if not rooms:
        st.caption("No node is ready for a pod.")
        return
    st.dataframe(
        [
            {
                "Type": each.instance_type,
                "Nodes": each.nodes,
                "GPUs free": f"{each.free} of {each.total}",
                "Most on one": each.most_on_one,
            }
            for each in rooms
        ],
        hide_index=True,
        height="content",
        alt="Free accelerators by instance type",
    )
    if page.matching > len(page.nodes):
        st.caption(f"Of the first {len(page.nodes)} of {page.matching} nodes.")
