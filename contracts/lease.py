"""Leases: what an operation holds exclusively of a cluster while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from contracts.activity import Wait
from contracts.model import Model

WHOLE_CLUSTER = "*"


def conflict(one: str, other: str) -> bool:
    """Whether two leases exclude each other: equal, or one names a part of the other (``storage``, ``storage/s3``)."""
    if WHOLE_CLUSTER in (one, other):
        return True
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def conflicts(ones: Iterable[str], others: Iterable[str]) -> bool:
    """Whether any lease of one operation excludes any of another."""
    wanted = list(others)
    return any(conflict(one, other) for one in ones for other in wanted)


class LeaseRequest(Model):
    operation: str
    """Workflow ID of the holder."""
    run_id: str
    kind: str
    by: str
    leases: tuple[str, ...]
    wait: bool = True


class Lease(Model):
    """What an operation holds, or waits for."""

    operation: str
    run_id: str
    kind: str
    by: str
    leases: tuple[str, ...]
    since: datetime


class LeaseGrant(Model):
    granted: bool
    behind: str | None = None
    """The operation that holds what is needed, or waits for it and came first."""
    position: int = 0
    """Place in the queue, from 1; 0 when granted."""


class HeldBy(Model):
    """Who holds leases, by its ID: whichever of its runs that is."""

    operation: str


WAIT_FOR_HOLDER = Wait("cluster.wait_for_holder", HeldBy, HeldBy, limit=timedelta(days=1))
"""Until that operation has ended, and so holds nothing any more."""
