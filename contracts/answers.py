"""What the gateway answers with beside operations and plans: lists, pages, and one thing looked at closely."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, JsonValue

from contracts.access import AuditEntry
from contracts.cluster import ClusterSummary
from contracts.hyperpod import InstanceGroup
from contracts.model import Model
from contracts.node_groups import NodeGroup
from contracts.node_pools import NodePool
from contracts.node_views import NodesSummary, NodeView, PodOnNode
from contracts.operation import Operation


class ClusterPage(Model):
    """Some clusters, the newest first."""

    clusters: list[ClusterSummary] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page."""


class OperationPage(Model):
    """Some operations: running ones first, the newest of them first, then ended ones, the last ended first."""

    operations: list[Operation] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page."""


class OperationSpec(Model):
    """What an operation carries out: of a plan for the same, ``kind``, ``cluster`` and ``spec``."""

    kind: str
    cluster: str
    spec: dict[str, JsonValue]


class NodePage(Model):
    """Some nodes, by group and name."""

    nodes: list[NodeView] = Field(default_factory=list)
    summary: NodesSummary
    """Of all nodes of the cluster."""
    matching: int
    """Nodes that pass the filter, on all pages."""
    read_at: datetime
    next_page_token: str | None = None
    """Absent on the last page."""


class NodeDetail(Model):
    """A node, and the pods that live on it."""

    node: NodeView
    pods: list[PodOnNode] = Field(default_factory=list)
    read_at: datetime


class ClusterUsage(Model):
    """What the nodes of a cluster offer, and what pods use of it and wait for."""

    summary: NodesSummary
    """Of all nodes of the cluster."""
    read_at: datetime
    """Kept for some seconds."""


class InstanceGroupList(Model):
    """The instance groups of a cluster."""

    hyperpod_cluster: str | None = None
    status: str | None = None
    instance_groups: list[InstanceGroup] = Field(default_factory=list)
    live: bool
    """Whether SageMaker was asked just now; false: what the cluster's record says."""


class NodeGroupList(Model):
    """The node groups of a cluster's EKS cluster, others' among them."""

    node_groups: list[NodeGroup] = Field(default_factory=list)
    live: bool
    """Whether EKS and Kubernetes were asked just now; false: what the cluster's record says."""


class NodePoolList(Model):
    """The node pools of a cluster on HyperPod's node classes, others' among them."""

    node_pools: list[NodePool] = Field(default_factory=list)
    live: bool
    """Whether Kubernetes was asked just now; false: what the cluster's record says."""


class AuditPage(Model):
    """Entries of the audit trail, the newest first."""

    entries: list[AuditEntry] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page."""


class Readiness(Model):
    """Whether operations can be started and would make progress."""

    ready: bool
    temporal: bool
    missing: list[str] = Field(default_factory=list)
    """Task queues that no worker asks."""
    detail: str
