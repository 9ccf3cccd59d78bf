"""Reading logs for somebody: no operation, nothing changes, and no text of a log is in these histories.

The text is told in the heartbeats of the activities. They are tried again without limit within the life of the
workflow: only where Temporal gives an activity up does it write its last heartbeat into the history.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from contracts.catalogue import FOLLOW_LOGS_WORKFLOW, READ_LOGS_WORKFLOW
from contracts.logs import (
    FOLLOW_LOGS,
    LONGEST_FOLLOW,
    READ_LOGS,
    WATCHING,
    FollowLogs,
    LogsFollowed,
    LogsRead,
    ReadLogs,
)
from contracts.queues import task_queue

HEARTBEAT_TIMEOUT = timedelta(seconds=15)
RETRIES = RetryPolicy(maximum_interval=timedelta(seconds=5))
MOST_SIGNALS = 500
"""A reader with so many is begun anew: its history would grow for as long as somebody watches."""


@workflow.defn(name=READ_LOGS_WORKFLOW)
class ReadLogsWorkflow:
    """One page; ends as soon as it was taken."""

    def __init__(self) -> None:
        self._taken = False

    @workflow.run
    async def run(self, question: ReadLogs) -> LogsRead:
        reading = workflow.start_activity(
            READ_LOGS.name,
            question,
            task_queue=task_queue(READ_LOGS.queue, question.source.region),
            result_type=LogsRead,
            start_to_close_timeout=READ_LOGS.limit,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRIES,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        await workflow.wait_condition(lambda: self._taken or reading.done())
        if not reading.done():
            reading.cancel()
        read: LogsRead = await reading
        return read

    @workflow.signal
    def taken(self) -> None:
        """Whoever asked has the page."""
        self._taken = True


@workflow.defn(name=FOLLOW_LOGS_WORKFLOW)
class FollowLogsWorkflow:
    """One reader, for as long as somebody watches."""

    def __init__(self) -> None:
        self._signals = 0

    @workflow.run
    async def run(self, question: FollowLogs) -> LogsFollowed:
        following = workflow.start_activity(
            FOLLOW_LOGS.name,
            question,
            task_queue=task_queue(FOLLOW_LOGS.queue, question.source.region),
            result_type=LogsFollowed,
            start_to_close_timeout=LONGEST_FOLLOW + timedelta(minutes=5),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRIES,
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
        )
        until = workflow.now() + LONGEST_FOLLOW
        while not following.done():
            heard = self._signals
            try:
                await workflow.wait_condition(
                    lambda heard=heard: following.done() or self._signals != heard,  # type: ignore[misc]
                    timeout=timedelta(seconds=WATCHING.patience),
                )
            except TimeoutError:
                return await self._end(following, "left")
            if self._signals >= MOST_SIGNALS or workflow.now() > until:
                return await self._end(following, "full")
        followed: LogsFollowed = await following
        return followed

    @workflow.signal
    def watch(self) -> None:
        """Somebody watches, still or from now on."""
        self._signals += 1

    async def _end(self, following: asyncio.Task[LogsFollowed], reason: str) -> LogsFollowed:
        following.cancel()
        await workflow.wait([following])
        return LogsFollowed(reason=reason)
