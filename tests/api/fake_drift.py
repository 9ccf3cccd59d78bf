"""A fake check for drift."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.drift import CHECK_DRIFT_WORKFLOW, CheckDrift, DriftAnswer, DriftKind, DriftReport, Unread


@workflow.defn(name=CHECK_DRIFT_WORKFLOW)
class CheckDriftOf:
    """Finds nothing, and cannot look at storage."""

    @workflow.run
    async def run(self, asked: CheckDrift) -> DriftAnswer:
        unread = [Unread(kinds=[DriftKind.STORAGE], detail="no answer")]
        report = DriftReport(checked_at=workflow.now(), unread=unread)
        return DriftAnswer(cluster=asked.cluster, report=report, live=True)


DRIFT: list[Any] = [CheckDriftOf]
