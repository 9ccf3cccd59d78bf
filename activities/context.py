"""On whose behalf the running activity acts: for logs, AWS user agents and tags."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio import activity

Done = TypeVar("Done")


@dataclass(frozen=True)
class Bound:
    """What the interceptor knows of the running activity."""

    cluster: str = "-"
    operation: str = "-"
    request_id: str = "-"


NOTHING = Bound()

bound: ContextVar[Bound] = ContextVar("bound", default=NOTHING)


class Threads(ThreadPoolExecutor):
    """Threads that act on behalf of the activity that gives them work: their calls and log lines name it."""

    def submit(self, fn: Callable[..., Done], /, *args: Any, **kwargs: Any) -> Future[Done]:
        return super().submit(copy_context().run, fn, *args, **kwargs)


async def in_thread(threads: Threads | None, work: Callable[..., Done], *arguments: Any) -> Done:
    """``work`` in one of ``threads``, else in those that all waits share, on behalf of the running activity."""
    if threads is None:
        return await asyncio.to_thread(work, *arguments)
    return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)


def about() -> dict[str, Any]:
    """What log lines say of the running activity (``telemetry.logs.FIELDS``); nothing outside one."""
    now = bound.get()
    known: dict[str, Any] = {"cluster": now.cluster, "operation": now.operation, "request_id": now.request_id}
    if activity.in_activity():
        info = activity.info()
        known |= {"run_id": info.workflow_run_id, "activity": info.activity_type, "attempt": info.attempt}
    return known


def operation_id() -> str:
    """The workflow ID of the running activity; ``-`` outside one."""
    return (activity.info().workflow_id or "-") if activity.in_activity() else "-"


def run_id() -> str:
    """The run of the running activity's workflow: another for each operation of the same ID; ``-`` outside one."""
    return (activity.info().workflow_run_id or "-") if activity.in_activity() else "-"


def attempt() -> int:
    """The attempt of the running activity, from 1."""
    return activity.info().attempt if activity.in_activity() else 1
