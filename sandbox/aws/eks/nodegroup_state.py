"""What the simulated EKS holds of managed node groups and their instances."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

LAUNCHING, JOINED, DRAINING = "launching", "joined", "draining"


@dataclass
class Instance:
    """An EC2 instance of a node group's Auto Scaling group."""

    id: str
    node: str
    """Its name in Kubernetes."""
    type: str
    subnet: str
    zone: str
    zone_id: str
    ip: str
    launched: float
    release: str
    addresses: int = 0
    """What it takes from its subnet beside its own address."""
    reserved: bool = False
    """Of a capacity block: it does not count against the free capacity."""
    state: str = LAUNCHING
    drain_until: float = 0.0
    """When it goes even if pods are left, in sandbox time."""


@dataclass
class Nodegroup:
    name: str
    arn: str
    cluster: str
    role: str
    subnets: list[str]
    version: str
    release: str
    created: datetime
    modified: datetime
    started: float
    """When it was created, in sandbox time."""
    scaling: dict[str, int]
    capacity_type: str
    ami_type: str
    instance_types: list[str]
    """As requested, or the default; empty where the launch template names the type."""
    types: list[str]
    """What is launched."""
    disk: int | None
    group: str
    """The Auto Scaling group."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    launch_template: dict[str, str] = field(default_factory=dict)
    security_groups: list[str] = field(default_factory=list)
    efa_interfaces: int = 0
    update_config: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    """Members of the request that are kept and described as they are."""
    status: str = "CREATING"
    issues: list[dict[str, Any]] = field(default_factory=list)
    instances: dict[str, Instance] = field(default_factory=dict)
    update: str = ""
    """The update in progress."""
    wanted: dict[str, Any] = field(default_factory=dict)
    """What the update in progress will have changed."""
    checking: bool = False
    """Whether a look at its instances is on the clock."""
    retry_at: float = 0.0
    """After a launch that failed: when the next is tried, in sandbox time."""

    @property
    def live(self) -> list[Instance]:
        """The instances that are meant to stay."""
        return [i for i in self.instances.values() if i.state != DRAINING]

    def shape(self) -> dict[str, Any]:
        """``Nodegroup`` of the EKS API."""
        shape: dict[str, Any] = {
            "nodegroupName": self.name,
            "nodegroupArn": self.arn,
            "clusterName": self.cluster,
            "version": self.version,
            "releaseVersion": self.release,
            "createdAt": self.created,
            "modifiedAt": self.modified,
            "status": self.status,
            "capacityType": self.capacity_type,
            "scalingConfig": dict(self.scaling),
            "subnets": self.subnets,
            "amiType": self.ami_type,
            "nodeRole": self.role,
            "labels": dict(self.labels),
            "taints": list(self.taints),
            "resources": {"autoScalingGroups": [{"name": self.group}]},
            "health": {"issues": list(self.issues)},
            "updateConfig": dict(self.update_config),
            "tags": self.tags,
            **self.extras,
        }
        if self.instance_types:
            shape["instanceTypes"] = self.instance_types
        if self.disk is not None:
            shape["diskSize"] = self.disk
        if self.launch_template:
            shape["launchTemplate"] = self.launch_template
        return shape
