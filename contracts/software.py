"""Updates of the software (AMI) of instance groups."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, model_validator

from contracts.activity import Act, Wait
from contracts.capacity import GroupName
from contracts.hyperpod import CountedNodes
from contracts.model import Ensured, Model, fault
from contracts.network import Scope


class BatchSize(Model):
    """How many instances at once (RollingUpdatePolicy.MaximumBatchSize)."""

    type: Literal["INSTANCE_COUNT", "CAPACITY_PERCENTAGE"] = "CAPACITY_PERCENTAGE"
    value: int = Field(ge=1)

    @model_validator(mode="after")
    def _percentage(self) -> BatchSize:
        if self.type == "CAPACITY_PERCENTAGE" and self.value > 100:
            raise fault("/value", f"a percentage is at most 100, not {self.value}")
        return self


class RollingUpdate(Model):
    """How an update goes through a group (sagemaker:UpdateClusterSoftware DeploymentConfig)."""

    maximum_batch: BatchSize
    rollback_batch: BatchSize | None = None
    wait_seconds: int = Field(0, ge=0, le=3600)
    """Between batches."""
    rollback_alarms: list[str] = Field(default_factory=list, max_length=10)
    """CloudWatch alarms that make it roll back."""


class UpdateSoftwareSpec(Model):
    """Root volumes of the instances are made anew: what is on them is lost."""

    groups: list[GroupName] = Field(default_factory=list, max_length=100)
    """Only these; empty: all."""
    image_id: str | None = Field(None, pattern=r"^ami-[0-9a-f]{8,17}$|^default$", examples=["ami-0123456789abcdef0"])
    release_version: str | None = Field(None, pattern=r"^\d+\.\d+\.\d+$", examples=["2.4.1"])
    rolling: RollingUpdate | None = None
    """Null: all instances of a group at once, as the service does by default."""

    @model_validator(mode="after")
    def _consistent(self) -> UpdateSoftwareSpec:
        if self.release_version and (self.image_id or "default") != "default":
            raise fault(
                "/release_version", "a release is of HyperPod's own image; a custom AMI has none: give one of both"
            )
        if len(set(self.groups)) != len(self.groups):
            raise fault("/groups", "a group is named twice")
        return self


class GroupSoftware(Model):
    """The software of an instance group, as DescribeCluster and ListClusterNodes tell it."""

    group: str
    instance_type: str
    nodes: int
    current_image: str | None = None
    desired_image: str | None = None
    current_version: str | None = None
    desired_version: str | None = None
    image_status: str | None = None
    """``UpToDate``, ``UpdateAvailable``, ``SecurityUpdateRequired`` or ``EndOfLife``."""
    update_status: str | None = None
    """Of the last update: ``Pending``, ``InProgress``, ``Succeeded``, ``Failed``, ``RollbackInProgress`` or
    ``RollbackComplete``; null: there was none."""
    on_desired: int = 0
    """Nodes that run the desired image."""
    versions: dict[str, int] = Field(default_factory=dict)
    """How many nodes run which release."""
    last_update_at: datetime | None = None
    """When a node's software was last changed."""

    @property
    def custom(self) -> bool:
        """Whether the group has an AMI of the account's own."""
        return (self.desired_image or "default").startswith("ami-")


class ReadSoftware(Model):
    cluster: str
    region: str
    hyperpod: str


class SoftwareRead(Model):
    cluster_status: str
    groups: list[GroupSoftware]
    read_at: datetime


class UpdateSoftware(Model):
    scope: Scope
    name: str
    """The HyperPod cluster."""
    spec: UpdateSoftwareSpec
    before: list[GroupSoftware]
    """The groups as they were before anything was done: what an accepted request is told by."""


class SoftwareUpdate(Ensured):
    """What came of the request. ``changed`` is false where every group is on the asked version already."""

    groups: list[str]
    """Groups that are being updated, to be waited for."""
    unchanged: list[str] = Field(default_factory=list)
    """Groups on the asked version already."""


class WaitForSoftware(Model):
    scope: Scope
    name: str
    eks_cluster: str
    groups: list[str]
    before: list[GroupSoftware]
    """As in the request: a status that was there before says nothing of this update."""


class SoftwareUpdated(CountedNodes):
    groups: list[GroupSoftware]


READ_SOFTWARE = Act("software.read", ReadSoftware, SoftwareRead)
UPDATE_SOFTWARE = Act("software.update", UpdateSoftware, SoftwareUpdate)
WAIT_FOR_SOFTWARE = Wait("software.wait", WaitForSoftware, SoftwareUpdated, limit=timedelta(hours=6))
