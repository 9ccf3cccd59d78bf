"""The cluster capability's activities: leases of a cluster's entity, asked for and looked after."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.polling import worker_stops
from contracts import queues, visibility
from contracts.catalogue import CLUSTER_WORKFLOW, FOUNDERS, WITHOUT_LEASE
from contracts.cluster import (
    ABORT_HOLDERS,
    ACQUIRE_LEASES,
    HOLDER_STATE,
    AbortedHolders,
    AbortHolders,
    Acquire,
    Acquired,
    ClusterRecord,
    ClusterView,
    EntityState,
    Holder,
    HolderState,
)
from contracts.decision import Abort
from contracts.lease import WAIT_FOR_HOLDER, HeldBy
from contracts.names import cluster_id
from contracts.operation import Phase
from contracts.problem import ProblemCode
from contracts.teardown import END_WAITING, EndedWaiting, EndWaiting


class ClusterActivities:
    """Activities that speak to Temporal itself."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=ACQUIRE_LEASES.name)
    async def acquire_leases(self, call: Acquire) -> Acquired:
        """Ask the cluster's entity for leases; the entity is started if there is none.

        Asking again is harmless: the entity knows the operation's run. Raises ApplicationError of the entity's problem
        (``busy``, ``conflict``) when it refuses.
        """
        try:
            return await self._ask(call)
        except ApplicationError as error:
            if error.type == ProblemCode.BUSY and await self._forget_dead_holders(call.record.tag):
                return await self._ask(call)
            raise

    @activity.defn(name=HOLDER_STATE.name)
    async def holder_state(self, holder: Holder) -> HolderState:
        """Whether the workflow run that holds a lease still runs. A run that Temporal does not know does not."""
        handle = self._client.get_workflow_handle(holder.operation, run_id=holder.run_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return HolderState(running=False)
            raise
        return HolderState(running=description.status is WorkflowExecutionStatus.RUNNING)

    @activity.defn(name=WAIT_FOR_HOLDER.name)
    async def wait_for_holder(self, holder: HeldBy) -> HeldBy:
        """Until the operation of that ID has ended, however it did. One that Temporal does not know has."""
        handle = self._client.get_workflow_handle(holder.operation)
        stopping = asyncio.ensure_future(activity.wait_for_worker_shutdown())
        ended = asyncio.ensure_future(handle.result())
        try:
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                raise worker_stops()
            await ended
        except WorkflowFailureError:
            pass
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        finally:
            ended.cancel()
            stopping.cancel()
        return holder

    @activity.defn(name=ABORT_HOLDERS.name)
    async def abort_holders(self, request: AbortHolders) -> AbortedHolders:
        """Ask every operation that holds or waits for the cluster's leases, but the one of ``except_run``, to end.

        Does not wait for their ends. One that has ended, or is ending, is no fault.
        """
        entity = self._client.get_workflow_handle(cluster_id(request.cluster))
        try:
            view: ClusterView = await entity.query("view", result_type=ClusterView)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return AbortedHolders(operations=[])
            raise
        asked = []
        for lease in [*view.holding, *view.queued]:
            if lease.run_id == request.except_run:
                continue
            reason = f"{activity.info().workflow_id} needs the cluster"
            await self._abort(lease.operation, lease.run_id, Abort(by=request.by, reason=reason))
            asked.append(lease.operation)
        return AbortedHolders(operations=asked)

    @activity.defn(name=END_WAITING.name)
    async def end_waiting(self, request: EndWaiting) -> EndedWaiting:
        """Abort every operation on the cluster that waits for a person's approval, but those that would make it, and
        those that watch what was in it.

        Does not wait for their ends. One that has ended, or is ending, is no fault. (Temporal: list filters)
        """
        watching = ", ".join(f"'{kind}'" for kind in sorted(WITHOUT_LEASE))
        waiting = (
            f"ExecutionStatus = 'Running' AND {visibility.CLUSTER} = '{request.cluster}' "
            f"AND ({visibility.PHASE} = '{Phase.WAITING_FOR_APPROVAL.value}' OR {visibility.KIND} IN ({watching}))"
        )
        asked = []
        async for found in self._client.list_workflows(waiting):
            if found.workflow_type not in FOUNDERS:
                await self._abort(found.id, found.run_id, Abort(by=request.by, reason=request.reason))
                asked.append(found.id)
        return EndedWaiting(operations=asked)

    async def _abort(self, operation: str, run_id: str, abort: Abort) -> None:
        handle = self._client.get_workflow_handle(operation, run_id=run_id)
        try:
            await handle.execute_update("abort", abort)
        except WorkflowUpdateFailedError:
            pass
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def _ask(self, call: Acquire) -> Acquired:
        entity = self._entity(call.record)
        try:
            acquired: Acquired = await self._client.execute_update_with_start_workflow(
                "acquire", call, start_workflow_operation=entity, result_type=Acquired
            )
            return acquired
        except WorkflowUpdateFailedError as error:
            # Awaited so that its outcome does not linger as an exception that nobody retrieved.
            await entity.workflow_handle()
            if isinstance(error.cause, ApplicationError):
                raise ApplicationError(
                    error.cause.message, *error.cause.details, type=error.cause.type, non_retryable=True
                ) from error
            raise

    def _entity(self, record: ClusterRecord) -> WithStartWorkflowOperation[object, None]:
        return WithStartWorkflowOperation(
            CLUSTER_WORKFLOW,
            EntityState(record=record),
            id=cluster_id(record.tag),
            task_queue=queues.ENTITIES,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=TypedSearchAttributes(
                [
                    SearchAttributePair(SearchAttributeKey.for_keyword(visibility.CLUSTER), record.tag),
                    SearchAttributePair(SearchAttributeKey.for_keyword(visibility.REGION), record.region),
                ]
            ),
            static_summary=f"cluster {record.tag} in {record.region}",
        )

    async def _forget_dead_holders(self, tag: str) -> bool:
        """Tell the entity of holders that do not run any more; returns whether there were any."""
        entity = self._client.get_workflow_handle(cluster_id(tag))
        view: ClusterView = await entity.query("view", result_type=ClusterView)
        forgotten = False
        for lease in view.holding:
            holder = Holder(operation=lease.operation, run_id=lease.run_id)
            if not (await self.holder_state(holder)).running:
                await entity.signal("holder_gone", holder)
                forgotten = True
        return forgotten
