"""The gateway's one way to Temporal: calls with limits, and whether a worker is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from temporalio.api.common.v1 import WorkflowType
from temporalio.api.enums.v1 import TaskQueueType, WorkflowIdConflictPolicy, WorkflowIdReusePolicy
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import OnConflictOptions
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    ListWorkflowExecutionsRequest,
    ListWorkflowExecutionsResponse,
    StartWorkflowExecutionRequest,
)
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import Priority
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.service import RPCError, RPCStatusCode

from api.problems import RETRY_SECONDS, ProblemError, refuse, unavailable
from api.rows import Row
from api.secret_guard import without_secrets
from contracts import queues
from contracts.problem import Problem, ProblemCode
from temporal.faults import closed_at_once, fault_of

T = TypeVar("T")

RPC = timedelta(seconds=5)
POLLER_AGE = timedelta(seconds=90)
"""A worker polls again within about a minute; the server remembers pollers for longer."""
_POLLERS_KEPT = 1.0


async def guarded(call: Awaitable[T]) -> T:
    """``call``'s result. Raises ProblemError (503) where Temporal cannot be reached; RPCError for what it refuses."""
    try:
        return await call
    except RuntimeError as error:
        if "Failed client connect" not in str(error):
            raise
        fault = fault_of(error, "Temporal") or closed_at_once(error, "Temporal")
        if fault is not None:
            raise unavailable(fault.message, fault.remedy) from error
        raise unavailable(
            "Temporal cannot be reached", "Send the request again; if it goes on, see that Temporal runs."
        ) from error
    except RPCError as error:
        if error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
            raise unavailable(
                "Temporal did not answer", "Send the request again; if it goes on, see that Temporal runs."
            ) from error
        raise


@dataclass(frozen=True)
class Page:
    """A page of executions; ``position`` is where the next one begins."""

    rows: list[Row]
    position: bytes | None


class Temporal:
    """Temporal as the gateway uses it."""

    def __init__(self, client: Client, update_timeout: float, query_timeout: float) -> None:
        self.client = client
        self._update_timeout = timedelta(seconds=update_timeout)
        self._query_timeout = timedelta(seconds=query_timeout)
        self._pollers: dict[tuple[str, bool], tuple[float, bool]] = {}

    async def find(self, workflow_id: str, run_id: str | None = None) -> WorkflowExecutionDescription | None:
        """The workflow's description, of its newest run unless one is named; None if there is none."""
        handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
        try:
            return await guarded(handle.describe(rpc_timeout=RPC))
        except RPCError as error:
            # A run id that is no UUID is refused as an invalid argument: no such run can exist.
            if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                return None
            raise

    async def list(self, query: str, size: int, position: bytes | None = None) -> Page:
        """A page of executions. Running ones come first, the newest of them first; then ended ones, the last first."""
        found = await self._list(query, size, position)
        after = found.next_page_token
        if after and len(found.executions) == size:
            # The server gives a position behind every full page, even the last.
            after = after if (await self._list(query, 1, after)).executions else b""
        rows = [Row.of(each, self.client.data_converter) for each in found.executions]
        return Page(rows, after or None)

    async def _list(self, query: str, size: int, position: bytes | None) -> ListWorkflowExecutionsResponse:
        request = ListWorkflowExecutionsRequest(
            namespace=self.client.namespace, query=query, page_size=size, next_page_token=position or b""
        )
        return await guarded(self.client.workflow_service.list_workflow_executions(request, retry=True, timeout=RPC))

    async def update(self, workflow_id: str, run_id: str, name: str, argument: object, update_id: str | None) -> None:
        """Send an update and wait until it is carried out.

        Raises ProblemError: the workflow's own refusal, 409 if it has ended, 503 if no worker answers.
        """
        without_secrets(argument)
        if not await self.polled(queues.WORKFLOWS):
            # Not even sent: it would be carried out whenever a worker comes, after the caller was told that it was not.
            raise await self.no_answer()
        handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
        call = handle.execute_update(name, argument, id=update_id, rpc_timeout=self._update_timeout)
        try:
            await asyncio.wait_for(guarded(call), self._update_timeout.total_seconds())
        except WorkflowUpdateFailedError as error:
            raise failure_problem(error.cause) from error
        except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError) as error:
            raise await self.no_answer() from error
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise refuse(ProblemCode.CONFLICT, f"{workflow_id} has ended", operation=workflow_id) from error
            raise

    async def join(self, workflow_type: str, workflow_id: str, request_id: str) -> None:
        """Note on a running workflow that another request asked for it. Nothing is noted if it has just ended."""
        request = StartWorkflowExecutionRequest(
            namespace=self.client.namespace,
            workflow_id=workflow_id,
            workflow_type=WorkflowType(name=workflow_type),
            task_queue=TaskQueue(name=queues.WORKFLOWS),
            identity=self.client.identity,
            request_id=request_id,
            # Starts nothing, whatever happens: a running one takes the id, an ended one refuses.
            workflow_id_conflict_policy=WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
            workflow_id_reuse_policy=WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
            on_conflict_options=OnConflictOptions(attach_request_id=True),
        )
        try:
            await guarded(self.client.workflow_service.start_workflow_execution(request, retry=True, timeout=RPC))
        except RPCError as error:
            if error.status != RPCStatusCode.ALREADY_EXISTS:
                raise

    async def query(
        self, workflow_id: str, queue: str, name: str, result: type[T], run_id: str | None = None
    ) -> T | None:
        """A query's answer; None if no worker (of the workflow's ``queue``) answers in time."""
        if not await self.polled(queue):
            return None
        handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
        try:
            call = handle.query(name, result_type=result, rpc_timeout=self._query_timeout)
            return await asyncio.wait_for(call, self._query_timeout.total_seconds() + 1)
        except (RPCError, TimeoutError):
            return None

    async def execute(self, workflow_type: str, argument: object, workflow_id: str, result: type[T], limit: float) -> T:
        """Run a workflow and wait ``limit`` seconds for its result.

        Raises ProblemError with the problem that it fails with, or 503 where nothing answers in time.
        """
        without_secrets(argument)
        if not await self.polled(queues.WORKFLOWS):
            raise await self.no_answer()
        call = self.client.execute_workflow(
            workflow_type,
            argument,
            id=workflow_id,
            task_queue=queues.WORKFLOWS,
            result_type=result,
            run_timeout=timedelta(seconds=20),
            priority=Priority(priority_key=queues.SOMEBODY_WAITS),
        )
        try:
            return await asyncio.wait_for(guarded(call), limit)
        except TimeoutError as error:
            raise await self.no_answer() from error
        except WorkflowFailureError as error:
            raise _upstream(failure_problem(error.cause)) from error

    async def begin(
        self, workflow_type: str, argument: object, workflow_id: str, result: type[T], limit: timedelta
    ) -> WorkflowHandle[Any, T]:
        """Start a workflow that may run for ``limit``. Raises ProblemError (503) where no worker would carry it out."""
        without_secrets(argument)
        if not await self.polled(queues.WORKFLOWS):
            raise await self.no_answer()
        return await guarded(
            self.client.start_workflow(
                workflow_type,
                argument,
                id=workflow_id,
                task_queue=queues.WORKFLOWS,
                result_type=result,
                run_timeout=limit,
                priority=Priority(priority_key=queues.SOMEBODY_WAITS),
                rpc_timeout=RPC,
            )
        )

    async def result(self, handle: WorkflowHandle[Any, T]) -> T:
        """What a workflow that was begun comes to. Raises ProblemError with the problem that it fails with."""
        try:
            return await guarded(handle.result())
        except WorkflowFailureError as error:
            raise _upstream(failure_problem(error.cause)) from error

    async def polled(self, queue: str, activities: bool = False) -> bool:
        """Whether a worker has lately asked for tasks of ``queue``."""
        key, now = (queue, activities), time.monotonic()
        kept = self._pollers.get(key)
        if kept is not None and now - kept[0] < _POLLERS_KEPT:
            return kept[1]
        kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY if activities else TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
        answer = await guarded(self.client.workflow_service.describe_task_queue(request, retry=True, timeout=RPC))
        oldest = datetime.now(UTC) - POLLER_AGE
        seen = any(poller.last_access_time.ToDatetime(UTC) >= oldest for poller in answer.pollers)
        self._pollers[key] = (now, seen)
        return seen

    async def no_answer(self) -> ProblemError:
        """The problem of a workflow that did not answer in time."""
        seen = False
        with suppress(ProblemError, RPCError):
            seen = await self.polled(queues.WORKFLOWS)
        if seen:
            return unavailable(
                "the operation's worker did not answer in time",
                "Look at the operation: what was asked may still be carried out; then send the request again.",
            )
        return unavailable("no worker is running", "Start a worker (`instantstart up`), then send the request again.")

    async def history(self, workflow_id: str, run_id: str) -> AsyncIterator[Any]:
        """The events of a run so far."""
        handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
        events = handle.fetch_history_events(skip_archival=True, rpc_timeout=RPC)
        async for event in events:
            yield event


def _upstream(error: ProblemError) -> ProblemError:
    """401 and 403 are about the caller's token; where AWS refused the platform's own credentials, it is a 502. What
    does not answer may do so when it is asked again."""
    if error.body.status == 503:
        return ProblemError(error.body, {**error.headers, "Retry-After": RETRY_SECONDS})
    if error.body.code not in (ProblemCode.CREDENTIALS, ProblemCode.DENIED):
        return error
    return ProblemError(error.body.model_copy(update={"status": 502}), error.headers)


def failure_problem(cause: BaseException | None) -> ProblemError:
    """The problem that a workflow or an update failed with. What carries none is a defect of the platform."""
    while cause is not None:
        if isinstance(cause, ApplicationError) and cause.type in list(ProblemCode):
            details = cause.details[0] if cause.details else None
            if isinstance(details, dict):
                with suppress(ValueError):
                    return ProblemError(Problem.model_validate(details))
            return refuse(ProblemCode(cause.type), cause.message)
        following = cause.cause if isinstance(cause, FailureError) else None
        if following is None:
            break
        cause = following
    text = cause.message if isinstance(cause, FailureError) else str(cause)
    return refuse(
        ProblemCode.INTERNAL, f"a workflow failed: {text[:500]}", remedy="See the workflow in Temporal's Web UI."
    )
