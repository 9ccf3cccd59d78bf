"""Node pools of managed Karpenter: instance groups that grow with their pods, and shrink."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.node_pools import NodePool, NodePoolSpec
from ui.capacity_choice import chosen_action
from ui.capacity_groups import REFRESH, instance_groups_of, node_pools_of, stale_note
from ui.fields import Entered, Fields
from ui.links import page_link
from ui.marks import labels_field, taints_field
from ui.problems import escaped, problems_shown
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

_CREATE, _DELETE = "Create or change a node pool", "Delete"


def node_pools_tab(record: ClusterRecord, may: bool) -> None:
    """Table, and a form for what is to be done."""
    _live(record)
    with problems_shown():
        pools = {each.name: each for each in node_pools_of(record.tag).node_pools}
        _, name = chosen_action(f"{record.tag}/node-pools", _CREATE, [_DELETE], "Node pool", pools)
        with st.container(border=True):
            if name is None:
                _create(record, may)
            else:
                _delete(record.tag, pools[name], may)


@st.fragment(run_every=REFRESH)
def _live(record: ClusterRecord) -> None:
    with problems_shown():
        found = node_pools_of(record.tag)
        stale_note(found.live)
        if not found.node_pools:
            st.info(
                "The cluster has no node pools. They need the feature *Managed Karpenter*.",
                icon=":material/trending_up:",
            )
            page_link("features", "Features", ":material/toggle_on:", cluster=record.tag)
            return
        st.dataframe(
            [_row(each) for each in found.node_pools],
            hide_index=True,
            height="content",
            alt=f"{len(found.node_pools)} node pools",
        )


def _row(pool: NodePool) -> dict[str, Any]:
    limit = "no limit" if pool.gpu_limit is None else str(pool.gpu_limit)
    return {
        "Node pool": pool.name,
        "Ready": "ready" if pool.ready else f"not ready: {pool.reason or 'unknown why'}",
        "Instance groups": ", ".join(pool.instance_groups),
        "Nodes": pool.nodes,
        "Accelerators / limit": f"{pool.accelerators} / {limit}",
        "Consolidation": f"{pool.consolidation or '?'} after {pool.consolidate_after or '?'}",
        "Made by": "InstantStart" if pool.owned else "others",
    }


def _create(record: ClusterRecord, may: bool) -> None:
    form = f"{record.tag}/create-node-pool"
    found = faults(form)
    fields = Fields(NodePoolSpec, form, found, disabled=not may)
    groups = [each.name for each in instance_groups_of(record.tag).instance_groups]
    name, scaled, limit = st.columns([2, 4, 2])
    with name:
        body = fields.text("name", "Name", "gpus")
    with scaled:
        body |= fields.choices("instance_groups", "Instance groups that it scales", groups, placeholder="choose")
    with limit:
        body |= fields.number("gpu_limit", "Accelerators at most", "as quotas give")
    body |= fields.switch("accept_scale_down", "Groups that have instances now may shrink to what pods need")
    with st.expander("More choices", icon=":material/tune:"):
        body |= _more(fields)
    wish = Wish(form, endpoints.CREATE_NODE_POOL, {"tag": record.tag}, body)
    plan_and_start(wish, found, start="Create the node pool", may=may)


def _more(fields: Fields) -> Entered:
    left, right = st.columns(2)
    with left:
        entered = fields.choice("consolidation", "Nodes go when")
        entered |= fields.text("consolidate_after", "After so long")
        entered |= fields.number("weight", "Weight among pools", "none")
    with right:
        entered |= labels_field(fields)
        entered |= taints_field(fields)
    return entered


def _delete(tag: str, pool: NodePool, may: bool) -> None:
    st.caption(f"Its pods are evicted, and its nodes ({pool.nodes}) go. Its instance groups stay.")
    confirm_and_start(
        Wish(f"{tag}/node-pools/{pool.name}/delete", endpoints.DELETE_NODE_POOL, {"tag": tag, "name": pool.name}),
        title=f"Delete node pool {escaped(pool.name)}",
        name=pool.name,
        verb="Delete the node pool",
        may=may,
    )
