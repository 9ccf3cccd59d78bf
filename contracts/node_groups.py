"""EKS managed node groups: CPU and GPU nodes beside HyperPod's."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.capacity import Taint, check_labels
from contracts.identity import Role
from contracts.model import Ensured, Model, fault
from contracts.network import Network, Scope


def _node_group_name(name: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z][A-Za-z0-9_-]{0,62}", name):
        raise ValueError(f"an EKS node group's name has 1 to 63 letters, digits, hyphens and underscores, not {name!r}")
    return name


NodeGroupName = Annotated[str, AfterValidator(_node_group_name)]


class NodeGroupScaling(Model):
    """Nodes of a group (eks:CreateNodegroup scalingConfig)."""

    desired: int = Field(ge=0, le=1000)
    minimum: int | None = Field(None, ge=0, le=1000)
    """Null: as it is, or 0; lowered where it would exceed ``desired``."""
    maximum: int | None = Field(None, ge=1, le=1000)
    """Null: as it is, or ``desired``; raised where it would be less."""

    @model_validator(mode="after")
    def _ordered(self) -> NodeGroupScaling:
        if self.minimum is not None and self.minimum > self.desired:
            raise fault("/minimum", f"minimum {self.minimum} is more than desired {self.desired}")
        if self.maximum is not None and self.maximum < self.desired:
            raise fault("/maximum", f"maximum {self.maximum} is less than desired {self.desired}")
        return self


class NodeGroupSpec(Model):
    """A managed node group (eks:CreateNodegroup)."""

    name: NodeGroupName
    instance_types: list[str] = Field(min_length=1, max_length=20)
    """EC2 types, e.g. ``m6i.2xlarge``; several: any of them (spot, or mixed)."""
    scaling: NodeGroupScaling = Field(default_factory=lambda: NodeGroupScaling(desired=2))
    capacity: Literal["on-demand", "spot", "capacity-block"] = "on-demand"
    capacity_reservation_id: str | None = Field(None, pattern=r"^cr-[0-9a-f]{8,17}$", examples=["cr-0123456789abcdef0"])
    """Of a capacity block."""
    availability_zones: list[str] = Field(default_factory=list, max_length=6)
    """Names; empty: those of the cluster's compute subnets, else its zones. EFA and capacity blocks need just one."""
    subnet_ids: list[str] = Field(default_factory=list, max_length=16)
    """Use these; empty: compute subnets of the zones."""
    volume_gib: int = Field(200, ge=20, le=16384)
    efa: bool = False
    """As many EFA interfaces as the type has network cards for. All nodes are in one zone then."""
    labels: dict[str, str] = Field(default_factory=dict, max_length=50)
    taints: list[Taint] = Field(default_factory=list, max_length=50)

    @field_validator("instance_types")
    @classmethod
    def _types(cls, types: list[str]) -> list[str]:
        for text in types:
            if text.startswith("ml."):
                raise ValueError(f"EKS node groups take EC2 types, without ml.: {text.removeprefix('ml.')}")
            if not re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", text):
                raise ValueError(f"an EC2 instance type looks like m6i.2xlarge, not {text!r}")
        if len(set(types)) != len(types):
            raise ValueError("an instance type is named twice")
        return types

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        return check_labels(labels)

    @model_validator(mode="after")
    def _consistent(self) -> NodeGroupSpec:
        if (self.capacity == "capacity-block") != (self.capacity_reservation_id is not None):
            raise fault("/capacity_reservation_id", "capacity-block and capacity_reservation_id go together")
        if self.capacity == "capacity-block" and len(self.instance_types) != 1:
            raise fault("/instance_types", "a capacity block is of one instance type")
        if self.efa and len(self.availability_zones) > 1:
            raise fault("/availability_zones", "EFA does not cross Availability Zones: name one")
        if self.availability_zones and self.subnet_ids:
            raise fault("/subnet_ids", "give availability_zones or subnet_ids, not both")
        return self


class ScaleNodeGroupSpec(NodeGroupScaling):
    node_group: NodeGroupName


class DeleteNodeGroupSpec(Model):
    node_group: NodeGroupName


class NodeGroup(Ensured):
    """A node group as EKS describes it. ``status`` is EKS's own: CREATING, ACTIVE …"""

    name: str
    status: str
    instance_types: list[str] = Field(default_factory=list)
    capacity: str = "on-demand"
    desired: int = 0
    minimum: int = 0
    maximum: int = 0
    ready: int = 0
    """Nodes that are Ready in Kubernetes."""
    accelerators: int = 0
    """Allocatable on those nodes."""
    subnet_ids: list[str] = Field(default_factory=list)
    owned: bool = True
    """Whether we made it; others' are listed, and changed only when somebody names them."""
    problem: str | None = None
    """EKS's health issues."""
    replacing: bool = False
    """It must be gone before it can be made anew: wait for that, and ensure it again."""


class EnsureNodeRole(Model):
    scope: Scope


class PlaceNodeGroup(Model):
    scope: Scope
    spec: NodeGroupSpec
    network: Network


class NodePlacement(Model):
    """Where the nodes of a group go. ``addresses``: what the nodes of one zone take from their subnet."""

    zones: list[str]
    addresses: int
    accelerator_resource: str | None = None
    """Kubernetes' name of what the nodes have, e.g. ``nvidia.com/gpu``."""


class EnsureLaunchTemplate(Model):
    scope: Scope
    spec: NodeGroupSpec
    security_group_ids: list[str]
    """Of the EFA interfaces; without EFA, EKS gives the nodes the cluster security group."""


class LaunchTemplate(Ensured):
    launch_template_id: str
    name: str
    version: int


class EnsureDevicePlugins(Model):
    scope: Scope
    eks_cluster: str
    resources: list[str]
    """What nodes of EKS node groups should offer to pods: ``nvidia.com/gpu``, ``vpc.amazonaws.com/efa``."""


class DevicePlugins(Ensured):
    names: list[str]
    """DaemonSets, ours or others', that serve the resources."""


class EnsureNodeGroup(Model):
    scope: Scope
    eks_cluster: str
    spec: NodeGroupSpec
    role_arn: str
    subnet_ids: list[str]
    launch_template: LaunchTemplate
    round: int = 0
    """Counts the group's creations within the operation: each is another one to EKS."""


class ScaleNodeGroup(Model):
    scope: Scope
    eks_cluster: str
    spec: ScaleNodeGroupSpec


class WaitForNodeGroup(Model):
    """Until the group is ACTIVE and just ``desired`` nodes are there, Ready, with all accelerators of their type."""

    scope: Scope
    eks_cluster: str
    name: str
    desired: int
    efa: bool = False


class NodeGroupRef(Model):
    """A node group by its name."""

    scope: Scope
    eks_cluster: str
    name: str


class NodeGroupGone(Ensured):
    name: str


class DeleteNodeRole(Model):
    scope: Scope
    eks_cluster: str


class CleanedUp(Ensured):
    """What was deleted, or was not there any more; ``kept`` says why it stays."""

    name: str
    kept: str | None = None


class ListNodeGroups(Model):
    scope: Scope
    eks_cluster: str


class NodeGroups(Model):
    node_groups: list[NodeGroup] = Field(default_factory=list)


ENSURE_NODE_ROLE = Act("node_groups.ensure_role", EnsureNodeRole, Role)
PLACE_NODE_GROUP = Act("node_groups.place", PlaceNodeGroup, NodePlacement)
ENSURE_LAUNCH_TEMPLATE = Act("node_groups.ensure_launch_template", EnsureLaunchTemplate, LaunchTemplate)
ENSURE_DEVICE_PLUGINS = Act(
    "node_groups.ensure_device_plugins", EnsureDevicePlugins, DevicePlugins, queue=Queue.KUBERNETES
)
ENSURE_NODE_GROUP = Act("node_groups.ensure", EnsureNodeGroup, NodeGroup)
SCALE_NODE_GROUP_TO = Act("node_groups.scale", ScaleNodeGroup, NodeGroup)
WAIT_FOR_NODE_GROUP = Wait("node_groups.wait_for_nodes", WaitForNodeGroup, NodeGroup, limit=timedelta(minutes=60))
START_NODE_GROUP_DELETION = Act("node_groups.delete", NodeGroupRef, NodeGroupGone)
WAIT_FOR_NODE_GROUP_GONE = Wait("node_groups.wait_until_gone", NodeGroupRef, NodeGroupGone, limit=timedelta(minutes=60))
DELETE_LAUNCH_TEMPLATE = Act("node_groups.delete_launch_template", NodeGroupRef, CleanedUp)
DELETE_NODE_ROLE = Act("node_groups.delete_role", DeleteNodeRole, CleanedUp)
LIST_NODE_GROUPS = Act("node_groups.list", ListNodeGroups, NodeGroups)
