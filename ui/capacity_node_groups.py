"""EKS node groups: EC2 instances beside HyperPod's."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.node_groups import NodeGroup, NodeGroupScaling, NodeGroupSpec
from contracts.options import Options
from ui.capacity_chart import zones_of
from ui.capacity_choice import chosen_action
from ui.capacity_groups import REFRESH, node_groups_of, stale_note
from ui.choices import options
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.marks import labels_field, taints_field
from ui.problems import escaped, problems_shown
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

_CREATE, _SCALE, _DELETE = "Create a node group", "Scale", "Delete"


def node_groups_tab(record: ClusterRecord, may: bool) -> None:
    """Table, and a form for what is to be done."""
    _live(record)
    with problems_shown():
        groups = {each.name: each for each in node_groups_of(record.tag).node_groups}
        action, name = chosen_action(f"{record.tag}/node-groups", _CREATE, [_SCALE, _DELETE], "Node group", groups)
        with st.container(border=True):
            if name is None:
                _create(record, may)
            elif action == _SCALE:
                _scale(record.tag, groups[name], may)
            else:
                _delete(record.tag, groups[name], may)


@st.fragment(run_every=REFRESH)
def _live(record: ClusterRecord) -> None:
    with problems_shown():
        found = node_groups_of(record.tag)
        stale_note(found.live)
        if not found.node_groups:
            st.info("The cluster has no EKS node groups.", icon=":material/dns:")
            return
        st.dataframe(
            [_row(each, record) for each in found.node_groups],
            hide_index=True,
            height="content",
            alt=f"{len(found.node_groups)} EKS node groups",
        )


def _row(group: NodeGroup, record: ClusterRecord) -> dict[str, Any]:
    return {
        "Node group": group.name,
        "Ready": f"{group.ready} / {group.desired}",
        "Bounds": f"{group.minimum} – {group.maximum}",
        "Status": group.status,
        "Types": ", ".join(group.instance_types),
        "Zones": zones_of(group.subnet_ids, record.network),
        "Bought as": group.capacity,
        "Accelerators": group.accelerators,
        "Made by": "InstantStart" if group.owned else "others",
        "Problem": group.problem or "",
    }


def _create(record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/create-node-group"
    found, known = faults(form), options(record.region)
    fields = Fields(NodeGroupSpec, form, found, disabled=not may)
    body = _shape(fields, known, found) | _scaling(Fields(NodeGroupScaling, form, found, "/scaling", not may))
    with st.expander("More choices", icon=":material/tune:"):
        body |= _more(fields)
    wish = Wish(form, endpoints.CREATE_NODE_GROUP, {"tag": record.tag}, body)
    plan_and_start(wish, found, start="Create the node group", may=may)


def _shape(fields: Fields, known: Options, found: Faults) -> Entered:
    name, types, zones = st.columns([2, 4, 3])
    with name:
        entered = fields.text("name", "Name", "cpu")
    with types:
        offered = [each.instance_type.removeprefix("ml.") for each in known.instance_types]
        entered |= fields.choices("instance_types", "EC2 instance types", offered, placeholder="e.g. m6i.2xlarge")
    with zones:
        entered |= fields.choices(
            "availability_zones",
            "Availability Zones",
            [each.name for each in known.zones],
            placeholder="the cluster's",
        )
    return entered


def _scaling(fields: Fields) -> Entered:
    entered: Entered = {}
    members = (("desired", "Nodes", "2"), ("minimum", "At least", "0"), ("maximum", "At most", "as nodes"))
    for column, (member, label, hint) in zip(st.columns(3), members, strict=True):
        with column:
            entered |= fields.number(member, label, hint)
    fields.faults.at(fields.pointer)
    return {"scaling": entered} if entered else {}


def _more(fields: Fields) -> Entered:
    left, right = st.columns(2)
    with left:
        entered = fields.choice("capacity", "Capacity")
        entered |= fields.text("capacity_reservation_id", "Reservation of a capacity block", "cr-…")
        entered |= fields.number("volume_gib", "Volume of each node (GiB)")
        entered |= fields.switch("efa", "EFA interfaces")
    with right:
        entered |= fields.choices("subnet_ids", "Subnets", [], placeholder="those of the zones")
        entered |= labels_field(fields)
        entered |= taints_field(fields)
    return entered


def _scale(tag: str, group: NodeGroup, may: bool) -> None:
    form = f"{tag}/node-groups/{group.name}/scale"
    found = faults(form)
    fields = Fields(NodeGroupScaling, f"{form}/{group.desired}", found, disabled=not may)
    body: Entered = {}
    members = (
        ("desired", "Nodes", group.desired),
        ("minimum", "At least", group.minimum),
        ("maximum", "At most", group.maximum),
    )
    for column, (member, label, now) in zip(st.columns(3), members, strict=True):
        with column:
            body |= fields.number(member, label, f"{now}, as it is")
    wish = Wish(form, endpoints.SCALE_NODE_GROUP, {"tag": tag, "name": group.name}, body)
    plan_and_start(wish, found, start=f"Scale {group.name}", may=may)


def _delete(tag: str, group: NodeGroup, may: bool) -> None:
    st.caption(f"Its pods are evicted, its nodes ({group.ready}) end, and what was made for it goes.")
    confirm_and_start(
        Wish(f"{tag}/node-groups/{group.name}/delete", endpoints.DELETE_NODE_GROUP, {"tag": tag, "name": group.name}),
        title=f"Delete node group {escaped(group.name)}",
        name=group.name,
        verb="Delete the node group",
        may=may,
    )
