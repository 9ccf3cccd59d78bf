"""The wait loop: look, say what was seen, sleep, until a state is reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.context import Threads, in_thread
from activities.errors import classify, fail
from contracts.problem import ProblemCode

Result = TypeVar("Result")
Outcome = TypeVar("Outcome")

HEARTBEAT_SECONDS = 4.0
WORKER_SHUTDOWN = "worker_shutdown"

logger = logging.getLogger(__name__)


@dataclass
class Seen(Generic[Result]):
    """One look. ``result`` is set once the state is reached; ``detail`` is the live line of the stage."""

    detail: str
    result: Result | None = None


@dataclass
class Memory:
    """What a wait remembers from look to look, also across workers: it travels in the heartbeat's details."""

    polls: int = 0
    detail: str = "starting"
    notes: dict[str, Any] = field(default_factory=dict)
    """JSON values."""

    @classmethod
    def resumed(cls) -> Memory:
        details = activity.info().heartbeat_details
        if details and isinstance(details[0], dict):
            last = details[0]
            return cls(int(last.get("polls", 0)), str(last.get("detail", "")), dict(last.get("notes") or {}))
        return cls()

    def heartbeat(self) -> None:
        activity.heartbeat({"polls": self.polls, "detail": self.detail, "notes": self.notes})


Look = Callable[[Memory], Seen[Result]]


FIRST_PAUSE = 1.0
"""Seconds between a wait's first looks: what is nearly there already is seen soon. Each pause is twice the last one."""


async def wait_until(
    look: Look[Result],
    *,
    what: str,
    limit: timedelta,
    poll_seconds: float,
    first_pause: float = FIRST_PAUSE,
    threads: Threads | None = None,
    nudge: asyncio.Event | None = None,
) -> Result:
    """Call ``look`` (in a thread) until it brings a result, at last every ``poll_seconds``.

    ``threads``: those that look; by default those that all waits share. ``nudge``: when it is set, the next look
    comes at once.

    ``look`` raises an ApplicationError for a state from which ``what`` cannot be reached any more; errors that may pass
    are looked over. Raises TIMEOUT after ``limit`` from when the activity was scheduled, and ``worker_shutdown``
    (retried by another worker, which resumes from the details) as soon as the worker stops.
    """
    memory = Memory.resumed()
    deadline = activity.info().scheduled_time + limit
    stopping = asyncio.ensure_future(activity.wait_for_worker_shutdown())
    failures = 0
    try:
        while True:
            try:
                seen = await _unless_stopping(in_thread(threads, look, memory), stopping, memory)
                failures = 0
            except Exception as error:
                failures += 1
                classified = classify(error, attempt=failures, pace=poll_seconds)
                if classified.non_retryable or classified.type == WORKER_SHUTDOWN:
                    raise classified from (None if classified is error else error)
                logger.info("looking again after %s: %s", classified.type, classified)
                seen = Seen(f"{memory.detail.split(' (retrying')[0]} (retrying after: {classified.type})")
            memory.polls += 1
            memory.detail = seen.detail
            memory.heartbeat()
            if seen.result is not None:
                return seen.result
            if datetime.now(UTC) >= deadline:
                fail(
                    ProblemCode.TIMEOUT,
                    f"{what} was not reached within {limit}: {seen.detail}",
                    "Look at what the detail names; retry to wait on, nothing was undone.",
                )
            pause = min(first_pause * 2 ** min(memory.polls - 1, 20), poll_seconds)
            await _unless_stopping(_sleep(pause, memory, nudge), stopping, memory)
    finally:
        stopping.cancel()


def worker_stops() -> ApplicationError:
    """What a wait raises when its worker stops: another one goes on at once."""
    return ApplicationError(
        "the worker stops; another one goes on",
        type=WORKER_SHUTDOWN,
        next_retry_delay=timedelta(seconds=1),
        category=ApplicationErrorCategory.BENIGN,
    )


async def _sleep(seconds: float, memory: Memory, nudge: asyncio.Event | None) -> None:
    while seconds > 0:
        if nudge is None:
            await asyncio.sleep(min(seconds, HEARTBEAT_SECONDS))
        elif await _nudged(nudge, min(seconds, HEARTBEAT_SECONDS)):
            return
        seconds -= HEARTBEAT_SECONDS
        if seconds > 0:
            memory.heartbeat()


async def _nudged(nudge: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(nudge.wait(), seconds)
    except TimeoutError:
        return False
    nudge.clear()
    return True


async def _unless_stopping(work: Awaitable[Outcome], stopping: asyncio.Future[None], memory: Memory) -> Outcome:
    """The outcome of ``work``, unless the worker stops first; what runs in a thread then ends by itself."""
    task = asyncio.ensure_future(work)
    watched: set[asyncio.Future[Any]] = {task, stopping}
    try:
        while not task.done():
            await asyncio.wait(watched, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done() and not task.done():
                raise worker_stops()
            if not task.done():
                memory.heartbeat()
        return task.result()
    finally:
        task.cancel()
