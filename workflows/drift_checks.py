"""A cluster's schedule of drift checks: begun with the cluster, and gone with it."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.drift import DRIFT_STAGE, ENSURE_DRIFT_SCHEDULE, REMOVE_DRIFT_SCHEDULE, EnsureDriftSchedule
from contracts.operation import StageState
from workflows.engine import Operation, StagePlan, StageRun

DRIFT_CHECKS = StagePlan(DRIFT_STAGE, "Drift checks")
ADDED = "drift-schedule"
"""The patch by which operations that begin or end a cluster came to begin or end its checks."""


def _of(operation: Operation[Any]) -> EnsureDriftSchedule:
    return EnsureDriftSchedule(cluster=operation.start.cluster, region=operation.start.region)


async def drift_stage(operation: Operation[Any]) -> None:
    """The last stage of what a cluster begins with: its schedule of drift checks."""

    async def steps(run: StageRun) -> None:
        made = await run.act(ENSURE_DRIFT_SCHEDULE, _of(operation))
        said = "paused (drift checks are off)" if made.paused else f"every {made.every_minutes} minutes"
        run.detail(f"schedule {made.schedule}, {said}")

    if workflow.patched(ADDED):
        await operation.stage(DRIFT_STAGE, steps)
    else:
        operation.progress.change(DRIFT_STAGE, state=StageState.SKIPPED, detail="begun before there were drift checks")


async def end_drift_checks(run: StageRun, operation: Operation[Any]) -> None:
    """Delete the schedule of a cluster that is gone."""
    if workflow.patched(ADDED):
        await run.act(REMOVE_DRIFT_SCHEDULE, _of(operation))
