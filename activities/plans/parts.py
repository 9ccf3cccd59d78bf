"""What planners of several kinds have in common."""

from __future__ import annotations

from typing import TypeVar

from activities.hyperpod.groups import Specification, capacity_of
from activities.hyperpod.translator import types_of
from contracts.catalogue import CREATE_CONTROL_PLANE, CREATE_HYPERPOD
from contracts.cluster import ClusterRecord
from contracts.eks import ControlPlane
from contracts.hyperpod import HyperPodCluster
from contracts.identity import Identity
from contracts.plans import CapacityChange
from contracts.problem import FieldError, ProblemCode

T = TypeVar("T")


class PartMissing(Exception):
    """The cluster lacks a part that the operation builds on. The plan is this one blocker then."""

    def __init__(self, blocker: FieldError) -> None:
        super().__init__(blocker.detail)
        self.blocker = blocker


def control_plane_of(record: ClusterRecord) -> ControlPlane:
    """The EKS cluster. Raises PartMissing where there is none."""
    return present(record, record.control_plane, "control plane", CREATE_CONTROL_PLANE.name)


def identity_of(record: ClusterRecord) -> Identity:
    """The cluster's roles. Raises PartMissing where there are none."""
    return present(record, record.identity, "roles", CREATE_CONTROL_PLANE.name)


def hyperpod_of(record: ClusterRecord) -> HyperPodCluster:
    """The HyperPod cluster. Raises PartMissing where there is none."""
    return present(record, record.hyperpod, "HyperPod cluster", CREATE_HYPERPOD.name)


def present(record: ClusterRecord, value: T | None, what: str, made_by: str) -> T:
    """A part of the cluster that must exist already. Raises PartMissing where it does not."""
    if value is None:
        detail, remedy = f"Cluster {record.tag} has no {what} yet", f"Start {made_by} for {record.tag} first."
        raise PartMissing(FieldError(field="", detail=detail, remedy=remedy, code=ProblemCode.NOT_FOUND))
    return value


def group_capacity(group: Specification, count: int, pointer: str = "") -> list[CapacityChange]:
    """``count`` more (or, negative, fewer) instances of a described group, with their volumes; nothing for none."""
    types = types_of(group)
    if not count or not types:
        return []
    volumes = [
        each["EbsVolumeConfig"] for each in group.get("InstanceStorageConfigs") or [] if "EbsVolumeConfig" in each
    ]
    subnets = (group.get("OverrideVpcConfig") or {}).get("Subnets", [])
    return [
        CapacityChange(
            instance_type=types[0],
            count=count,
            capacity=capacity_of(group),
            volume_gib=sum(volume.get("VolumeSizeInGB", 0) for volume in volumes),
            subnet_id=subnets[0] if len(subnets) == 1 else None,
            pointer=pointer,
        )
    ]
