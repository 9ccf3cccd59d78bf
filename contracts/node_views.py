"""Nodes as lists show them: what SageMaker and Kubernetes say of each, put together."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from contracts.activity import Act
from contracts.model import Model

MOST_ON_A_PAGE = 200


class NodeKind(StrEnum):
    """Who made a node."""

    HYPERPOD = "hyperpod"
    NODE_GROUP = "eks-node-group"
    KARPENTER = "karpenter"
    OTHER = "other"


class NodeCondition(Model):
    """Ready, and what else is not as it should be."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class NodeTaint(Model):
    """As the node has it, whoever gave it."""

    key: str
    value: str = ""
    effect: str


class NodeResource(Model):
    """An accelerator or network resource of a node, in whole devices."""

    name: str
    """e.g. ``nvidia.com/gpu``."""
    capacity: int
    allocatable: int
    used: int
    """Requested by the node's pods."""


class NodeView(Model):
    """A node as both sides see it."""

    name: str
    """Kubernetes' name, else the instance's, else the logical ID."""
    kind: NodeKind
    group: str
    """Instance group, EKS node group or node pool."""
    node_pool: str | None = None
    """Karpenter's, where it scales the node's instance group."""
    instance_id: str | None = None
    """Null: it has no instance yet."""
    logical_id: str | None = None
    kubernetes_name: str | None = None
    """Null: it has not joined."""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    """``on-demand``, ``spot`` or ``training-plan``."""
    status: str | None = None
    """SageMaker's own; null for nodes that are not HyperPod's."""
    message: str | None = None
    ready: bool = False
    """In Kubernetes."""
    unschedulable: bool = False
    """Cordoned."""
    healthy: bool = True
    problems: list[str] = Field(default_factory=list)
    """Why it is not healthy."""
    conditions: list[NodeCondition] = Field(default_factory=list)
    taints: list[NodeTaint] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    """Those below ``sagemaker.amazonaws.com/``."""
    health: str | None = None
    """Label node-health-status."""
    deep_health_check: str | None = None
    """Label deep-health-check-status."""
    resources: list[NodeResource] = Field(default_factory=list)
    pods: int = 0
    launched_at: datetime | None = None
    image_version: str | None = None
    image_status: str | None = None
    """e.g. ``UpdateAvailable``."""
    image: str | None = None
    """The operating system's image, as Kubernetes names it."""
    kubelet: str | None = None


class PodOnNode(Model):
    """A pod, and what it belongs to."""

    namespace: str
    name: str
    owner_kind: str
    """Deployment, Job, HyperPodPyTorchJob …; ``Pod`` for one on its own."""
    owner: str
    phase: str
    accelerators: int = 0
    checkpoint_at: datetime | None = None


class ResourceTotal(Model):
    """A resource over all nodes. ``pending`` is what pods ask for that no node has taken."""

    name: str
    capacity: int = 0
    allocatable: int = 0
    used: int = 0
    pending: int = 0


class NodesSummary(Model):
    """All nodes of the cluster, whatever the filter."""

    nodes: int = 0
    ready: int = 0
    unhealthy: int = 0
    statuses: dict[str, int] = Field(default_factory=dict)
    """HyperPod's nodes by SageMaker's status."""
    resources: list[ResourceTotal] = Field(default_factory=list)
    pods: int = 0
    pods_pending: int = 0


class ReadNodes(Model):
    """Nodes of a cluster, as its record names its parts."""

    cluster: str
    region: str
    hyperpod: str | None = None
    eks_cluster: str | None = None
    group: str | None = None
    """Only nodes of this instance group, node group or node pool."""
    unhealthy: bool = False
    """Only nodes that are not healthy."""
    node: str | None = None
    """Only this one, by any of its names, with its pods."""
    after: str | None = None
    """Key of the last node of the page before."""
    size: int = Field(50, ge=0, le=MOST_ON_A_PAGE)
    """0: the summary alone, which may be some seconds old."""


class NodesRead(Model):
    """A page of nodes, by group and name."""

    nodes: list[NodeView]
    summary: NodesSummary
    matching: int
    """Nodes that pass the filter, on all pages."""
    last: str | None = None
    """Key to read on after; null on the last page."""
    pods: list[PodOnNode] = Field(default_factory=list)
    """Only where one node was asked for."""
    read_at: datetime


READ_NODES = Act("nodes.read", ReadNodes, NodesRead)
