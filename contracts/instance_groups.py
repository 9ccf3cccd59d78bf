"""Instance groups of a HyperPod cluster that exists: added, scaled, changed and deleted."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from contracts.activity import Act, Wait
from contracts.capacity import Capacity, Count, DeepHealthCheck, GroupName, Taint, check_labels, instance_type
from contracts.hyperpod import HyperPodCluster, InstanceGroup, PlacedGroup
from contracts.model import Ensured, Model, fault
from contracts.network import Scope


class InstanceGroupScaling(Model):
    """How many instances a group should have."""

    count: Count


class ScaleInstanceGroupSpec(InstanceGroupScaling):
    group: GroupName


class InstanceGroupChanges(Model):
    """What of a group should change; what is not named stays as it is.

    A group's type, zone, subnet, capacity, network interface and threads per core belong to its instances and cannot be
    changed: they are accepted here only so that the refusal can say what to do instead.
    """

    min_count: Count | None = None
    labels: dict[str, str] | None = Field(None, max_length=50)
    """All labels that the group should have: replaces what it has."""
    taints: list[Taint] | None = Field(None, max_length=50)
    """All taints that the group should have."""
    deep_health_checks: list[DeepHealthCheck] | None = Field(None, max_length=3)
    volume_gib: int | None = Field(None, ge=1, le=16384, strict=True)
    """Of instances that come later; those that run keep theirs."""
    instance_type: str | None = None
    availability_zone: str | None = None
    capacity: JsonValue = None
    network_interface: Literal["efa", "efa-only"] | None = None
    threads_per_core: int | None = None
    subnet_id: str | None = None

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str] | None) -> dict[str, str] | None:
        return None if labels is None else check_labels(labels)

    @model_validator(mode="after")
    def _changes_something_that_can_change(self) -> InstanceGroupChanges:
        given = {name for name in type(self).model_fields if name != "group" and getattr(self, name) is not None}
        for name in sorted(given & IMMUTABLE.keys()):
            raise fault(f"/{name}", f"a group's {name} cannot be changed: {IMMUTABLE[name]}")
        if not given:
            raise fault("", "name at least one member to change")
        return self


_INSTEAD = "it belongs to the instances; add a group with the new value, move the work, and delete this one"
IMMUTABLE = dict.fromkeys(
    ("instance_type", "availability_zone", "capacity", "network_interface", "threads_per_core", "subnet_id"), _INSTEAD
)
"""Members of a group that an update refuses, with what to do instead."""


class UpdateInstanceGroupSpec(InstanceGroupChanges):
    group: GroupName


class DeleteInstanceGroupSpec(Model):
    group: GroupName
    drain: bool = True
    """Cordon the group's nodes and evict their pods first."""


class KeepWaiting(Model):
    kind: Literal["wait"] = "wait"


class TakeZone(Model):
    """The group is made anew in another zone."""

    kind: Literal["zone"] = "zone"
    availability_zone: str


class TakeType(Model):
    """The group is made anew of another type."""

    kind: Literal["type"] = "type"
    instance_type: str
    availability_zone: str | None = None
    """Null: where the group is now, if the type is offered there."""

    @field_validator("instance_type")
    @classmethod
    def _instance_type(cls, text: str) -> str:
        return instance_type(text)


class TakeCapacity(Model):
    """The group is made anew with capacity that is bought otherwise."""

    kind: Literal["capacity"] = "capacity"
    capacity: Capacity


class TakeFewer(Model):
    """The target becomes ``count``."""

    kind: Literal["fewer"] = "fewer"
    count: Count


class KeepWhatCame(Model):
    """The target becomes what is there."""

    kind: Literal["keep"] = "keep"


class EndOperation(Model):
    """The operation ends; the group stays as it is, and HyperPod tries on."""

    kind: Literal["abort"] = "abort"


Remedy = Annotated[
    KeepWaiting | TakeZone | TakeType | TakeCapacity | TakeFewer | KeepWhatCame | EndOperation,
    Field(discriminator="kind"),
]


class ShortfallAnswer(Model):
    """What to do when instances do not come."""

    remedy: Remedy

    @field_validator("remedy", mode="before")
    @classmethod
    def _named(cls, remedy: Any) -> Any:
        """A remedy that has nothing but its kind may be given as that alone: ``wait``."""
        return {"kind": remedy} if isinstance(remedy, str) else remedy


class GroupAt(Model):
    """A group of a HyperPod cluster, by their names."""

    scope: Scope
    hyperpod_cluster: str
    group: str


class AddGroup(Model):
    """What is null of the last three is taken from the first group that the cluster has."""

    scope: Scope
    hyperpod_cluster: str
    group: PlacedGroup
    execution_role_arn: str | None = None
    lifecycle_scripts_uri: str | None = None
    security_group_id: str | None = None


class GroupEnsured(Ensured):
    """The cluster as it was seen after the act; ``replacing`` names a group that must be gone first."""

    group: str
    cluster: HyperPodCluster


class Road(StrEnum):
    """How a group gets to a count."""

    NONE = "none"
    """It is its target already."""
    ADD = "add"
    """Nodes are added (BatchAddClusterNodes)."""
    REMOVE = "remove"
    """Chosen nodes are deleted (BatchDeleteClusterNodes)."""
    UPDATE = "update"
    """The target is set (UpdateCluster); HyperPod chooses."""


class PlanScaling(GroupAt):
    eks_cluster: str
    count: int


class ScalingPlan(Model):
    """What to do from ``target``, which was read now."""

    road: Road
    target: int
    current: int
    nodes: list[str] = Field(default_factory=list)
    """Those to delete, by instance ID or, where they have none yet, by logical ID."""
    busy: list[str] = Field(default_factory=list)
    """Of these, the ones that have pods of users, as ``node (n pods)``."""


class AddNodes(GroupAt):
    """``base`` is the target that was read when it was decided; ``step`` tells apart repeated decisions of one run."""

    base: int
    count: int
    step: str


class RemoveNodes(GroupAt):
    nodes: list[str]


class SetCount(GroupAt):
    count: int


class Scaled(Ensured):
    group: str
    target: int


class UpdateGroup(GroupAt):
    changes: UpdateInstanceGroupSpec


class GroupUpdated(Ensured):
    group: str
    changed_members: list[str] = Field(default_factory=list)


class WaitForUpdate(GroupAt):
    eks_cluster: str
    changes: UpdateInstanceGroupSpec


class GroupSettled(Model):
    cluster: HyperPodCluster
    group: InstanceGroup
    nodes: int
    """Nodes that were seen with the labels and taints."""


class DeleteGroup(GroupAt):
    eks_cluster: str


class GroupDeleted(Ensured):
    group: str


class ReadGroups(Model):
    scope: Scope
    hyperpod_cluster: str


ADD_GROUP = Act("instance_groups.add", AddGroup, GroupEnsured)
PLAN_SCALING = Act("instance_groups.plan_scaling", PlanScaling, ScalingPlan)
ADD_NODES = Act("instance_groups.add_nodes", AddNodes, Scaled, limit=timedelta(minutes=10))
REMOVE_NODES = Act("instance_groups.remove_nodes", RemoveNodes, Scaled, limit=timedelta(minutes=10))
SET_COUNT = Act("instance_groups.set_count", SetCount, Scaled)
UPDATE_GROUP = Act("instance_groups.update", UpdateGroup, GroupUpdated)
WAIT_FOR_UPDATE = Wait("instance_groups.wait_for_update", WaitForUpdate, GroupSettled, limit=timedelta(minutes=60))
DELETE_GROUP = Act("instance_groups.delete", DeleteGroup, GroupDeleted)
READ_GROUPS = Act("instance_groups.read", ReadGroups, HyperPodCluster)
