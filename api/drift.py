"""Drift of clusters: what the last check found, checks made now, and what settles differences."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response
from temporalio.client import WorkflowFailureError
from temporalio.common import WorkflowIDConflictPolicy

from api.auth import Reader
from api.managed import STARTS, Start, Tag, known, record_of
from api.problems import unavailable
from api.services import Parts, Services, reply
from api.temporal import RPC, failure_problem, guarded
from contracts import catalogue, queues
from contracts.cluster import ClusterRecord
from contracts.drift import (
    CHECK_DRIFT_WORKFLOW,
    AdoptDriftSpec,
    CheckDrift,
    DriftAnswer,
    RestoreDriftSpec,
)
from contracts.names import drift_check_id

router = APIRouter(prefix="/api/v1/clusters/{tag}/drift", tags=["drift"])

CHECK_LIMIT = timedelta(minutes=15)
PATIENCE = 25.0
"""Seconds that a caller waits for a check: less than faces wait for the gateway. Then it goes on by itself."""
KEPT = 4.0
"""Seconds within which the cluster's entity takes what was found into the record; it is told by a signal."""
LOOK_AGAIN = 0.05


@router.get("", operation_id="get_drift", response_model=DriftAnswer, summary="Get drift")
async def get_drift(services: Parts, _: Reader, tag: Tag) -> Response:
    """What the last check found to be otherwise than recorded, and what each difference can be settled by. Needs no
    worker."""
    record = await known(services, tag)
    return reply(DriftAnswer(cluster=tag, report=record.drift.report if record.drift else None, live=False))


@router.post("/check", operation_id="check_drift", response_model=DriftAnswer, summary="Check for drift")
async def check_drift(request: Request, services: Parts, _: Reader, tag: Tag) -> Response:
    """Compare the cluster with its record now. A check that somebody else asked for is joined. Nothing in the cluster
    changes; members that an operation is at work on are left out."""
    request.state.only_reads = True
    record = await known(services, tag)
    found = await _checked(services, record)
    await _kept(services, found)
    return reply(found)


async def _checked(services: Services, record: ClusterRecord) -> DriftAnswer:
    """Raises ProblemError: what the check failed with, or 503 where it does not end in time; it goes on then."""
    temporal = services.temporal
    if not await temporal.polled(queues.WORKFLOWS):
        raise await temporal.no_answer()
    handle = await guarded(
        temporal.client.start_workflow(
            CHECK_DRIFT_WORKFLOW,
            CheckDrift(cluster=record.tag, region=record.region),
            id=drift_check_id(record.tag),
            task_queue=queues.WORKFLOWS,
            result_type=DriftAnswer,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            execution_timeout=CHECK_LIMIT,
            rpc_timeout=RPC,
        )
    )
    try:
        found: DriftAnswer = await asyncio.wait_for(guarded(handle.result()), PATIENCE)
    except TimeoutError as error:
        raise unavailable("the check takes longer", "It goes on: read the cluster's drift in a minute.") from error
    except WorkflowFailureError as error:
        raise failure_problem(error.cause) from error
    return found


async def _kept(services: Services, found: DriftAnswer) -> None:
    """Wait until the cluster's record tells what was found, so that who reads or settles it next does not meet the
    check before. What was found is true also where that takes longer than it ever should."""
    if found.report is None:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(KEPT):
            while (record := await record_of(services, found.cluster)) is not None:
                if record.drift is not None and record.drift.report.checked_at >= found.report.checked_at:
                    return
                await asyncio.sleep(LOOK_AGAIN)


@router.post("/adopt", operation_id="adopt_drift", summary="Adopt drift", **STARTS)
async def adopt_drift(start: Start, tag: Tag, body: AdoptDriftSpec) -> Response:
    """Take what is into the record: the chosen differences of the last report. Nothing in the cluster changes. A
    difference that has changed since the report is refused."""
    return await start.on(catalogue.ADOPT_DRIFT, tag, body)


@router.post("/restore", operation_id="restore_drift", summary="Restore what has drifted", **STARTS)
async def restore_drift(start: Start, tag: Tag, body: RestoreDriftSpec) -> Response:
    """Bring back what is recorded: the chosen differences of the last report. No workload is deleted and no node taken
    away. A difference that has changed since the report is refused."""
    return await start.on(catalogue.RESTORE_DRIFT, tag, body)
