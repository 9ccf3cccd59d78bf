"""How an operation gets what it needs exclusively, and waits its turn."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from contracts.cluster import ACQUIRE_LEASES, Acquire, Acquired
from contracts.lease import LeaseRequest
from contracts.operation import Phase
from contracts.queues import task_queue
from workflows.engine.failures import Aborted, problem_of
from workflows.engine.measures import leases_held

if TYPE_CHECKING:
    from workflows.engine.operation import Operation

FIRST_LOOK, LAST_LOOK = timedelta(minutes=1), timedelta(minutes=30)
"""When a queued operation asks for its place again: soon, then less and less often, for it may wait for days."""
QUEUE_LOOKED_AT = "queue-looked-at"
"""Patch: a queued operation asks again after a while, and does not only wait to be told."""


async def acquire(operation: Operation[Any]) -> None:
    """Get the operation's leases and the cluster's record; wait in the queue for as long as it takes.

    The entity says when it is the operation's turn. Now and then the operation asks by itself: its place has changed
    meanwhile, and an entity that was lost and begun anew knows of nobody in its queue.

    Raises Aborted when the operation was ended, when it may not wait, or when the cluster's entity refuses it.
    """
    info = workflow.info()
    request = LeaseRequest(
        operation=info.workflow_id,
        run_id=info.run_id,
        kind=operation.kind.name,
        by=operation.start.origin.by,
        leases=operation.leases(),
        wait=operation.start.wait_for_leases,
    )
    asked = workflow.now()
    looks = 0
    while True:
        acquired = await _ask(operation, request)
        operation.record = acquired.record
        if acquired.grant.granted:
            if request.leases:
                leases_held(asked)
            return
        operation.progress.queue(f"waits for {acquired.grant.behind}, place {acquired.grant.position} in the queue")
        operation.progress.flush()
        await _turn(operation, looks)
        operation.check_aborted()
        operation.lease_granted = False
        looks += 1


async def _turn(operation: Operation[Any], looks: int) -> None:
    """Wait until the entity says that it is the operation's turn, or until it is time to ask again."""
    pause = min(FIRST_LOOK * 2 ** min(looks, 10), LAST_LOOK) if workflow.patched(QUEUE_LOOKED_AT) else None
    with suppress(TimeoutError):
        await workflow.wait_condition(
            lambda: operation.lease_granted or operation.ending,
            timeout=pause,
            timeout_summary="ask for the place in the queue again",
        )


async def _ask(operation: Operation[Any], request: LeaseRequest) -> Acquired:
    operation.check_aborted()
    operation.progress.flush()
    try:
        acquired: Acquired = await workflow.execute_activity(
            ACQUIRE_LEASES.name,
            Acquire(record=operation.record, request=request),
            activity_id="leases",
            task_queue=task_queue(ACQUIRE_LEASES.queue, operation.start.region),
            result_type=Acquired,
            start_to_close_timeout=timedelta(seconds=30),
            # Without limit: an operation does not fail because its cluster's entity is busy or no worker runs.
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20)),
        )
    except ActivityError as error:
        operation.check_cancelled()
        found = problem_of(error)
        operation.progress.enter(Phase.RUNNING, problem=found)
        raise Aborted(found.detail) from error
    return acquired
