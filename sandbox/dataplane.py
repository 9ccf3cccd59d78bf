"""What the simulated AWS tells the simulated Kubernetes: clusters, access, nodes and add-ons come and go.

AWS side: ``sandbox/aws/eks/`` and ``sandbox/aws/hyperpod/`` call a :class:`DataPlane`. Kubernetes side:
``sandbox/kubernetes/dataplane.py`` is one. :class:`NoDataPlane` lets the AWS APIs be served alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


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


@dataclass(frozen=True)
class AddonHealth:
    """Whether an add-on's workloads run. ``issues`` are (code, message) of EKS's add-on health."""

    ready: bool
    issues: tuple[tuple[str, str], ...] = ()


class DataPlane(Protocol):
    """The Kubernetes clusters behind EKS, addressed by the ARN of the EKS cluster. Every method may be repeated."""

    def create_cluster(self, facts: ClusterFacts) -> Endpoint: ...

    def delete_cluster(self, arn: str) -> None: ...

    def set_access(self, arn: str, entries: list[AccessEntry]) -> None: ...

    def add_node(self, arn: str, node: NodeFacts) -> None: ...

    def remove_node(self, arn: str, name: str) -> None: ...

    def install_addon(self, arn: str, name: str, version: str) -> None: ...

    def remove_addon(self, arn: str, name: str) -> None: ...

    def addon_health(self, arn: str, name: str) -> AddonHealth: ...


class NoDataPlane:
    """No Kubernetes behind EKS: endpoints that nobody answers, add-ons that are ready at once."""

    def create_cluster(self, facts: ClusterFacts) -> Endpoint:
        return Endpoint(f"https://{facts.name}.{facts.region}.eks.sandbox.invalid", "")

    def delete_cluster(self, arn: str) -> None: ...

    def set_access(self, arn: str, entries: list[AccessEntry]) -> None: ...

    def add_node(self, arn: str, node: NodeFacts) -> None: ...

    def remove_node(self, arn: str, name: str) -> None: ...

    def install_addon(self, arn: str, name: str, version: str) -> None: ...

    def remove_addon(self, arn: str, name: str) -> None: ...

    def addon_health(self, arn: str, name: str) -> AddonHealth:
        return AddonHealth(ready=True)
