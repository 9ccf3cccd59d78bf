"""What the simulated HyperPod holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.aws.world import Place

IMAGE_VERSION = "1.0.4"
"""The newest release of HyperPod's own image, unless the admin API publishes another."""
DEFAULT_IMAGE = "default"
DEFAULT_THREADS_PER_CORE = 1
"""UNVERIFIED: AWS's runbooks say that a group which leaves ThreadsPerCore out has half a p5's vCPUs."""
STARTED = ("Running", "DeepHealthCheckInProgress", "SystemUpdating")
"""Statuses of nodes that count as current."""


@dataclass(frozen=True)
class Image:
    """What nodes boot: HyperPod's own image in a release, or an AMI (whose release may be unknown)."""

    id: str = DEFAULT_IMAGE
    release: str = IMAGE_VERSION


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
    spec: dict[str, Any] = field(default_factory=dict)
    """The group's specification when the instance was launched."""
    subnet: str = ""
    zone: str = ""
    zone_id: str = ""
    ip: str = ""
    interface: str = ""
    security_groups: list[str] = field(default_factory=list)
    addresses: int = 0
    """Addresses of the subnet in use beside the interface's own."""
    plan: str = ""
    capacity_type: str = "OnDemand"
    joined: bool = False
    """Whether the data plane has the node."""
    pending: str = ""
    """What is being done to the running instance: ``Reboot``, ``Replacement`` or ``SoftwareUpdate``."""
    checked: str = ""
    """How the last deep health check ended: ``Passed`` or ``Failed``."""
    boots: int = 0
    """How often the instance was started again."""
    zones: list[str] = field(default_factory=list)
    """Zones that BatchAddClusterNodes asked for."""
    types: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    image: Image = field(default_factory=Image)
    updated: datetime | None = None

    @property
    def name(self) -> str:
        """The node's name in Kubernetes."""
        return f"hyperpod-{self.instance_id}"


@dataclass
class Rollout:
    """An update of the software of a group's nodes, batch by batch."""

    id: str
    config: dict[str, Any]
    """The request's DeploymentConfig."""
    before: Image
    """What the group returns to when the update fails."""
    done: set[str] = field(default_factory=set)
    """Logical ids of nodes that have the new image."""
    back: set[str] | None = None
    """Of nodes that are still to get the old one again; None until the update fails."""


@dataclass
class Group:
    """An instance group; ``restricted`` for one of the restricted kind."""

    spec: dict[str, Any]
    target: int
    restricted: bool = False
    image: Image = field(default_factory=Image)
    """What the group's nodes are to run; new nodes do."""
    current_image: Image = field(default_factory=Image)
    deleting: bool = False
    retrying: bool = False
    failures: int = 0
    """Consecutive failed attempts: the longer, the later the next."""
    shortages: int = 0
    """Consecutive attempts without capacity."""
    software_status: str = ""
    rollout: Rollout | None = None
    established: bool = True
    """Whether the group has, or once had, its MinInstanceCount."""
    before: tuple[dict[str, Any], int] | None = None
    """Specification and target to return to if MinInstanceCount is not reached; None for a new group."""
    attempt: int = 0
    """Counts the requests that set the group's specification."""
    failed: bool = False
    """Whether the group never reached its MinInstanceCount."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    """Labels and taints that were last applied to the group's nodes."""

    @property
    def name(self) -> str:
        return str(self.spec["InstanceGroupName"])

    @property
    def types(self) -> list[str]:
        """Acceptable instance types, best first."""
        if self.spec.get("InstanceType"):
            return [self.spec["InstanceType"]]
        return list((self.spec.get("InstanceRequirements") or {}).get("InstanceTypes") or [])

    @property
    def minimum(self) -> int:
        return int(self.spec.get("MinInstanceCount") or 0)

    @property
    def wanted_labels(self) -> dict[str, str]:
        return dict((self.spec.get("KubernetesConfig") or {}).get("Labels") or {})

    @property
    def wanted_taints(self) -> list[dict[str, str]]:
        return list((self.spec.get("KubernetesConfig") or {}).get("Taints") or [])


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
    waiting: set[str] = field(default_factory=set)
    """Logical ids of nodes whose deep health check is not over."""


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
    """By logical id. Changed by :meth:`put` and :meth:`drop` only."""
    events: list[Event] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    by_group: dict[str, dict[str, Node]] = field(default_factory=dict)
    by_instance: dict[str, Node] = field(default_factory=dict)

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

    @property
    def autoscaling(self) -> bool:
        return bool((self.settings.get("AutoScaling") or {}).get("Mode") == "Enable")

    def put(self, node: Node) -> None:
        """Hold a node, or its new instance."""
        self.nodes[node.logical_id] = node
        self.by_group.setdefault(node.group, {})[node.logical_id] = node
        if node.instance_id:
            self.by_instance[node.instance_id] = node

    def drop(self, node: Node) -> None:
        self.nodes.pop(node.logical_id, None)
        self.by_group.get(node.group, {}).pop(node.logical_id, None)
        self.by_instance.pop(node.instance_id, None)

    def members(self, group: str) -> list[Node]:
        return list(self.by_group.get(group, {}).values())

    def current(self, group: str) -> int:
        return sum(n.status in STARTED for n in self.by_group.get(group, {}).values())

    def node(self, identifier: str) -> Node | None:
        """A node by its instance id or its logical id."""
        return self.nodes.get(identifier) or self.by_instance.get(identifier)


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
    extensions: list[dict[str, Any]] = field(default_factory=list)
    """Bought extensions, as the API describes them."""


@dataclass
class HyperPodState:
    clusters: dict[Place, dict[str, Cluster]] = field(default_factory=dict)
    plans: dict[Place, dict[str, Plan]] = field(default_factory=dict)
    offerings: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[tuple[str, str], tuple[str, float, dict[str, Any]]] = field(default_factory=dict)
    """(cluster ARN, client token) -> (digest, when, answer)."""
    release: str = IMAGE_VERSION
    """The newest release of HyperPod's image."""
    broken_software: dict[str, int] = field(default_factory=dict)
    """Instance group -> how many of the next updates of a node's software fail."""
