"""What the simulated HyperPod holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.aws.world import Place

IMAGE_VERSION = "1.0.4"
DEFAULT_THREADS_PER_CORE = 1
"""UNVERIFIED: AWS's runbooks say that a group which leaves ThreadsPerCore out has half a p5's vCPUs."""
STARTED = ("Running", "DeepHealthCheckInProgress", "SystemUpdating")
"""Statuses of nodes that count as current."""


@dataclass
class Node:
    """A member of a group, from the wish for it to the end of its instance. ``instance_id`` is empty until EC2 has
    capacity for it; a replacement keeps the logical id."""

    logical_id: str
    group: str
    instance_type: str
    created: datetime
    instance_id: str = ""
    status: str = "Pending"
    message: str = ""
    launched: datetime | None = None
    subnet: str = ""
    zone: str = ""
    zone_id: str = ""
    ip: str = ""
    interface: str = ""
    addresses: int = 0
    """Addresses of the subnet in use beside the interface's own."""
    plan: str = ""
    capacity_type: str = "OnDemand"
    joined: bool = False
    """Whether the data plane has the node."""
    zones: list[str] = field(default_factory=list)
    """Zones that BatchAddClusterNodes asked for."""
    types: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    image: str = IMAGE_VERSION
    updated: datetime | None = None
    replaced_by: str = ""

    @property
    def name(self) -> str:
        """The node's name in Kubernetes."""
        return f"hyperpod-{self.instance_id}"


@dataclass
class Group:
    spec: dict[str, Any]
    target: int
    deleting: bool = False
    retrying: bool = False
    failures: int = 0
    """Consecutive failed attempts: the longer, the later the next."""
    shortages: int = 0
    """Consecutive attempts without capacity."""
    software_status: str = ""
    desired_image: str = IMAGE_VERSION

    @property
    def name(self) -> str:
        return str(self.spec["InstanceGroupName"])

    @property
    def types(self) -> list[str]:
        """Acceptable instance types, best first."""
        if self.spec.get("InstanceType"):
            return [self.spec["InstanceType"]]
        return list((self.spec.get("InstanceRequirements") or {}).get("InstanceTypes") or [])


@dataclass
class Event:
    id: str
    time: datetime
    description: str
    level: str
    group: str = ""
    instance_id: str = ""
    logical_id: str = ""
    operation: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def resource_type(self) -> str:
        if self.instance_id or self.logical_id:
            return "Instance"
        return "InstanceGroup" if self.group else "Cluster"


@dataclass
class Operation:
    """A scaling or a deep health check that ListClusterOperations tells of."""

    id: str
    type: str
    created: datetime
    status: str = "InProgress"
    scaling: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Cluster:
    name: str
    id: str
    arn: str
    account: str
    region: str
    created: datetime
    settings: dict[str, Any]
    """Members of the request at cluster level: VpcConfig, Orchestrator, NodeRecovery and so on."""
    status: str = "Creating"
    failure: str = ""
    groups: dict[str, Group] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    """By logical id."""
    events: list[Event] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return (self.account, self.region)

    @property
    def continuous(self) -> bool:
        return bool(self.settings.get("NodeProvisioningMode") == "Continuous")

    @property
    def automatic_recovery(self) -> bool:
        return bool(self.settings.get("NodeRecovery", "Automatic") == "Automatic")

    @property
    def eks_arn(self) -> str:
        return str((self.settings.get("Orchestrator") or {}).get("Eks", {}).get("ClusterArn", ""))

    def members(self, group: str) -> list[Node]:
        return [n for n in self.nodes.values() if n.group == group]

    def current(self, group: str) -> int:
        return sum(1 for n in self.members(group) if n.status in STARTED)

    def node(self, identifier: str) -> Node | None:
        """A node by its instance id or its logical id."""
        if identifier in self.nodes:
            return self.nodes[identifier]
        return next((n for n in self.nodes.values() if n.instance_id == identifier), None)


@dataclass
class Plan:
    """A training plan with one reserved capacity."""

    name: str
    arn: str
    capacity_arn: str
    instance_type: str
    zone: str
    zone_id: str
    count: int
    start: datetime
    end: datetime
    status: str
    fee: str = "0.00"
    offering: str = ""
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class HyperPodState:
    clusters: dict[Place, dict[str, Cluster]] = field(default_factory=dict)
    plans: dict[Place, dict[str, Plan]] = field(default_factory=dict)
    offerings: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[tuple[str, str], tuple[str, float, dict[str, Any]]] = field(default_factory=dict)
    """(cluster ARN, client token) -> (digest, when, answer)."""
