"""The cluster capability's activities: leases of a cluster's entity, asked for and looked after."""

from __future__ import annotations

from temporalio import activity
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from contracts import queues, visibility
from contracts.catalogue import CLUSTER_WORKFLOW
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
from contracts.names import cluster_id
from contracts.problem import ProblemCode


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
            operation = self._client.get_workflow_handle(lease.operation, run_id=lease.run_id)
            abort = Abort(by=request.by, reason=f"{activity.info().workflow_id} needs the cluster")
            try:
                await operation.execute_update("abort", abort)
            except WorkflowUpdateFailedError:
                pass
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
            asked.append(lease.operation)
        return AbortedHolders(operations=asked)

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
