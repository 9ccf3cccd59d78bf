"""What controllers inside a simulated cluster ask of the simulated AWS: machines, load balancers, volumes.

Kubernetes side: ``sandbox/kubernetes/controllers/`` calls a :class:`Cloud`, never while it holds a cluster's lock: AWS
calls back into the data plane. AWS side: ``sandbox/aws/cloud.py`` is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sandbox.dataplane import NodeFacts


class CloudError(Exception):
    """AWS refused. ``code`` is the error code of its API."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class InstanceGroup:
    """A HyperPod instance group as the managed autoscaler sees it."""

    name: str
    instance_types: tuple[str, ...]
    subnets: tuple[tuple[str, str, str], ...]
    """(subnet, zone, zone id)"""
    capacity: str = "OnDemand"
    labels: dict[str, str] = field(default_factory=dict)
    unsupported: str = ""
    """Why the autoscaler cannot use it; empty if it can."""
    shapes: tuple[NodeFacts, ...] = ()
    """What a new node would be, for each type and zone; without name, instance and address."""


@dataclass(frozen=True)
class Machine:
    """A node of an instance group: wished for, coming, running or going. ``node`` is empty until it has an instance."""

    logical_id: str
    group: str
    instance_type: str
    status: str
    node: str = ""
    zone: str = ""


@dataclass(frozen=True)
class LoadBalancer:
    """A wish for a load balancer, ``network`` for a Service or ``application`` for an Ingress. ``owner`` is that one's
    ``namespace/name``."""

    name: str
    owner: str
    kind: str = "network"
    scheme: str = "internal"
    tags: dict[str, str] = field(default_factory=dict)


class Cloud(Protocol):
    """AWS behind the clusters, which are addressed by the ARN of the EKS cluster. Every method may be repeated."""

    def autoscaling(self, arn: str) -> str:
        """The status of managed autoscaling of the HyperPod cluster there; empty if it has none."""

    def instance_groups(self, arn: str) -> dict[str, InstanceGroup]:
        """The instance groups of the HyperPod cluster, by name."""

    def machines(self, arn: str) -> dict[str, Machine]:
        """The nodes of the HyperPod cluster, by logical id."""

    def add_machine(self, arn: str, group: str, instance_type: str, zone: str) -> str:
        """Grow a group by one, as BatchAddClusterNodes does; the logical id. Not repeatable. Raises CloudError."""

    def remove_machine(self, arn: str, logical_id: str) -> None:
        """Shrink a group by this node. Raises CloudError while the cluster cannot be changed."""

    def ensure_load_balancer(self, arn: str, wish: LoadBalancer) -> str:
        """The host name of the load balancer. Raises CloudError if it cannot be made."""

    def delete_load_balancer(self, arn: str, owner: str, kind: str) -> None:
        """Raises CloudError while network interfaces are still there."""

    def bucket_holds(self, arn: str, bucket: str, prefix: str) -> bool:
        """Whether there is a bucket with an object whose key begins so."""

    def ensure_volume(self, arn: str, name: str, zone: str, gib: int, kind: str, tags: dict[str, str]) -> str:
        """The id of the EBS volume of that CSI volume name. Raises CloudError if it cannot be made."""

    def delete_volume(self, arn: str, volume_id: str) -> None: ...
