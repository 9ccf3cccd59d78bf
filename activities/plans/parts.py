"""What a cluster must have before something can be planned on it."""

from __future__ import annotations

from contracts.catalogue import CREATE_CONTROL_PLANE, CREATE_HYPERPOD
from contracts.cluster import ClusterRecord
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
