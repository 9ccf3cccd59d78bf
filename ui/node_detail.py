"""One node closely: what it is, how it feels, and what lives on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.node_views import NodeView, PodOnNode
from ui.logs import pod_log_links
from ui.marks import labels_text, taints_text
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.times import ago, at

REFRESH = "15s"
_MOST_READ = 10


@st.fragment(run_every=REFRESH)
def node_shown(tag: str, name: str) -> None:
    """Draw the node, anew every few seconds."""
    with problems_shown():
        with st.spinner("Reading the node…"):
            found = gateway().call(endpoints.GET_NODE, tag=tag, node=name)
        _health(found.node)
        facts, rest = st.columns([2, 3])
        with facts:
            _facts(found.node, found.read_at)
        with rest:
            st.markdown(f"**Pods** ({len(found.pods)})")
            _pods([(name, pod) for pod in found.pods], found.read_at)
            pod_log_links(tag, [(pod.namespace, pod.name) for pod in found.pods], f"{tag}/nodes/{name}")
            _resources(found.node)
        _conditions(found.node)
        _marks(found.node)
        st.caption(f"Read {at(found.read_at)}.")


def living_there(tag: str, nodes: list[str]) -> None:
    """What lives on several nodes, read when somebody opens it."""
    with st.expander("What lives there", icon=":material/apps:", key=f"{tag}/nodes/living", on_change="rerun") as place:
        if not place.open:
            return
        with problems_shown(), st.spinner("Reading the nodes…"):
            read = [gateway().call(endpoints.GET_NODE, tag=tag, node=name) for name in nodes[:_MOST_READ]]
            latest = max((each.read_at for each in read), default=datetime.now(UTC))
            _pods([(each.node.name, pod) for each in read for pod in each.pods], latest)
        if len(nodes) > _MOST_READ:
            st.caption(f"Of the first {_MOST_READ} of {len(nodes)} nodes; the plan names the pods of all.")


def _pods(found: list[tuple[str, PodOnNode]], read_at: datetime) -> None:
    if not found:
        st.caption("No pods.")
        return
    nodes = len({node for node, _ in found})
    st.dataframe(
        [{**({"Node": node} if nodes > 1 else {}), **_pod(pod, read_at)} for node, pod in found],
        hide_index=True,
        height="content" if len(found) <= 9 else 360,
        alt=f"{len(found)} pods",
    )


def _pod(pod: PodOnNode, read_at: datetime) -> dict[str, Any]:
    return {
        "Pod": f"{pod.namespace}/{pod.name}",
        "Belongs to": f"{pod.owner_kind} {pod.owner}",
        "Phase": pod.phase,
        "GPUs": pod.accelerators,
        "Last checkpoint": ago(pod.checkpoint_at, read_at) if pod.checkpoint_at is not None else "not known",
    }


def _health(node: NodeView) -> None:
    if node.healthy:
        st.success("Healthy", icon=":material/check_circle:")
    else:
        said = "\n".join(f"- {escaped(each)}" for each in node.problems) or "- no reason is known"
        st.error(f"**Not healthy**\n\n{said}", icon=":material/error:")
    if node.message:
        st.markdown(escaped(node.message))
    if node.unschedulable:
        st.info("Cordoned: no new pods come.", icon=":material/block:")


def _facts(node: NodeView, read_at: datetime) -> None:
    launched = f"{at(node.launched_at)} ({ago(node.launched_at, read_at)})" if node.launched_at is not None else None
    image = " ".join(filter(None, (node.image_version, node.image_status))) or None
    facts = {
        "Made by": node.kind.value,
        "Group": node.group,
        "Node pool": node.node_pool,
        "Status": node.status,
        "Ready in Kubernetes": "yes" if node.ready else "no",
        "Health label": node.health,
        "Deep health check": node.deep_health_check,
        "Type": node.instance_type,
        "Zone": node.zone,
        "Bought as": node.capacity_type,
        "Instance": node.instance_id,
        "Logical ID": node.logical_id,
        "Kubernetes name": node.kubernetes_name,
        "Launched": launched,
        "Release": image,
        "Image": node.image,
        "Kubelet": node.kubelet,
    }
    st.markdown(
        "\n".join(
            ["| Facts | |", "|---|---|", *(f"| {name} | {escaped(said)} |" for name, said in facts.items() if said)]
        )
    )


def _resources(node: NodeView) -> None:
    if node.resources:
        st.markdown("**Devices**")
        st.dataframe(
            [
                {"Device": each.name, "Used": each.used, "Allocatable": each.allocatable, "Capacity": each.capacity}
                for each in node.resources
            ],
            hide_index=True,
            height="content",
            alt="Devices",
        )


def _conditions(node: NodeView) -> None:
    if node.conditions:
        st.markdown("**Conditions**")
        st.dataframe(
            [
                {"Condition": each.type, "Status": each.status, "Reason": each.reason, "Message": each.message}
                for each in node.conditions
            ],
            hide_index=True,
            height="content",
            alt="Conditions",
        )


def _marks(node: NodeView) -> None:
    labels, taints = st.columns([3, 2])
    with labels:
        st.markdown("**Labels** below `sagemaker.amazonaws.com/`")
        st.code(labels_text(node.labels) or "none", language=None)
    with taints:
        st.markdown("**Taints**")
        st.code(taints_text(node.taints) or "none", language=None)
