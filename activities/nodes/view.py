"""Every node of a cluster as lists show it, from both sides, with what its pods use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from activities.hyperpod.groups import Specification, capacity_of, groups_of
from activities.hyperpod.observe import LABEL_GROUP, LABEL_HEALTH, LABEL_TYPE, LABEL_ZONE
from activities.instance_types import InstanceFacts
from activities.nodes.back import lacking
from activities.nodes.pods import DEVICES, node_of, requested
from activities.nodes.sight import Raw, count, instance_of, is_ready, labels_of, message_of, status_of
from contracts.node_views import (
    NodeCondition,
    NodeKind,
    NodeResource,
    NodesSummary,
    NodeTaint,
    NodeView,
    ResourceTotal,
)

SAGEMAKER = "sagemaker.amazonaws.com/"
LABEL_COMPUTE = f"{SAGEMAKER}compute-type"
LABEL_DEEP_CHECK = f"{SAGEMAKER}deep-health-check-status"
LABEL_FAULT = f"{SAGEMAKER}fault-"
LABEL_NODE_GROUP = "eks.amazonaws.com/nodegroup"
LABEL_NODE_POOL = "karpenter.sh/nodepool"
CAPACITY_LABELS = (f"{SAGEMAKER}capacity-type", "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType")
SCHEDULABLE = "Schedulable"
"""(SageMaker Developer Guide: resiliency-related Kubernetes labels)"""


@dataclass
class Use:
    """What pods ask for: of each node, and of none yet."""

    devices: dict[str, Counter[str]] = field(default_factory=dict)
    """By node."""
    pods: Counter[str] = field(default_factory=Counter)
    """By node."""
    pending: Counter[str] = field(default_factory=Counter)
    pods_pending: int = 0


def use_of(pods: Iterable[Raw]) -> Use:
    use = Use()
    for pod in pods:
        node, devices = node_of(pod), requested(pod)
        if node is None:
            use.pods_pending += 1
            use.pending.update(devices)
        else:
            use.pods[node] += 1
            if devices:
                use.devices.setdefault(node, Counter()).update(devices)
    return use


def views(
    cluster: Specification | None,
    members: list[Raw],
    nodes: list[Raw],
    use: Use,
    facts: dict[str, InstanceFacts],
) -> list[NodeView]:
    """Every node that either side knows, by group and name."""
    paid = {group["InstanceGroupName"]: capacity_of(group) for group in groups_of(cluster or {})}
    by_instance = {each["InstanceId"]: each for each in members if each.get("InstanceId")}
    found, met = [], set()
    for node in nodes:
        instance = instance_of(node)
        member = by_instance.get(instance or "")
        if member is not None:
            met.add(instance)
        found.append(_view(member, node, paid, use, facts))
    found += [_view(each, None, paid, use, facts) for each in members if each.get("InstanceId") not in met]
    if cluster is not None:
        found = [_orphan(view) if view.kind is NodeKind.HYPERPOD and view.status is None else view for view in found]
    return sorted(found, key=key_of)


def key_of(view: NodeView) -> str:
    """What a list is sorted by, and read on after."""
    return f"{view.group}\n{view.name}"


def summarize(found: list[NodeView], use: Use) -> NodesSummary:
    totals: dict[str, Counter[str]] = {}
    for view in found:
        for each in view.resources:
            totals.setdefault(each.name, Counter()).update(
                capacity=each.capacity, allocatable=each.allocatable, used=each.used
            )
    for name, number in use.pending.items():
        totals.setdefault(name, Counter()).update(pending=number)
    return NodesSummary(
        nodes=len(found),
        ready=sum(view.ready for view in found),
        unhealthy=sum(not view.healthy for view in found),
        statuses=dict(sorted(Counter(view.status for view in found if view.status).items())),
        resources=[ResourceTotal(name=name, **dict(total)) for name, total in sorted(totals.items())],
        pods=sum(use.pods.values()),
        pods_pending=use.pods_pending,
    )


def _view(
    member: Raw | None, node: Raw | None, paid: dict[str, str], use: Use, facts: dict[str, InstanceFacts]
) -> NodeView:
    labels = labels_of(node) if node is not None else {}
    spec: Any = (node or {}).get("spec") or {}
    status: Any = (node or {}).get("status") or {}
    info: Any = status.get("nodeInfo") or {}
    name = node["metadata"]["name"] if node is not None else None
    kind, group = _kind(member, labels)
    instance_type = (member or {}).get("InstanceType") or labels.get(LABEL_TYPE, "")
    known: Any = member or {}
    created = node["metadata"].get("creationTimestamp") if node is not None else None
    problems = _problems(member, node, labels, facts.get(instance_type.removeprefix("ml.")))
    return NodeView(
        name=name or known.get("InstanceId") or known.get("NodeLogicalId") or "",
        kind=kind,
        group=group,
        node_pool=labels.get(LABEL_NODE_POOL),
        instance_id=known.get("InstanceId") or (instance_of(node) if node is not None else None) or None,
        logical_id=known.get("NodeLogicalId") or None,
        kubernetes_name=name,
        instance_type=instance_type,
        zone=labels.get(LABEL_ZONE, ""),
        capacity_type=_capacity_type(group, labels, paid),
        status=status_of(member) if member is not None else None,
        message=message_of(member) or None if member is not None else None,
        ready=node is not None and is_ready(node),
        unschedulable=bool(spec.get("unschedulable")),
        healthy=not problems,
        problems=problems,
        conditions=_conditions(status),
        taints=[
            NodeTaint(key=each["key"], value=each.get("value") or "", effect=each["effect"])
            for each in spec.get("taints") or ()
        ],
        labels={key: value for key, value in labels.items() if key.startswith(SAGEMAKER)},
        health=labels.get(LABEL_HEALTH),
        deep_health_check=labels.get(LABEL_DEEP_CHECK),
        resources=_resources(status, use.devices.get(name or "", Counter())),
        pods=use.pods.get(name or "", 0),
        launched_at=(known.get("LaunchTime") if known.get("InstanceId") else None) or created,
        image_version=known.get("CurrentImageReleaseVersion") or None,
        image_status=known.get("ImageVersionStatus") or None,
        image=info.get("osImage"),
        kubelet=info.get("kubeletVersion"),
    )


def _orphan(view: NodeView) -> NodeView:
    """A node of HyperPod's that SageMaker does not list (any more)."""
    problems = [*view.problems, "not among SageMaker's nodes"]
    return view.model_copy(update={"healthy": False, "problems": problems})


def _kind(member: Raw | None, labels: dict[str, str]) -> tuple[NodeKind, str]:
    """Who made the node, and the group that it belongs to there."""
    if member is not None:
        return NodeKind.HYPERPOD, member.get("InstanceGroupName") or ""
    if LABEL_GROUP in labels or labels.get(LABEL_COMPUTE) == "hyperpod":
        return NodeKind.HYPERPOD, labels.get(LABEL_GROUP, "")
    if pool := labels.get(LABEL_NODE_POOL):
        return NodeKind.KARPENTER, pool
    if group := labels.get(LABEL_NODE_GROUP):
        return NodeKind.NODE_GROUP, group
    return NodeKind.OTHER, ""


def _capacity_type(group: str, labels: dict[str, str], paid: dict[str, str]) -> str:
    if group in paid:
        return paid[group]
    told = next((labels[label] for label in CAPACITY_LABELS if label in labels), "")
    return told.lower().replace("_", "-") or "on-demand"


def _problems(member: Raw | None, node: Raw | None, labels: dict[str, str], facts: InstanceFacts | None) -> list[str]:
    """Why the node does no work, in words; empty where it can."""
    found = []
    if member is not None and status_of(member) != "Running":
        message = message_of(member)
        found.append(f"SageMaker: {status_of(member)}" + (f" ({message})" if message else ""))
    if node is None:
        return [*found, "not in Kubernetes"]
    if not is_ready(node):
        found.append("not Ready in Kubernetes")
    if labels.get(LABEL_HEALTH, SCHEDULABLE) != SCHEDULABLE:
        found.append(f"health: {labels[LABEL_HEALTH]}")
    found += [f"{key.removeprefix(SAGEMAKER)}: {labels[key]}" for key in sorted(labels) if key.startswith(LABEL_FAULT)]
    if labels.get(LABEL_DEEP_CHECK) == "Failed":
        found.append("its deep health check failed")
    if is_ready(node) and (lack := lacking(node, facts)):
        found.append(f"lacks {lack}")
    return found


def _conditions(status: Any) -> list[NodeCondition]:
    return [
        NodeCondition(
            type=each["type"],
            status=each["status"],
            reason=each.get("reason") or "",
            message=(each.get("message") or "")[:300],
        )
        for each in status.get("conditions") or ()
        if each["type"] == "Ready" or each["status"] != "False"
    ]


def _resources(status: Any, used: Counter[str]) -> list[NodeResource]:
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    names = sorted({name for name in (*capacity, *allocatable, *used) if name.startswith(DEVICES)})
    return [
        NodeResource(
            name=name, capacity=count(capacity, name), allocatable=count(allocatable, name), used=used.get(name, 0)
        )
        for name in names
    ]
