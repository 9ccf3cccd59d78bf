"""Whom a workflow ID is about."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from contracts.catalogue import CLUSTER_WORKFLOW, KINDS


class Subject(NamedTuple):
    """``kind`` of the operation, and the ``cluster``'s tag; None for what is no operation, or of no cluster."""

    kind: str | None
    cluster: str | None


@lru_cache(maxsize=2000)
def subject(workflow_id: str) -> Subject:
    """From an ID such as ``create-cluster/demo`` or ``cluster/demo``. Look-ups are about no cluster by their ID."""
    parts = workflow_id.split("/")
    kind = parts[0] if parts[0] in KINDS else None
    named = kind is not None or parts[0] == CLUSTER_WORKFLOW
    return Subject(kind, parts[1] if named and len(parts) > 1 else None)
