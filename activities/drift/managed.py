"""What Temporal knows of a cluster: its entity, and its schedule of drift checks."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
    WorkflowExecutionStatus,
)
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.errors import fail
from activities.settings import Settings
from contracts import queues, visibility
from contracts.catalogue import CLUSTER_WORKFLOW
from contracts.cluster import ClusterView
from contracts.drift import (
    CHECK_DRIFT_WORKFLOW,
    ENSURE_DRIFT_SCHEDULE,
    REMOVE_DRIFT_SCHEDULE,
    CheckDrift,
    DriftSchedule,
    DriftScheduleGone,
    EnsureDriftSchedule,
)
from contracts.drift_look import READ_MANAGED, Managed
from contracts.names import cluster_id, drift_check_id, drift_schedule_id
from contracts.problem import ProblemCode

log = logging.getLogger(__name__)

MISSED = timedelta(minutes=1)
"""A check that should have run while Temporal was away runs no later than this: the next one sees as much."""
RPC = timedelta(seconds=10)
CHECK_LIMIT = timedelta(minutes=15)


class DriftChecks:
    """Schedules of drift checks, and what a check needs of a cluster's entity."""

    def __init__(self, client: Client, settings: Settings | None = None) -> None:
        self._client, self._settings = client, settings or Settings()

    @activity.defn(name=READ_MANAGED.name)
    async def read_managed(self, request: CheckDrift) -> Managed:
        """The cluster's record, who holds what of it, and what has ended; nothing where there is no such cluster."""
        entity = self._client.get_workflow_handle(cluster_id(request.cluster))
        try:
            # One that has ended would still answer.
            if (await entity.describe(rpc_timeout=RPC)).status is not WorkflowExecutionStatus.RUNNING:
                return Managed()
            view: ClusterView = await entity.query("view", result_type=ClusterView, rpc_timeout=RPC)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Managed()
            raise
        return Managed(view=view)

    @activity.defn(name=ENSURE_DRIFT_SCHEDULE.name)
    async def ensure_schedule(self, request: EnsureDriftSchedule) -> DriftSchedule:
        """The cluster's schedule as the platform's settings say, and seen to be so."""
        return await ensure_drift_schedule(self._client, request, self._settings)

    @activity.defn(name=REMOVE_DRIFT_SCHEDULE.name)
    async def remove_schedule(self, request: EnsureDriftSchedule) -> DriftScheduleGone:
        """Delete the cluster's schedule. Absent is done."""
        handle = self._client.get_schedule_handle(drift_schedule_id(request.cluster))
        try:
            await handle.delete(rpc_timeout=RPC)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return DriftScheduleGone(schedule=handle.id, changed=False)
        return DriftScheduleGone(schedule=handle.id)


async def ensure_drift_schedule(client: Client, request: EnsureDriftSchedule, settings: Settings) -> DriftSchedule:
    """Make a cluster's schedule of drift checks, or change it to what the settings say; looks at it afterwards.

    Raises CONFLICT (retried) where it is another afterwards: somebody else changes it at the same time.
    """
    handle, wanted = client.get_schedule_handle(drift_schedule_id(request.cluster)), _schedule(request, settings)
    changed = True
    found = await _described(handle)
    if found is None:
        try:
            await client.create_schedule(handle.id, wanted, rpc_timeout=RPC)
        except ScheduleAlreadyRunningError:
            found = await _described(handle)
    if found is not None:
        changed = not await _alike(client, found.schedule, wanted)
        if changed:
            await handle.update(lambda before: _updated(before, wanted), rpc_timeout=RPC)
    seen = await _settled(client, handle, wanted)
    return DriftSchedule(
        schedule=handle.id, paused=seen.state.paused, every_minutes=settings.drift_interval_minutes, changed=changed
    )


async def ensure_drift_schedules(client: Client, settings: Settings) -> int:
    """The schedule of every managed cluster as the settings say; returns how many had to be made or changed.

    One that is gone meanwhile, or cannot be changed now, is left to the next worker that starts.
    """
    changed = 0
    async for found in client.list_workflows(f"WorkflowType = '{CLUSTER_WORKFLOW}' AND ExecutionStatus = 'Running'"):
        region = found.typed_search_attributes.get(SearchAttributeKey.for_keyword(visibility.REGION))
        if region is None:
            continue
        asked = EnsureDriftSchedule(cluster=found.id.partition("/")[2], region=region)
        try:
            changed += (await ensure_drift_schedule(client, asked, settings)).changed
        except (RPCError, ApplicationError) as error:
            log.warning("the drift checks of cluster %s are left as they are: %s", asked.cluster, error)
    return changed


async def _settled(client: Client, handle: ScheduleHandle, wanted: Schedule) -> Schedule:
    """The schedule as it is. An update is seen a moment later."""
    for pause in (0.0, 0.2, 0.5, 1.0):
        await asyncio.sleep(pause)
        found = await _described(handle)
        if found is not None and await _alike(client, found.schedule, wanted):
            return found.schedule
    fail(
        ProblemCode.CONFLICT,
        f"Schedule {handle.id} is not as it was just made",
        "The platform tries again; see in Temporal who else changes it.",
        retry=True,
    )


async def _described(handle: ScheduleHandle) -> ScheduleDescription | None:
    try:
        return await handle.describe(rpc_timeout=RPC)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


def _schedule(request: EnsureDriftSchedule, settings: Settings) -> Schedule:
    every = timedelta(minutes=settings.drift_interval_minutes)
    off = settings.drift_checks == "off"
    return Schedule(
        action=ScheduleActionStartWorkflow(
            CHECK_DRIFT_WORKFLOW,
            CheckDrift(cluster=request.cluster, region=request.region),
            id=drift_check_id(request.cluster),
            task_queue=queues.WORKFLOWS,
            execution_timeout=CHECK_LIMIT,
        ),
        # Clusters are spread over the interval by the jitter: Temporal derives it from the schedule's ID.
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=every / 2),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=MISSED),
        state=ScheduleState(paused=off, note="drift checks are off" if off else None),
    )


def _updated(before: ScheduleUpdateInput, wanted: Schedule) -> ScheduleUpdate:
    return ScheduleUpdate(schedule=wanted)


async def _alike(client: Client, found: Schedule, wanted: Schedule) -> bool:
    """Whether a schedule, as it was read, does the same as the one that is wanted."""
    if _essence(found) != _essence(wanted):
        return False
    return await _asked(client, found) == await _asked(client, wanted)


def _essence(schedule: Schedule) -> tuple[Any, ...]:
    """What of a schedule is compared, but what its workflow is asked."""
    action = schedule.action
    workflow = (
        (action.workflow, action.id, action.task_queue) if isinstance(action, ScheduleActionStartWorkflow) else ()
    )
    intervals = [(each.every, each.offset or timedelta()) for each in schedule.spec.intervals]
    return (workflow, intervals, schedule.spec.jitter, schedule.policy.overlap, schedule.state.paused)


async def _asked(client: Client, schedule: Schedule) -> CheckDrift | None:
    """What a schedule's workflow is asked; None for what cannot be read as that, which is then written anew."""
    given = schedule.action.args if isinstance(schedule.action, ScheduleActionStartWorkflow) else ()
    # As it was read, an argument is still a payload.
    payloads = [each for each in given if isinstance(each, Payload)]
    if not payloads:
        return next((each for each in given if isinstance(each, CheckDrift)), None)
    try:
        (asked,) = await client.data_converter.decode(payloads, [CheckDrift])
    except Exception as error:
        log.warning("a schedule of drift checks asks for what cannot be read here: %s", error)
        return None
    return asked if isinstance(asked, CheckDrift) else None
