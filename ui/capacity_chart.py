"""Capacity as a picture: how many nodes of which type are in which Availability Zone, there and still to come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import altair as alt
import streamlit as st

from contracts.hyperpod import InstanceGroup
from contracts.network import Network
from contracts.node_groups import NodeGroup

UNKNOWN_ZONE = "?"
_LEGEND = alt.Legend(orient="top", direction="horizontal", labelLimit=260)


@dataclass(frozen=True)
class Placed:
    """So many nodes of one group."""

    zone: str
    instance_type: str
    group: str
    capacity: str
    state: str
    """``there`` or ``to come``."""
    nodes: int


def zones_of(subnet_ids: Iterable[str], network: Network | None) -> str:
    """The zones of subnets, as a label; without subnets, those of the cluster's compute subnets."""
    subnets = {each.subnet_id: each.zone for each in network.compute_subnets} if network is not None else {}
    ids = list(subnet_ids) or list(subnets)
    zones = sorted({subnets.get(each, UNKNOWN_ZONE) for each in ids})
    return ", ".join(zones) or UNKNOWN_ZONE


def placed_groups(groups: Iterable[InstanceGroup], network: Network | None) -> list[Placed]:
    """Nodes of instance groups."""
    return [
        Placed(zones_of(each.subnet_ids, network), each.instance_type, each.name, each.capacity, state, nodes)
        for each in groups
        for state, nodes in (("there", each.current), ("to come", each.target - each.current))
        if nodes > 0
    ]


def placed_node_groups(groups: Iterable[NodeGroup], network: Network | None) -> list[Placed]:
    """Nodes of EKS node groups."""
    return [
        Placed(
            zones_of(each.subnet_ids, network), "/".join(each.instance_types), each.name, each.capacity, state, nodes
        )
        for each in groups
        for state, nodes in (("there", each.ready), ("to come", each.desired - each.ready))
        if nodes > 0
    ]


def capacity_picture(placed: list[Placed]) -> None:
    """Draw a bar for each zone; its parts are types, and paler where nodes are still to come."""
    if not placed:
        st.caption("There are no nodes to draw.")
        return
    zones = sorted({each.zone for each in placed})
    bars = (
        alt.Chart({"values": [vars(each) for each in placed]})
        .mark_bar(height=22, cornerRadius=3, stroke="white", strokeWidth=1)
        .encode(
            y=alt.Y("zone:N", title=None, sort=zones, axis=alt.Axis(labelFontSize=13, labelLimit=260)),
            x=alt.X("nodes:Q", title="nodes", stack="zero", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color("instance_type:N", title=None, scale=alt.Scale(scheme="tableau10"), legend=_LEGEND),
            opacity=alt.Opacity(
                "state:N", title=None, scale=alt.Scale(domain=["there", "to come"], range=[1, 0.35]), legend=_LEGEND
            ),
            tooltip=[
                alt.Tooltip("group:N", title="group"),
                alt.Tooltip("instance_type:N", title="type"),
                alt.Tooltip("zone:N", title="zone"),
                alt.Tooltip("capacity:N", title="bought as"),
                alt.Tooltip("nodes:Q", title="nodes"),
                alt.Tooltip("state:N", title="they are"),
            ],
        )
        .properties(height=36 * len(zones) + 80)
    )
    st.altair_chart(bars, width="stretch")
