"""On whose behalf the running activity acts: for logs, AWS user agents and tags."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import dataclass

from temporalio import activity


@dataclass(frozen=True)
class Bound:
    """What the interceptor knows of the running activity."""

    cluster: str = "-"
    operation: str = "-"
    request_id: str = "-"


NOTHING = Bound()

bound: ContextVar[Bound] = ContextVar("bound", default=NOTHING)


class BindContext(logging.Filter):
    """Gives every log record ``cluster``, ``operation`` and ``request_id``."""

    def filter(self, record: logging.LogRecord) -> bool:
        now = bound.get()
        record.cluster, record.operation, record.request_id = now.cluster, now.operation, now.request_id
        return True


def operation_id() -> str:
    """The workflow ID of the running activity; ``-`` outside one."""
    return (activity.info().workflow_id or "-") if activity.in_activity() else "-"


def run_id() -> str:
    """The run of the running activity's workflow: another for each operation of the same ID; ``-`` outside one."""
    return (activity.info().workflow_run_id or "-") if activity.in_activity() else "-"


def attempt() -> int:
    """The attempt of the running activity, from 1."""
    return activity.info().attempt if activity.in_activity() else 1
