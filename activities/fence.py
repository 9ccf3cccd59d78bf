"""A fence before every call that acts: an attempt that Temporal has given up sends nothing any more.

A worker that stood still (SIGSTOP, a virtual machine that was paused, a process that was swapped out) goes on where it
stood. Meanwhile its heartbeats have run out, and another worker may have done what it was about to do: what takes no
client token, such as EC2's AllocateAddress, would be made a second time. So whatever acts asks Temporal first whether
its attempt is still the one. Temporal's answer to a heartbeat says so, and holds for another heartbeat timeout.
(Temporal API: RecordActivityTaskHeartbeat answers NotFound for an attempt that has timed out) An attempt that has ended
here, cancelled or because its worker stops, may leave a thread behind that is still at work: it is asked for nothing
more, and is refused at once.

What remains is a worker that is frozen between this answer and the request that follows it at once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from activities.errors import failure
from contracts.problem import ProblemCode, problem

FRESH_SECONDS = 10.0
"""For so long an answer is good, if the heartbeat timeout is not shorter still. A third of that timeout (15 s) is left
for what a call does before it reaches the other side."""
ANSWER_SECONDS = 5.0
READS = frozenset({"GET", "HEAD", "OPTIONS"})

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, where there is such a clock. (Linux, clock_gettime(2))"""


class Fence:
    """The fence of one attempt. Make it in the event loop of the worker."""

    def __init__(self, client: Client, info: activity.Info, newest: Callable[[], Sequence[Any]]) -> None:
        """``newest`` gives the details of the last heartbeat, which asking must not lose."""
        self._handle = client.get_async_activity_handle(task_token=info.task_token)
        self._workflow = client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._newest = newest
        timeout = info.heartbeat_timeout
        self._fresh = FRESH_SECONDS if timeout is None else min(FRESH_SECONDS, timeout.total_seconds() * 2 / 3)
        self._good_until = float("-inf")
        self._lock = threading.Lock()
        self._finishing = self._ended = False

    async def finish(self) -> None:
        """The attempt was cancelled, and does what it has left to do. It may where no other attempt follows: because
        it was the workflow that wanted its end, or because the workflow has ended meanwhile."""
        told = activity.cancellation_details()
        self._finishing = told is not None and (told.cancel_requested or (told.not_found and await self._is_last()))

    async def _is_last(self) -> bool:
        try:
            return (await self._workflow.describe()).status is not WorkflowExecutionStatus.RUNNING
        except RPCError:
            return False

    def end(self) -> None:
        """The attempt is over: whatever thread it has left behind acts no more, however fresh Temporal's answer is."""
        self._ended = True

    def check(self) -> None:
        """Returns if this attempt is still the one. Raises UNAVAILABLE (retried) if it has ended or another has taken
        its place, if it is being cancelled, or if Temporal does not say. Call it in a thread of its own, not in the
        event loop."""
        if threading.get_ident() == self._loop_thread:
            raise RuntimeError("what acts is to be called in a thread: the event loop has to ask Temporal meanwhile")
        with self._lock:
            # Again where the answer has come too late to be good: the worker may have stood still in between.
            while not (self._ended or self._finishing) and (asked := time.clock_gettime(_CLOCK)) >= self._good_until:
                self._ask()
                self._good_until = asked + self._fresh
            if self._ended:
                raise _refused("This attempt has ended")

    def _ask(self) -> None:
        heartbeat = self._handle.heartbeat(*self._newest(), rpc_timeout=timedelta(seconds=ANSWER_SECONDS))
        asking = asyncio.run_coroutine_threadsafe(heartbeat, self._loop)
        try:
            asking.result(ANSWER_SECONDS)
        except AsyncActivityCancelledError:
            raise _refused("This attempt is being cancelled") from None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise _refused("Temporal has given this attempt up: another one has taken its place") from None
            raise _refused(f"Temporal does not say whether this attempt still counts: {error.status.name}") from None
        except futures.TimeoutError:
            asking.cancel()
            raise _refused("Temporal does not say in time whether this attempt still counts") from None


fence: ContextVar[Fence | None] = ContextVar("fence", default=None)
"""Of the running activity; the interceptor puts it up."""


def check() -> None:
    """Call right before anything that has an effect; see :meth:`Fence.check`. Nothing outside a worker's activity."""
    if (found := fence.get()) is not None:
        found.check()


async def finish() -> None:
    """Call where an activity that was cancelled writes down what it has: see :meth:`Fence.finish`."""
    if (found := fence.get()) is not None:
        await found.finish()


def check_request(method: str) -> None:
    """:func:`check` for an HTTP request that does more than read."""
    if method.upper() not in READS:
        check()


def guarded(ask: Callable[..., Any]) -> Callable[..., Any]:
    """``ask(method, …)``, an HTTP request, behind :func:`check_request`."""

    def asking(method: str, *arguments: Any, **more: Any) -> Any:
        check_request(method)
        return ask(method, *arguments, **more)

    return asking


def _refused(detail: str) -> Exception:
    remedy = "Nothing was sent; the platform tries again where it is still asked to."
    found = problem(ProblemCode.UNAVAILABLE, detail, remedy=remedy)
    return failure(found, retry=True, category=ApplicationErrorCategory.BENIGN)
