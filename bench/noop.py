"""Temporal's ceiling: activities that do nothing, one after the other."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn
async def no_op() -> None:
    """Nothing."""


@workflow.defn
class NoOps:
    @workflow.run
    async def run(self, count: int) -> None:
        for _ in range(count):
            await workflow.execute_activity(no_op, start_to_close_timeout=timedelta(seconds=30))
