"""Stages as they are planned, and what their steps are given: the road to activities, and one line of detail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from contracts.activity import Act, Wait
from contracts.model import Ensured
from contracts.queues import task_queue
from workflows.engine.failures import Aborted

if TYPE_CHECKING:
    from workflows.engine.operation import Operation

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)
T = TypeVar("T")

HEARTBEAT_TIMEOUT = timedelta(seconds=15)
"""Within this a worker that died is noticed; activities heartbeat every 4 seconds."""

ABORT_PATIENCE = timedelta(seconds=30)
"""How long an abort lets an effect that is under way come to its end."""

RECORDED_AT_ONCE = "recorded-at-once"

_WAIT_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=2), backoff_coefficient=1.5, maximum_interval=timedelta(seconds=60)
)


@dataclass(frozen=True)
class StagePlan:
    """A stage before it runs. ``inputs`` are the members of the spec, as ``a/b`` paths, that a retry may correct."""

    name: str
    title: str
    inputs: tuple[str, ...] = ()
    skippable: bool = False


class StageRun:
    """One attempt of a stage.

    Activity IDs are ``<stage>/<activity>[/<key>]``: replay notices a reordered stage by them, and operators name an
    activity by them on Temporal's command line.
    """

    def __init__(self, operation: Operation[Any], name: str) -> None:
        self._operation = operation
        self.name = name
        self.observed = False
        self.changed = False

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._operation.progress.stages[self.name].attempt

    def detail(self, text: str) -> None:
        """Say in one line what is going on, or what came of the stage."""
        self._operation.progress.change(self.name, detail=text)

    async def act(self, signature: Act[In, Out], argument: In, key: str | None = None) -> Out:
        """Have one effect. Raises ActivityError when it failed for good, Aborted when the operation was ended."""
        retry = RetryPolicy(
            initial_interval=timedelta(seconds=1),
            backoff_coefficient=2.0,
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=signature.attempts,
        )
        result = await self._run(signature, argument, key, retry, patience=ABORT_PATIENCE)
        if isinstance(result, Ensured):
            self.observed = True
            self.changed = self.changed or result.changed
        return result

    async def wait(self, signature: Wait[In, Out], argument: In, key: str | None = None) -> Out:
        """Watch until a state is reached. Raises as :meth:`act` does; an abort, or another specification, ends the
        watching at once."""
        self._operation.check_superseded()
        return await self._run(signature, argument, key, _WAIT_RETRY, patience=timedelta(0))

    async def record(self, **changes: BaseModel | list[Any] | str | None) -> None:
        """Put what was verified into the cluster's record."""
        await self._operation.record_changes(**changes)

    async def record_at_once(self, **changes: BaseModel | list[Any]) -> None:
        """Put into the cluster's record what was just made or begun to go, before it is waited for: an abort ends the
        waiting alone, and the record must be right then, too."""
        if workflow.patched(RECORDED_AT_ONCE):
            await self.record(**changes)

    async def decide(
        self,
        question: str,
        *,
        schema: dict[str, Any],
        options: dict[str, list[Any]],
        default: Any,
        parse: Callable[[dict[str, Any]], T],
        default_after: timedelta | None = None,
    ) -> T:
        """Ask, and wait for as long as it takes. ``parse`` turns a valid answer into a value and raises for others."""
        return await self._operation.ask(
            self.name,
            question,
            schema=schema,
            options=options,
            default=default,
            parse=parse,
            default_after=default_after,
        )

    async def _run(
        self,
        signature: Act[In, Out] | Wait[In, Out],
        argument: In,
        key: str | None,
        retry: RetryPolicy,
        patience: timedelta,
    ) -> Out:
        """Run an activity to its end; an abort cancels it after ``patience``."""
        operation = self._operation
        operation.check_aborted()
        wanted = self._id(signature.name, key)
        left = operation.left.get(wanted, 0)
        # What was left may still run: Temporal refuses a second activity of its ID meanwhile.
        activity_id = f"{wanted}~{left + 1}" if left else wanted
        handle: workflow.ActivityHandle[Out] = workflow.start_activity(
            signature.name,
            argument,
            activity_id=activity_id,
            task_queue=task_queue(signature.queue, operation.start.region),
            result_type=signature.output,
            start_to_close_timeout=signature.limit,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=retry,
            summary=key,
        )
        operation.progress.flush()
        abort = asyncio.ensure_future(operation.aborted() if patience else operation.interrupted())
        try:
            await workflow.wait([handle, abort], return_when=asyncio.FIRST_COMPLETED)
            if not handle.done() and patience:
                await workflow.wait([handle], timeout=patience.total_seconds())
            if not handle.done():
                handle.cancel()
            result = await handle
        except ActivityError:
            if operation.ending and patience:
                operation.unknown.append(activity_id)
            operation.check_aborted()
            if not patience and operation.superseded:
                operation.left[wanted] = left + 1
                operation.check_superseded()
            raise
        except asyncio.CancelledError:
            handle.cancel()
            raise
        finally:
            abort.cancel()
        if isinstance(result, Ensured):
            operation.made[activity_id] = result.identifier
        operation.check_cancelled()
        return result

    def _id(self, activity: str, key: str | None) -> str:
        return f"{self.name}/{activity}" if key is None else f"{self.name}/{activity}/{key}"


async def together(*steps: Any) -> list[Any]:
    """Run steps side by side to their ends, then raise the first failure, if there was one.

    A failed step does not take the others down half-way: their effects would be unknown.
    """
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, Aborted):
            raise result
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
