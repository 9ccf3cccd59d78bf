"""Calls of long-lived workflows that keep something: updates that begin one where there is none, and queries."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.client import (
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from api.problems import ProblemError, refuse, unavailable
from api.secret_guard import without_secrets
from api.temporal import Temporal, failure_problem, guarded
from contracts import queues
from contracts.problem import ProblemCode

Out = TypeVar("Out", bound=BaseModel)

UPDATE_SECONDS = 10.0
QUERY_SECONDS = 5.0
_LATE = "Send the request again: what was done already is not done twice."


async def saved(
    temporal: Temporal,
    workflow_type: str,
    workflow_id: str,
    state: BaseModel,
    update: str,
    argument: Any,
    out: type[Out],
) -> Out:
    """The answer to an update; the entity begins with ``state`` where it does not run.

    Raises ProblemError: the entity's own refusal, or 503 where no worker answers.
    """
    without_secrets(argument)
    await _polled(temporal)
    begin: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
        workflow_type,
        state,
        id=workflow_id,
        task_queue=queues.ENTITIES,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    call = temporal.client.execute_update_with_start_workflow(
        update, argument, start_workflow_operation=begin, result_type=out
    )
    try:
        return await asyncio.wait_for(guarded(call), UPDATE_SECONDS)
    except WorkflowUpdateFailedError as error:
        raise failure_problem(error.cause) from error
    except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError) as error:
        raise _late() from error
    finally:
        # Awaited so that its outcome does not linger as an exception that nobody retrieved.
        with suppress(Exception):
            await asyncio.wait_for(begin.workflow_handle(), 0.1)


async def told(temporal: Temporal, workflow_id: str, update: str, argument: Any) -> None:
    """Send an update to an entity that runs. Raises ProblemError: 404 where there is none, and those of ``saved``."""
    without_secrets(argument)
    await _polled(temporal)
    handle = temporal.client.get_workflow_handle(workflow_id)
    try:
        await asyncio.wait_for(guarded(handle.execute_update(update, argument)), UPDATE_SECONDS)
    except WorkflowUpdateFailedError as error:
        raise failure_problem(error.cause) from error
    except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError) as error:
        raise _late() from error
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise refuse(ProblemCode.NOT_FOUND, f"there is no {workflow_id!r}") from error
        raise


async def asked(temporal: Temporal, workflow_id: str, query: str, argument: Any, out: type[Out]) -> Out | None:
    """The answer to a query; None where there is no such entity. Raises ProblemError (503) where no worker answers."""
    await _polled(temporal)
    handle = temporal.client.get_workflow_handle(workflow_id)
    try:
        return await asyncio.wait_for(guarded(handle.query(query, argument, result_type=out)), QUERY_SECONDS)
    except TimeoutError as error:
        raise _late() from error
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise


async def _polled(temporal: Temporal) -> None:
    """Not even sent where nobody listens: it would be carried out whenever a worker comes."""
    if not await temporal.polled(queues.ENTITIES):
        raise unavailable("no worker is running", "Start a worker (`instantstart up`), then send the request again.")


def _late() -> ProblemError:
    return unavailable("the worker did not answer in time", _LATE)
