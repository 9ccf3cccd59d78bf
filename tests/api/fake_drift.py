"""A fake check for drift, and a cluster's entity that keeps what it finds a moment later."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.cluster import RecordChange
from contracts.drift import (
    CHECK_DRIFT_WORKFLOW,
    CheckDrift,
    DriftAnswer,
    DriftKind,
    DriftReport,
    DriftState,
    Unread,
)
from contracts.names import cluster_id


@workflow.defn(name=CHECK_DRIFT_WORKFLOW)
class CheckDriftOf:
    """Finds nothing, and cannot look at storage."""

    @workflow.run
    async def run(self, asked: CheckDrift) -> DriftAnswer:
        unread = [Unread(kinds=[DriftKind.STORAGE], detail="no answer")]
        report = DriftReport(checked_at=workflow.now(), unread=unread)
        change = RecordChange(changes={"drift": DriftState(report=report).model_dump(mode="json")}, by="check")
        await workflow.get_external_workflow_handle(cluster_id(asked.cluster)).signal("amend", change)
        return DriftAnswer(cluster=asked.cluster, report=report, live=True)


DRIFT: list[Any] = [CheckDriftOf]
