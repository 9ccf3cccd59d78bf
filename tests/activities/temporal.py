"""What stands for Temporal's client where an attempt asks whether it is still the one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import chain, repeat
from typing import Any

from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

GONE = RPCError("gone", RPCStatusCode.NOT_FOUND, b"")


class Temporal:
    """Answers heartbeats as it is told to, at last with a yes, and keeps their details."""

    def __init__(self, *answers: Exception | None, late: float = 0) -> None:
        self.answers: Iterator[Exception | None] = chain(answers, repeat(None))
        self.heard: list[Sequence[Any]] = []
        self.status = WorkflowExecutionStatus.RUNNING
        """The workflow's."""
        self._late = late

    def get_workflow_handle(self, *_: Any, run_id: str | None) -> Temporal:
        return self

    async def describe(self) -> Temporal:
        return self

    def get_async_activity_handle(self, *, task_token: bytes) -> Temporal:
        assert task_token == ActivityEnvironment.default_info().task_token
        return self

    async def heartbeat(self, *details: Any, rpc_timeout: timedelta) -> None:
        self.heard.append(details)
        await asyncio.sleep(self._late)
        if (answer := next(self.answers)) is not None:
            raise answer
