"""What plans say of the room that there is for replicas on a cluster's nodes."""

from __future__ import annotations

from dataclasses import dataclass

from activities.deployments.capacity import Room
from contracts.plans import Check


@dataclass(frozen=True)
class Replica:
    """What of a replica says where it may run. (``activities.deployments.capacity.Asked``)"""

    instance_types: list[str]
    gpu_count: int
    efa: int = 0


def room_checks(room: Room, gpu_count: int) -> list[Check]:
    """A check for each instance type: how much is free on its nodes. It fails where replicas take GPUs and none would
    find its own now."""
    return [
        Check(name=f"room on {each.instance_type}", passed=each.slots > 0 or not gpu_count, detail=each.words())
        for each in room.types.values()
    ]


def shortfall(room: Room, gpu_count: int, replicas: int) -> str | None:
    """That some of ``replicas`` would find no free GPUs now, and what they wait for; None where all would."""
    if not gpu_count or room.slots >= replicas:
        return None
    coming = (
        f"; node pool {', '.join(room.scaled)} may make nodes for them"
        if room.scaled
        else ": they wait until GPUs are given back or nodes are added"
    )
    return f"{replicas - room.slots} of {replicas} replicas find no free GPUs now{coming}"
