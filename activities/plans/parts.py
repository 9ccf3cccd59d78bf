"""What planners of several kinds have in common."""

from __future__ import annotations

from activities.hyperpod.groups import Specification, capacity_of
from activities.hyperpod.translator import types_of
from contracts.catalogue import CREATE_CONTROL_PLANE, CREATE_HYPERPOD
from contracts.cluster import ClusterRecord
from contracts.plans import CapacityChange
from contracts.problem import FieldError, ProblemCode

_MADE_BY = {
    "control_plane": ("control plane", CREATE_CONTROL_PLANE.name),
    "hyperpod": ("HyperPod cluster", CREATE_HYPERPOD.name),
}


def missing_parts(record: ClusterRecord, *parts: str) -> list[FieldError]:
    """A blocker for each of ``parts`` (members of the record) that is not there."""
    return [
        FieldError(
            field="",
            detail=f"Cluster {record.tag} has no {title} yet",
            remedy=f"Start {kind} for {record.tag} first.",
            code=ProblemCode.NOT_FOUND,
        )
        for title, kind in (_MADE_BY[part] for part in parts if getattr(record, part) is None)
    ]


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
