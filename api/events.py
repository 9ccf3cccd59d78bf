"""Live operations: one history long-poll for each watched run, shared by all who watch it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from temporalio.client import WorkflowHistoryEventFilterType
from temporalio.service import RPCError, RPCStatusCode

from api.mapping import Seen, from_description
from api.problems import ProblemError
from api.temporal import Temporal

logger = logging.getLogger("instantstart.api")

_SETTLE = 0.05
"""Seconds in which changes that come together are taken as one."""
_AGAIN = 1.0
"""Seconds before Temporal is asked again after it failed to answer."""
_TELLING = (
    "workflow_properties_modified_event_attributes",
    "workflow_execution_completed_event_attributes",
    "workflow_execution_failed_event_attributes",
    "workflow_execution_timed_out_event_attributes",
    "workflow_execution_canceled_event_attributes",
    "workflow_execution_terminated_event_attributes",
    "workflow_execution_continued_as_new_event_attributes",
    "activity_task_scheduled_event_attributes",
)
"""Events after which an operation may look different. A scheduled activity may have live details from now on."""


class Watch:
    """A run that somebody watches. ``latest`` is what was last seen of it."""

    def __init__(self, temporal: Temporal, first: Seen, detail_seconds: float) -> None:
        self.latest = first
        self.watchers = 0
        self.closed = False
        self._temporal = temporal
        self._detail_seconds = detail_seconds
        self._active = first.active
        self._dirty = asyncio.Event()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._refresh())]

    def offer(self, seen: Seen) -> None:
        """Take what somebody else saw, if it is newer."""
        if seen.version > self.latest.version or (self.latest.open and not seen.open):
            self._publish(seen)

    async def close(self) -> None:
        """End the long-poll, and let every watcher go on."""
        self.closed = True
        self._news.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def change_from(self, known: Seen) -> Seen:
        """Wait until something else than ``known`` is seen; ``known`` itself if the watch is closed."""
        while self.latest is known and not self.closed:
            await self._news.wait()
        return self.latest

    def _publish(self, seen: Seen) -> None:
        self._active = seen.active
        if (seen.operation, seen.version, seen.open) == (self.latest.operation, self.latest.version, self.latest.open):
            return
        self.latest = seen
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _follow(self) -> None:
        """Mark the watch dirty at every event that may show."""
        operation = self.latest.operation
        handle = self._temporal.client.get_workflow_handle(operation.id, run_id=operation.run_id)
        while not self.closed:
            try:
                events = handle.fetch_history_events(
                    wait_new_event=True,
                    skip_archival=True,
                    event_filter_type=WorkflowHistoryEventFilterType.ALL_EVENT,
                )
                async for event in events:
                    if event.WhichOneof("attributes") in _TELLING:
                        self._dirty.set()
                self._dirty.set()
                return
            except (RPCError, RuntimeError) as error:
                logger.warning("watching %s: %s", operation.id, error)
                self._dirty.set()
                await asyncio.sleep(_AGAIN)

    async def _refresh(self) -> None:
        """Describe the run after every change, and now and then while an activity may tell details."""
        while self.latest.open and not self.closed:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._detail_seconds if self._active else None):
                    await self._dirty.wait()
            await asyncio.sleep(_SETTLE)
            self._dirty.clear()
            try:
                seen = await self._describe()
            except (ProblemError, RPCError) as error:
                if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                    break
                await asyncio.sleep(_AGAIN)
                self._dirty.set()
                continue
            if seen is None:
                break
            self._publish(seen)
        self.closed = True
        self._news.set()

    async def _describe(self) -> Seen | None:
        operation = self.latest.operation
        found = await self._temporal.find(operation.id, operation.run_id)
        return await from_description(found) if found else None


class Hub:
    """All watches of this gateway."""

    def __init__(self, temporal: Temporal, detail_seconds: float) -> None:
        self._temporal = temporal
        self._detail_seconds = detail_seconds
        self._watches: dict[tuple[str, str | None], Watch] = {}
        self.closing = False

    @asynccontextmanager
    async def watch(self, seen: Seen) -> AsyncIterator[Watch]:
        """Watch the run that was just seen, together with everybody who watches it already."""
        key = seen.operation.id, seen.operation.run_id
        watch = self._watches.get(key)
        if watch is None or watch.closed:
            watch = Watch(self._temporal, seen, self._detail_seconds)
            if self.closing:
                watch.closed = True
            else:
                self._watches[key] = watch
                watch.start()
        else:
            watch.offer(seen)
        watch.watchers += 1
        try:
            yield watch
        finally:
            watch.watchers -= 1
            if watch.watchers == 0:
                if self._watches.get(key) is watch:
                    del self._watches[key]
                await watch.close()

    async def close(self) -> None:
        """End every stream and long poll: the gateway is about to stop."""
        self.closing = True
        for watch in list(self._watches.values()):
            await watch.close()
