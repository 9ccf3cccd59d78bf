"""Nodes as both sides see them: SageMaker's list of instances, and Kubernetes' list of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from activities.aws import AwsClients, pages
from activities.hyperpod.groups import Specification, capacity_of, groups_of
from activities.hyperpod.translator import types_of
from activities.instance_types import EFA, NEURON, NVIDIA, InstanceFacts, describe_types
from activities.nodes.sight import MEMBERS_PAGE, Raw, count, instance_of, is_ready, labels_of, status_of
from contracts.hyperpod import Node

LABEL_GROUP = "sagemaker.amazonaws.com/instance-group-name"
LABEL_HEALTH = "sagemaker.amazonaws.com/node-health-status"
LABEL_TYPE = "node.kubernetes.io/instance-type"
LABEL_ZONE = "topology.kubernetes.io/zone"
RUNNING = "Running"
"""The status of an instance that works, in SageMaker's words."""


@dataclass
class GroupSight:
    """An instance group with what was seen of its nodes."""

    name: str
    instance_type: str
    current: int
    target: int
    status: str
    working: int = 0
    """Nodes that are Ready with all their accelerators."""
    statuses: Counter[str] = field(default_factory=Counter)
    """How many instances SageMaker shows in which status."""
    unready: int = 0
    """Nodes that have joined Kubernetes and are not Ready."""
    unfit: int = 0
    """Ready nodes that SageMaker does not show as Running: no pod comes there while deep health checks run."""
    lacking: list[str] = field(default_factory=list)
    """Ready nodes that lack something, with what."""
    asked: int | None = None
    """What the target must be, where that is known."""

    @property
    def complete(self) -> bool:
        if self.asked is not None and (self.target != self.asked or self.joined > self.target):
            return False
        return self.current == self.target and self.working >= self.target

    @property
    def joined(self) -> int:
        """Nodes in Kubernetes: those that were deleted stay there for a moment."""
        return self.working + self.unready + self.unfit + len(self.lacking)


def list_instances(aws: AwsClients, region: str, cluster: str) -> list[Any]:
    return list(
        pages(
            aws.read.sagemaker(region),
            "list_cluster_nodes",
            "ClusterNodeSummaries",
            ClusterName=cluster,
            MaxResults=MEMBERS_PAGE,
        )
    )


def join(described: Specification, instances: list[Any], kubernetes_nodes: Iterable[Raw]) -> list[Node]:
    """The HyperPod nodes that have joined Kubernetes, each with its instance."""
    by_instance = {each["InstanceId"]: each for each in instances if each.get("InstanceId")}
    paid = {group["InstanceGroupName"]: capacity_of(group) for group in groups_of(described)}
    nodes: list[Node] = []
    for node in kubernetes_nodes:
        labels = labels_of(node)
        instance_id = instance_of(node)
        if instance_id not in by_instance and LABEL_GROUP not in labels:
            continue
        instance = by_instance.get(instance_id or "", {})
        group = instance.get("InstanceGroupName") or labels.get(LABEL_GROUP, "")
        allocatable = (node.get("status") or {}).get("allocatable")
        resource = next((name for name in (NVIDIA, NEURON) if count(allocatable, name)), None)
        nodes.append(
            Node(
                name=node["metadata"]["name"],
                instance_id=instance_id or "",
                instance_group=group,
                instance_type=instance.get("InstanceType") or labels.get(LABEL_TYPE, ""),
                zone=labels.get(LABEL_ZONE, ""),
                capacity_type=paid.get(group, "on-demand"),
                ready=is_ready(node),
                accelerators=count(allocatable, resource) if resource else 0,
                accelerator_resource=resource,
                efa_interfaces=count(allocatable, EFA),
                health=labels.get(LABEL_HEALTH),
            )
        )
    return sorted(nodes, key=lambda node: (node.instance_group, node.name))


def sight(
    described: Specification,
    names: list[str],
    instances: list[Any],
    nodes: list[Node],
    facts: dict[str, InstanceFacts],
    targets: dict[str, int] | None = None,
) -> list[GroupSight]:
    """What was seen of the groups called ``names`` (of all, without any). ``targets``: what they must be, by name."""
    result = []
    for group in groups_of(described):
        name = group["InstanceGroupName"]
        if names and name not in names:
            continue
        seen = GroupSight(
            name=name,
            instance_type=" or ".join(types_of(group)),
            current=group.get("CurrentCount", 0),
            target=group.get("TargetCount", 0),
            status=group.get("Status", ""),
            asked=(targets or {}).get(name),
        )
        members = [each for each in instances if each.get("InstanceGroupName") == name]
        seen.statuses.update(status_of(each) for each in members)
        unfit = {each.get("InstanceId") for each in members if status_of(each) != RUNNING}
        for node in (each for each in nodes if each.instance_group == name):
            if not node.ready:
                seen.unready += 1
            elif node.instance_id in unfit:
                seen.unfit += 1
            elif missing := _missing(node, facts.get(node.instance_type.removeprefix("ml."))):
                seen.lacking.append(f"{node.name} lacks {missing}")
            else:
                seen.working += 1
        result.append(seen)
    return result


def facts_for(aws: AwsClients, region: str, described: Specification) -> dict[str, InstanceFacts]:
    """What the types of the cluster's groups have, by their EC2 names."""
    names = {name.removeprefix("ml.") for group in groups_of(described) for name in types_of(group)}
    return describe_types(aws, region, names)


def _missing(node: Node, facts: InstanceFacts | None) -> str:
    """What a node should offer to pods and does not yet; empty where nothing is missing.

    EC2 says how many accelerators its type has; all must be allocatable. Of EFA interfaces one is enough here: how
    many of a type's a node gets is HyperPod's choice.
    """
    if facts is None or not facts.accelerator_resource:
        return ""
    if node.accelerators != facts.accelerators:
        return f"{facts.accelerator_resource} ({node.accelerators} of {facts.accelerators})"
    if facts.efa_interfaces and not node.efa_interfaces:
        return EFA
    return ""
