"""What the simulated AWS tells the simulated Kubernetes: clusters, access, nodes and add-ons come and go.

AWS side: ``sandbox/aws/eks/`` and ``sandbox/aws/hyperpod/`` call a :class:`DataPlane`. Kubernetes side:
``sandbox/kubernetes/dataplane.py`` is one. :class:`NoDataPlane` lets the AWS APIs be served alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Endpoint:
    """Where an EKS cluster answers: an https URL without a trailing slash, and the PEM of the CA that signed it."""

    url: str
    certificate_authority: str


@dataclass(frozen=True)
class ClusterFacts:
    """An EKS cluster as its data plane sees it. ``creator`` is the ARN of the IAM principal that made it."""

    arn: str
    name: str
    version: str
    region: str
    creator: str
    creator_is_admin: bool = True


@dataclass(frozen=True)
class AccessEntry:
    """A principal that may use the cluster: ``admin`` if a cluster-admin policy is associated with it."""

    principal_arn: str
    username: str
    groups: tuple[str, ...] = ()
    admin: bool = False


@dataclass(frozen=True)
class NodeFacts:
    """An instance that joins. ``accelerators`` and ``efa`` are what device plugins will advertise, not what is
    allocatable before they run. ``memory_mib`` in MiB, ``disk_gib`` in GiB."""

    name: str
    instance_id: str
    instance_type: str
    zone: str
    zone_id: str
    region: str
    internal_ip: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    architecture: str = "amd64"
    gpus: int = 0
    neuron_devices: int = 0
    efa_interfaces: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    """(key, value, effect)"""
    ready: bool = True
    """Whether its kubelet reports: not while the machine is started again."""
    boots: int = 0
    """How often the machine was started again."""
    provider_id: str = ""
    """Empty: a HyperPod node's."""


@dataclass(frozen=True)
class AddonHealth:
    """Whether an add-on's workloads run. ``issues`` are (code, message) of EKS's add-on health."""

    ready: bool
    issues: tuple[tuple[str, str], ...] = ()
    missing: bool = False
    """Whether a workload is not there at all: what it needs was missing when it was to be installed, or it was
    deleted."""


@dataclass(frozen=True)
class AddonSettings:
    """What an add-on is installed with."""

    configuration: dict[str, Any] = field(default_factory=dict)
    """Its configurationValues."""
    roles: dict[str, str] = field(default_factory=dict)
    """Service account -> the ARN of the role that it is annotated with."""
    overwrite: bool = False
    """Whether objects of the same name that others made are taken over."""


class DataPlane(Protocol):
    """The Kubernetes clusters behind EKS, addressed by the ARN of the EKS cluster. Every method may be repeated."""

    def create_cluster(self, facts: ClusterFacts) -> Endpoint: ...

    def delete_cluster(self, arn: str) -> None: ...

    def set_access(self, arn: str, entries: list[AccessEntry]) -> None: ...

    def add_node(self, arn: str, node: NodeFacts) -> None: ...

    def remove_node(self, arn: str, name: str) -> None: ...

    def node_ready(self, arn: str, name: str) -> bool: ...

    def drain_node(self, arn: str, name: str) -> int:
        """Cordon a node and evict what may go; how many pods are left, those of DaemonSets not counted."""
        ...

    def uncordon_node(self, arn: str, name: str) -> None: ...

    def install_addon(
        self, arn: str, name: str, version: str, settings: AddonSettings | None = None
    ) -> tuple[str, ...]:
        """Install an add-on. Objects that others made and that are in the way are returned; nothing is installed
        then."""
        ...

    def remove_addon(self, arn: str, name: str, preserve: bool = False) -> None:
        """Forget an add-on and, unless ``preserve``, take away its objects."""
        ...

    def addon_health(self, arn: str, name: str) -> AddonHealth: ...

    def query_metrics(self, query: str) -> dict[str, Any]:
        """``data`` of Prometheus' answer to an instant query about all clusters. Raises ValueError for one that it
        refuses."""
        ...


class NoDataPlane:
    """No Kubernetes behind EKS: endpoints that nobody answers, add-ons that are ready at once."""

    def create_cluster(self, facts: ClusterFacts) -> Endpoint:
        return Endpoint(f"https://{facts.name}.{facts.region}.eks.sandbox.invalid", "")

    def delete_cluster(self, arn: str) -> None: ...

    def set_access(self, arn: str, entries: list[AccessEntry]) -> None: ...

    def add_node(self, arn: str, node: NodeFacts) -> None: ...

    def remove_node(self, arn: str, name: str) -> None: ...

    def node_ready(self, arn: str, name: str) -> bool:
        return True

    def drain_node(self, arn: str, name: str) -> int:
        return 0

    def uncordon_node(self, arn: str, name: str) -> None: ...

    def install_addon(
        self, arn: str, name: str, version: str, settings: AddonSettings | None = None
    ) -> tuple[str, ...]:
        return ()

    def remove_addon(self, arn: str, name: str, preserve: bool = False) -> None: ...

    def addon_health(self, arn: str, name: str) -> AddonHealth:
        return AddonHealth(ready=True)

    def query_metrics(self, query: str) -> dict[str, Any]:
        return {"resultType": "vector", "result": []}
