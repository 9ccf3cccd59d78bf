"""HyperPod clusters on EKS, their instance groups and nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

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


class NodesReady(Model):
    cluster: HyperPodCluster
    nodes: list[Node]


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


class Nodes(Model):
    cluster: HyperPodCluster
    nodes: list[Node]


ENSURE_HYPERPOD = Act("hyperpod.ensure_cluster", EnsureHyperPod, HyperPodCluster)
WAIT_FOR_HYPERPOD = Wait("hyperpod.wait_for_nodes", WaitForHyperPod, NodesReady, limit=timedelta(minutes=90))
WAIT_FOR_GROUPS_GONE = Wait("hyperpod.wait_for_groups_gone", WaitForGroupsGone, GroupsGone, limit=timedelta(minutes=60))
LIST_NODES = Act("hyperpod.list_nodes", ListNodes, Nodes)
