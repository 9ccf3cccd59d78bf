"""Instance groups of a cluster: what they are, and what can be done to one."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from contracts import endpoints
from contracts.answers import InstanceGroupList, NodeGroupList, NodePoolList
from contracts.capacity import DeepHealthCheck
from contracts.cluster import ClusterRecord
from contracts.hyperpod import InstanceGroup
from contracts.instance_groups import IMMUTABLE, InstanceGroupChanges
from ui.capacity_chart import capacity_picture, placed_groups, placed_node_groups, zones_of
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.kept import kept
from ui.links import page_link
from ui.marks import labels_field, taints_field
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

REFRESH = "10s"
_KEPT_SECONDS = 8.0
_SCALE, _CHANGE, _DELETE = "Scale", "Change", "Delete"


def instance_groups_of(tag: str) -> InstanceGroupList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(
        f"{tag}/instance-groups", _KEPT_SECONDS, lambda: gateway().call(endpoints.LIST_INSTANCE_GROUPS, tag=tag)
    )


def node_groups_of(tag: str) -> NodeGroupList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"{tag}/node-groups", _KEPT_SECONDS, lambda: gateway().call(endpoints.LIST_NODE_GROUPS, tag=tag))


def node_pools_of(tag: str) -> NodePoolList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"{tag}/node-pools", _KEPT_SECONDS, lambda: gateway().call(endpoints.LIST_NODE_POOLS, tag=tag))


def stale_note(live: bool) -> None:
    """Say so where what is shown is not how things are now."""
    if not live:
        st.warning(
            "The account gave no answer in time: this is what the cluster's record last had.",
            icon=":material/cloud_off:",
        )


def locked_note() -> str:
    """What belongs to a group's instances, as Markdown."""
    return (
        f":material/lock: **{', '.join(name.replace('_', ' ') for name in IMMUTABLE)}** belong to the instances and "
        "stay as they were made: for others, add a group, move the work, and delete the old one."
    )


def groups_tab(record: ClusterRecord, may: bool) -> None:
    """Picture, table, and what can be done to one group."""
    _live(record)
    with problems_shown():
        groups = {each.name: each for each in instance_groups_of(record.tag).instance_groups}
        if groups:
            st.subheader("Change a group", anchor=False)
            _one(record, groups, may)


@st.fragment(run_every=REFRESH)
def _live(record: ClusterRecord) -> None:
    with problems_shown():
        found = instance_groups_of(record.tag)
        beside, pools = node_groups_of(record.tag), node_pools_of(record.tag)
        stale_note(found.live or found.hyperpod_cluster is None)
        if not found.instance_groups and not beside.node_groups:
            st.info(
                "There are no nodes yet: add an instance group, or create the HyperPod cluster first."
                if found.hyperpod_cluster is None
                else f"{escaped(found.hyperpod_cluster)} has no instance groups: add one.",
                icon=":material/memory:",
            )
            return
        st.markdown("**Nodes by Availability Zone and type**")
        capacity_picture(
            placed_groups(found.instance_groups, record.network)
            + placed_node_groups(beside.node_groups, record.network)
        )
        if found.instance_groups:
            pooled = {group: pool.name for pool in pools.node_pools for group in pool.instance_groups}
            st.markdown(
                f"**Instance groups** of `{found.hyperpod_cluster}`"
                + (f", which is {escaped(found.status)}" if found.status else "")
            )
            st.dataframe(
                [_row(each, record, pooled) for each in found.instance_groups],
                hide_index=True,
                height="content" if len(found.instance_groups) <= 14 else 520,
                column_config={"Nodes": st.column_config.TextColumn(help="there / target")},
                alt=f"{len(found.instance_groups)} instance groups",
            )


def _row(group: InstanceGroup, record: ClusterRecord, pooled: dict[str, str]) -> dict[str, Any]:
    return {
        "Group": group.name,
        "Nodes": f"{group.current} / {group.target}",
        "Status": group.status,
        "Type": ", ".join([group.instance_type, *group.alternative_types]),
        "Zone": zones_of(group.subnet_ids, record.network),
        "Bought as": group.capacity,
        "Scaled by": f"Karpenter ({pooled[group.name]})" if group.name in pooled else "hand",
        "Deep health checks": ", ".join(group.deep_health_checks) or "none",
    }


def _one(record: ClusterRecord, groups: dict[str, InstanceGroup], may: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Group", sorted(groups), key="group", bind="query-params", width=280)
        action = st.segmented_control(
            "What to do",
            [_SCALE, _CHANGE, _DELETE],
            default=_SCALE,
            required=True,
            key="capacity/action",
            label_visibility="collapsed",
        )
        page_link("nodes", "Its nodes", ":material/list:", cluster=record.tag, group=name)
    group = groups[name]
    draw = {_SCALE: _scale, _CHANGE: _change, _DELETE: _delete}[action]
    with st.container(border=True):
        draw(record.tag, group, may)


def _scale(tag: str, group: InstanceGroup, may: bool) -> None:
    form = f"{tag}/{group.name}/scale"
    found = faults(form)
    st.caption(f"There: {group.current}. Wanted: {group.target}.")
    count = st.number_input("Instances", value=group.target, step=1, key=f"{form}/{group.target}/count", width=200)
    found.at("/count")
    wish = Wish(form, endpoints.SCALE_INSTANCE_GROUP, {"tag": tag, "group": group.name}, {"count": count})
    plan_and_start(wish, found, start=f"Scale {group.name} from {group.target} to {count}", may=may)


def _change(tag: str, group: InstanceGroup, may: bool) -> None:
    form = f"{tag}/{group.name}/change"
    found = faults(form)
    st.caption(locked_note())
    body = _changes(Fields(InstanceGroupChanges, form, found), group, found)
    wish = Wish(form, endpoints.UPDATE_INSTANCE_GROUP, {"tag": tag, "group": group.name}, body)
    plan_and_start(wish, found, start=f"Change {', '.join(body).replace('_', ' ')} of {group.name}", may=may)


def _changes(fields: Fields, group: InstanceGroup, found: Faults) -> Entered:
    left, right = st.columns(2)
    with left:
        now = "any number" if group.min_count is None else str(group.min_count)
        entered = fields.number("min_count", "Works only with at least", placeholder=f"{now}, as it is")
        entered |= fields.number("volume_gib", "Volume of instances that come later (GiB)", placeholder="as it is")
        checks = st.multiselect(
            "Deep health checks", get_args(DeepHealthCheck), group.deep_health_checks, key=f"{fields.key}/checks"
        )
        found.at("/deep_health_checks")
        if set(checks) != set(group.deep_health_checks):
            entered["deep_health_checks"] = checks
    with right:
        entered |= labels_field(fields, "All labels that it should have", group.labels)
        entered |= taints_field(fields, "All taints that it should have", group.taints)
    return entered


def _delete(tag: str, group: InstanceGroup, may: bool) -> None:
    form = f"{tag}/{group.name}/delete"
    st.caption(f"The group goes, with its instances ({group.current}) and everything on their volumes.")
    drain = st.toggle("Move its pods first, within their disruption budgets", value=True, key=f"{form}/drain")
    parameters = {"tag": tag, "group": group.name, **({} if drain else {"drain": False})}
    confirm_and_start(
        Wish(form, endpoints.DELETE_INSTANCE_GROUP, parameters),
        title=f"Delete instance group {escaped(group.name)}",
        name=group.name,
        verb="Delete the group",
        may=may,
    )
