"""The entity of a managed cluster: its record, the leases of its operations, and their history.

One workflow ``cluster/<tag>`` lives for as long as the cluster does and continues as new when its history grows. No
handler waits: a request for leases is granted, queued or refused at once, and a queued operation hears of its turn by a
signal. So that an operation that died cannot hold the others up, the entity asks whether the holder still runs, as long
as somebody is queued.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from contracts.catalogue import CLUSTER_WORKFLOW, FOUNDERS
from contracts.cluster import (
    HISTORY_LIMIT,
    HOLDER_STATE,
    MEMO_RECORD,
    MEMO_SUMMARY,
    Acquire,
    Acquired,
    ClusterRecord,
    ClusterSummary,
    ClusterView,
    EntityState,
    HistoryEntry,
    Holder,
    HolderState,
    RecordChange,
)
from contracts.drift import DriftState
from contracts.lease import Lease, LeaseGrant, LeaseRequest, conflicts
from contracts.problem import ProblemCode, problem
from contracts.queues import task_queue
from workflows.engine.failures import refusal

FIRST_CHECK = timedelta(seconds=5)
LAST_CHECK = timedelta(minutes=2)
"""When a holder is looked at while somebody waits for it: soon, then less and less often."""

CONTINUE_AFTER_EVENTS = 2_000

MEMO_WHEN_CHANGED = "memo-when-changed"
"""Patch: the record, which may be large, is written only where it has changed, not with every lease."""


class LeaseBroker:
    """Who holds what of a cluster, and who comes next. Plain and deterministic.

    The queue is fair: a request is granted only if it conflicts neither with a holder nor with anyone before it.
    """

    def __init__(self, holding: list[Lease], queue: list[Lease]) -> None:
        self.holding = list(holding)
        self.queue = list(queue)

    def request(self, wanted: Lease) -> LeaseGrant:
        """Grant, or queue. Asking again changes nothing and tells the present place."""
        if any(held.run_id == wanted.run_id for held in self.holding):
            return LeaseGrant(granted=True)
        waiting = next((n for n, each in enumerate(self.queue) if each.run_id == wanted.run_id), None)
        ahead = self.queue if waiting is None else self.queue[:waiting]
        behind = self.blocker(wanted, ahead)
        if behind is None:
            self.queue = [each for each in self.queue if each.run_id != wanted.run_id]
            self.holding.append(wanted)
            return LeaseGrant(granted=True)
        if waiting is None:
            self.queue.append(wanted)
            waiting = len(self.queue) - 1
        return LeaseGrant(granted=False, behind=behind.operation, position=waiting + 1)

    def blocker(self, wanted: Lease, ahead: list[Lease] | None = None) -> Lease | None:
        """What ``wanted`` would have to wait for."""
        others = [*self.holding, *(self.queue if ahead is None else ahead)]
        return next((other for other in others if conflicts(wanted.leases, other.leases)), None)

    def release(self, run_id: str) -> list[Lease]:
        """Forget a holder or waiter; returns those whose turn has come."""
        self.holding = [each for each in self.holding if each.run_id != run_id]
        self.queue = [each for each in self.queue if each.run_id != run_id]
        granted: list[Lease] = []
        for position, waiting in enumerate(list(self.queue)):
            ahead = [each for each in self.queue[:position] if each not in granted]
            if self.blocker(waiting, ahead) is None:
                self.holding.append(waiting)
                granted.append(waiting)
        self.queue = [each for each in self.queue if each not in granted]
        return granted


def _outdated(change: RecordChange, record: ClusterRecord) -> bool:
    """Whether a check that began before the last one ended after it: what was adopted meanwhile must not come back."""
    told = change.changes.get("drift")
    if told is None or record.drift is None:
        return False
    return DriftState.model_validate(told).report.checked_at < record.drift.report.checked_at


@workflow.defn(name=CLUSTER_WORKFLOW)
class ClusterEntity:
    @workflow.init
    def __init__(self, state: EntityState) -> None:
        self._record = state.record
        self._history = state.history
        self._broker = LeaseBroker(state.holding, state.queue)
        self._granted: list[Lease] = []
        self._dirty = True
        self._renew = False
        self._retiring = False
        self._checks = 0
        self._published: dict[str, Any] | None = None

    @workflow.run
    async def run(self, state: EntityState) -> None:
        while not self._must_continue():
            if self._may_end():
                return
            self._publish()
            try:
                await workflow.wait_condition(
                    lambda: bool(self._granted) or self._dirty or self._must_continue() or self._may_end(),
                    timeout=self._next_check(),
                    timeout_summary="look whether the holders still run",
                )
            except TimeoutError:
                self._checks += 1
                await self._reclaim()
            await self._tell_granted()
        await workflow.wait_condition(workflow.all_handlers_finished)
        await self._tell_granted()
        workflow.continue_as_new(
            EntityState(
                record=self._record,
                holding=self._broker.holding,
                queue=self._broker.queue,
                history=self._history,
            ),
            # Until the new run has taken its first step, readers have nothing but this.
            memo=self._memo(),
        )

    @workflow.update(name="acquire")
    def acquire(self, call: Acquire) -> Acquired:
        """Ask for leases: granted, or a place in the queue."""
        if self._untouched() and self._record.region != call.record.region:
            self._record = call.record
        # Who was asked for before a cluster was deleted, and gets its turn later, must not leave an empty one behind.
        self._retiring = self._untouched() and call.request.kind not in FOUNDERS
        grant = self._broker.request(self._lease(call.request))
        self._checks = 0
        self._dirty = True
        return Acquired(grant=grant, record=self._record)

    @acquire.validator
    def _validate_acquire(self, call: Acquire) -> None:
        if call.record.region != self._record.region and not self._untouched():
            raise refusal(
                problem(
                    ProblemCode.CONFLICT,
                    f"cluster {self._record.tag} is in {self._record.region}, not in {call.record.region}",
                    field="/region",
                    remedy=f"Ask with region {self._record.region}, or choose another tag.",
                )
            )
        blocker = self._broker.blocker(self._lease(call.request))
        held = any(each.run_id == call.request.run_id for each in self._broker.holding)
        if not call.request.wait and not held and blocker is not None:
            raise refusal(
                problem(
                    ProblemCode.BUSY,
                    f"{blocker.operation} holds what is needed of cluster {self._record.tag}",
                    remedy="Wait for its end, or ask to be queued.",
                    operation=blocker.operation,
                )
            )

    @workflow.signal(name="amend")
    def amend(self, change: RecordChange) -> None:
        """Put what an operation has verified, or a check has found, into the record."""
        if _outdated(change, self._record):
            return
        # Counts belong to the nodes that they came with.
        kept = self._record.model_copy(update={"node_counts": []}) if "nodes" in change.changes else self._record
        # What differs from the record is no news of what was verified.
        verified = set(change.changes) != {"drift"}
        document = change.applied(kept) | ({"updated_at": workflow.now().isoformat()} if verified else {})
        self._record = ClusterRecord.model_validate(document)
        self._dirty = True

    @workflow.signal(name="retire")
    def retire(self, change: RecordChange) -> None:
        """The cluster is gone: forget what it was made of, and end when nobody holds or waits for anything of it."""
        kept = {"tag", "region", "created_by", "created_at"}
        document = self._record.model_dump(mode="json", include=kept) | {"updated_at": workflow.now().isoformat()}
        self._record = ClusterRecord.model_validate(document)
        self._retiring = self._dirty = True

    @workflow.signal(name="ended")
    def ended(self, entry: HistoryEntry) -> None:
        """An operation has ended: take its leases back and keep a line about it."""
        if all(each.run_id != entry.run_id for each in self._history):
            self._history = [entry, *self._history][:HISTORY_LIMIT]
        self._release(entry.run_id)

    @workflow.signal(name="holder_gone")
    def holder_gone(self, holder: Holder) -> None:
        """Somebody found that a holder does not run any more."""
        self._release(holder.run_id)

    @workflow.signal(name="released")
    def released(self, holder: Holder) -> None:
        """Who is no operation gives its leases back, and leaves no line in the history."""
        self._release(holder.run_id)

    @workflow.signal(name="renew")
    def renew(self) -> None:
        """Continue as new now: an operator's way to move the entity to a new build, or to a short history."""
        self._renew = True

    @workflow.query(name="view")
    def view(self) -> ClusterView:
        """The record, who holds and waits, and the history."""
        return ClusterView(
            record=self._record, holding=self._broker.holding, queued=self._broker.queue, history=self._history
        )

    def _lease(self, request: LeaseRequest) -> Lease:
        return Lease(
            operation=request.operation,
            run_id=request.run_id,
            kind=request.kind,
            by=request.by,
            leases=request.leases,
            since=workflow.now(),
        )

    def _untouched(self) -> bool:
        """Whether nothing was made for the cluster yet."""
        record = self._record
        return record.network is None and record.identity is None and record.control_plane is None

    def _may_end(self) -> bool:
        idle = not self._broker.holding and not self._broker.queue and not self._granted
        return self._retiring and idle and self._untouched() and workflow.all_handlers_finished()

    def _release(self, run_id: str) -> None:
        self._granted += self._broker.release(run_id)
        self._checks = 0
        self._dirty = True

    def _next_check(self) -> timedelta | None:
        return min(FIRST_CHECK * 2**self._checks, LAST_CHECK) if self._broker.queue else None

    def _must_continue(self) -> bool:
        info = workflow.info()
        return (
            self._renew
            or info.is_continue_as_new_suggested()
            or info.get_current_history_length() > CONTINUE_AFTER_EVENTS
        )

    async def _tell_granted(self) -> None:
        while self._granted:
            lease = self._granted.pop(0)
            operation = workflow.get_external_workflow_handle(lease.operation, run_id=lease.run_id)
            try:
                await operation.signal("lease_granted")
            except ApplicationError:
                # It ended while it waited: the next in the queue gets its turn.
                self._release(lease.run_id)

    async def _reclaim(self) -> None:
        """Take back the leases of holders that do not run any more."""
        for lease in list(self._broker.holding):
            try:
                state: HolderState = await workflow.execute_activity(
                    HOLDER_STATE.name,
                    Holder(operation=lease.operation, run_id=lease.run_id),
                    task_queue=task_queue(HOLDER_STATE.queue, self._record.region),
                    result_type=HolderState,
                    start_to_close_timeout=timedelta(seconds=20),
                    retry_policy=RetryPolicy(maximum_attempts=3),
                    summary=lease.operation,
                )
            except ActivityError:
                continue
            if not state.running:
                workflow.logger.warning("leases of %s are taken back: it does not run any more", lease.operation)
                self._release(lease.run_id)

    def _publish(self) -> None:
        if not self._dirty:
            return
        self._dirty = False
        memo = self._memo()
        if memo != self._published or not workflow.patched(MEMO_WHEN_CHANGED):
            self._published = memo
            workflow.upsert_memo(memo)
        holders = ", ".join(each.operation for each in self._broker.holding) or "nobody"
        waiting = ", ".join(each.operation for each in self._broker.queue) or "nobody"
        workflow.set_current_details(f"**held by** {holders}\n\n**waiting** {waiting}")

    def _memo(self) -> dict[str, Any]:
        """What readers see of the cluster without a worker."""
        record = self._record
        summary = ClusterSummary(
            tag=record.tag,
            region=record.region,
            eks_cluster=record.control_plane.name if record.control_plane else None,
            eks_status=record.control_plane.status if record.control_plane else None,
            hyperpod_cluster=record.hyperpod.name if record.hyperpod else None,
            hyperpod_status=record.hyperpod.status if record.hyperpod else None,
            nodes=record.node_total,
            nodes_ready=record.nodes_ready,
            accelerators=record.accelerator_total,
            created_by=record.created_by,
            created_at=record.created_at,
            updated_at=record.updated_at,
        )
        return {
            MEMO_SUMMARY: summary.model_dump(mode="json", exclude_none=True),
            MEMO_RECORD: record.model_dump(mode="json", exclude_none=True),
        }
