"""HyperPod clusters on EKS, their instance groups and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from contracts.activity import Act, Wait
from contracts.capacity import InstanceGroupSpec, Taint
from contracts.model import Ensured, Model
from contracts.network import Scope, Subnet


class HyperPodSpec(Model):
    """How the cluster treats its nodes (sagemaker:CreateCluster)."""

    node_recovery: Literal["Automatic", "None"] = "Automatic"
    """Whether faulty nodes are replaced by themselves."""
    provisioning: Literal["Continuous", "Classic"] = "Continuous"
    """Continuous: nodes come one by one, and a shortage of some does not undo the others."""


class PlacedGroup(Model):
    """An instance group with everything that was looked up for it."""

    spec: InstanceGroupSpec
    subnet: Subnet
    threads_per_core: int
    training_plan_arn: str | None = None


class EnsureHyperPod(Model):
    scope: Scope
    spec: HyperPodSpec
    eks_cluster_arn: str
    security_group_id: str
    execution_role_arn: str
    lifecycle_scripts_uri: str
    groups: list[PlacedGroup]


class InstanceGroup(Model):
    """An instance group as DescribeCluster sees it."""

    name: str
    instance_type: str
    current: int
    target: int
    status: str
    alternative_types: list[str] = Field(default_factory=list)
    min_count: int | None = None
    capacity: str = "on-demand"
    training_plan_arn: str | None = None
    network_interface: str | None = None
    threads_per_core: int | None = None
    subnet_ids: list[str] = Field(default_factory=list)
    """Empty: the cluster's own."""
    deep_health_checks: list[str] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[Taint] = Field(default_factory=list)


class HyperPodCluster(Ensured):
    """``status`` is SageMaker's own: Creating, InService …"""

    name: str
    arn: str
    status: str
    groups: list[InstanceGroup] = Field(default_factory=list)
    failure: str | None = None
    provisioning: str | None = None
    """Continuous or Classic; null: not looked at yet."""
    replacing: list[str] = Field(default_factory=list)
    """Groups that must be gone before they can be made anew elsewhere."""


def brought_up_to_date(known: HyperPodCluster | None, seen: HyperPodCluster, touched: Iterable[str]) -> HyperPodCluster:
    """What a record that says ``known`` is to say after an operation on the instance groups ``touched``, which has
    ``seen`` the whole cluster.

    Of a group that it did not touch, only the count and the status are taken: what others have changed there, made or
    deleted is a drift, for somebody to decide on. So is another way of provisioning.
    """
    if known is None or known.arn != seen.arn:
        return seen
    mine, recorded = set(touched), {each.name: each for each in known.groups}
    found = {each.name: each for each in seen.groups}
    groups = [
        each
        if each.name in mine
        else recorded[each.name].model_copy(update={"current": each.current, "status": each.status})
        for each in seen.groups
        if each.name in mine or each.name in recorded
    ]
    missed = [each for each in known.groups if each.name not in found and each.name not in mine]
    provisioning = known.provisioning or seen.provisioning
    return seen.model_copy(update={"groups": [*groups, *missed], "provisioning": provisioning})


class WaitForHyperPod(Model):
    """Until the cluster is InService, every group is at its target, and that many nodes are Ready in Kubernetes with
    the accelerators that their type has."""

    scope: Scope
    name: str
    eks_cluster: str
    groups: list[str]
    targets: dict[str, int] = Field(default_factory=dict)
    """Target counts that the groups must show, by name: what was just asked for may not be described yet."""


class Node(Model):
    """A node as both sides see it. ``accelerators`` are allocatable in Kubernetes."""

    name: str
    instance_id: str
    instance_group: str
    instance_type: str
    zone: str
    capacity_type: str
    ready: bool
    accelerators: int
    accelerator_resource: str | None = None
    efa_interfaces: int = 0
    health: str | None = None
    """Label sagemaker.amazonaws.com/node-health-status."""


class NodeCount(Model):
    """How many nodes an instance group has in Kubernetes, and how many of them are Ready."""

    group: str
    nodes: int
    ready: int


MOST_NODES_KEPT = 100
"""Nodes in a record or in a history: thousands would be more than one of Temporal's payloads takes (2 MB)."""


class CountedNodes(Model):
    """A cluster's nodes: all of them as numbers, and at most ``MOST_NODES_KEPT`` one by one."""

    cluster: HyperPodCluster
    nodes: list[Node]
    """Those that are not Ready first taken, then some of every group."""
    node_counts: list[NodeCount] = Field(default_factory=list)
    """By group; empty where ``nodes`` are all."""

    @property
    def counts(self) -> list[NodeCount]:
        return self.node_counts or counts_of(self.nodes)

    @property
    def total(self) -> int:
        return sum(each.nodes for each in self.counts)

    def recorded(self, known: HyperPodCluster | None, touched: Iterable[str] = ()) -> dict[str, Any]:
        """The members of the cluster's record, which says ``known``, after an operation on these instance groups."""
        cluster = brought_up_to_date(known, self.cluster, touched)
        return {"hyperpod": cluster, "nodes": self.nodes, "node_counts": self.counts}


def counts_of(nodes: Iterable[Node]) -> list[NodeCount]:
    found = list(nodes)
    present, ready = (
        Counter(each.instance_group for each in found),
        Counter(each.instance_group for each in found if each.ready),
    )
    return [NodeCount(group=group, nodes=present[group], ready=ready[group]) for group in sorted(present)]


def counted(nodes: Iterable[Node]) -> dict[str, Any]:
    """``nodes`` and ``node_counts`` of a model from all of a cluster's nodes."""
    found, rank = list(nodes), Counter[str]()
    ranked: list[tuple[bool, int, Node]] = []
    for each in found:
        rank[each.instance_group] += 1
        ranked.append((each.ready, rank[each.instance_group], each))
    taken = [node for _, _, node in sorted(ranked, key=lambda item: item[:2])[:MOST_NODES_KEPT]]
    taken.sort(key=lambda node: (node.instance_group, node.name))
    return {"nodes": taken, "node_counts": counts_of(found)}


class NodesReady(CountedNodes):
    """The nodes that were waited for."""


class WaitForGroupsGone(Model):
    scope: Scope
    name: str
    groups: list[str]


class GroupsGone(Model):
    groups: list[str]


class ListNodes(Model):
    scope: Scope
    name: str
    eks_cluster: str
    names_of: str | None = None
    """An instance group whose nodes are all named in the answer."""


class Nodes(CountedNodes):
    names: list[str] = Field(default_factory=list)
    """Every node of the group that was asked for, as Kubernetes calls it."""


ENSURE_HYPERPOD = Act("hyperpod.ensure_cluster", EnsureHyperPod, HyperPodCluster)
WAIT_FOR_HYPERPOD = Wait("hyperpod.wait_for_nodes", WaitForHyperPod, NodesReady, limit=timedelta(minutes=90))
WAIT_FOR_GROUPS_GONE = Wait("hyperpod.wait_for_groups_gone", WaitForGroupsGone, GroupsGone, limit=timedelta(minutes=60))
LIST_NODES = Act("hyperpod.list_nodes", ListNodes, Nodes)
