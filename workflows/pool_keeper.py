"""What keeps a model pool's pods handed out as its Deployment says: one long-lived workflow for each pool.

A pod that is made anew serves nobody. The keeper watches, without a lease and almost without events, and hands pods
out when a service has fewer Ready ones than it is to have. For that it asks the cluster's entity for the pool's lease,
as any operation does, but never queues for it: whoever changes the pool has the say, and when that operation has ended
it looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from contracts.activity import Act, Wait
from contracts.catalogue import MODEL_POOL_WORKFLOW
from contracts.cluster import ACQUIRE_LEASES, Acquire, Acquired, ClusterRecord, Holder
from contracts.lease import WAIT_FOR_HOLDER, HeldBy, LeaseRequest
from contracts.model_pools import (
    APPLY_POOL_SERVICES,
    MEMO_KEEPER,
    SURVEY_POOL,
    WATCH_POOL,
    ApplyPoolServices,
    Keeper,
    KeeperState,
    KeepPool,
    PoolNews,
    PoolRef,
    WatchPool,
)
from contracts.names import cluster_id
from contracts.pool_moves import moves_for
from contracts.problem import ProblemCode
from contracts.queues import task_queue
from workflows.engine.failures import problem_of
from workflows.engine.stage import HEARTBEAT_TIMEOUT
from workflows.pool_moves import move_pods

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)

CONTINUE_AFTER_EVENTS = 2_000
FIRST_PAUSE, LAST_PAUSE = timedelta(seconds=10), timedelta(minutes=5)
"""Before it looks again after something failed: soon, then less and less often until a look succeeds."""
ACT_RETRY = RetryPolicy(maximum_interval=timedelta(seconds=30), maximum_attempts=10)
WATCH_RETRY = RetryPolicy(maximum_interval=timedelta(seconds=60))
"""Without limit: a worker that dies, or a cluster that does not answer for a while, is no reason to stop watching."""
OVER = (ProblemCode.NOT_FOUND, ProblemCode.FOREIGN)
"""The cluster, or the pool, is no more."""


class _Steps:
    """Calls activities as stages of operations do."""

    def __init__(self, region: str) -> None:
        self._region = region

    async def act(self, signature: Act[In, Out], argument: In, key: str | None = None) -> Out:
        return await self._run(signature, argument, key, ACT_RETRY)

    async def wait(self, signature: Wait[In, Out], argument: In, key: str | None = None) -> Out:
        return await self._run(signature, argument, key, WATCH_RETRY)

    async def _run(
        self, signature: Act[In, Out] | Wait[In, Out], argument: In, key: str | None, retry: RetryPolicy
    ) -> Out:
        found: Out = await workflow.execute_activity(
            signature.name,
            argument,
            task_queue=task_queue(signature.queue, self._region),
            result_type=signature.output,
            start_to_close_timeout=signature.limit,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=retry,
            summary=key,
        )
        return found


@workflow.defn(name=MODEL_POOL_WORKFLOW)
class ModelPoolKeeper:
    @workflow.init
    def __init__(self, kept: KeepPool) -> None:
        self._kept = kept
        self._pool = PoolRef(scope=kept.scope, eks_cluster=kept.eks_cluster, name=kept.name, namespace=kept.namespace)
        self._steps = _Steps(kept.scope.region)
        self._shown = Keeper(state=KeeperState.WATCHING, repairs=kept.repairs, repaired_at=kept.repaired_at)
        self._retired = False
        self._renew = False
        self._pauses = 0
        self._seen: str | None = None
        """The pool as the last watch saw it; null: to be seen anew."""

    @workflow.run
    async def run(self, kept: KeepPool) -> None:
        self._publish()
        while not self._retired:
            try:
                news = await self._unless_called(self._watch())
                if self._retired if news is None else news.gone:
                    return
                self._pauses = 0
                if news is None:
                    self._seen = None
                elif news.work:
                    await self._repair(news.detail)
                else:
                    self._seen = news.detail
                    self._show(KeeperState.WATCHING, news.detail)
            except (ActivityError, ApplicationError) as error:
                found = problem_of(error)
                if found.code in OVER:
                    return
                await self._pause(KeeperState.WATCHING, f"{found.detail}; it looks again")
            if not self._retired and self._must_continue():
                workflow.continue_as_new(
                    self._kept.model_copy(
                        update={"repairs": self._shown.repairs, "repaired_at": self._shown.repaired_at}
                    ),
                    memo=self._memo(),
                )

    @workflow.signal(name="retire")
    def retire(self) -> None:
        """The pool is gone."""
        self._retired = True

    @workflow.signal(name="renew")
    def renew(self) -> None:
        """Continue as new now: an operator's way to move the keeper to a new build. What it watches is watched anew."""
        self._renew = True

    @workflow.query(name="keeper")
    def keeper(self) -> Keeper:
        """What it is at; the same as its memo."""
        return self._shown

    async def _watch(self) -> PoolNews:
        return await self._steps.wait(WATCH_POOL, WatchPool(**self._pool.model_dump(), known=self._seen))

    async def _repair(self, why: str) -> None:
        """Hand pods out once, if nobody else changes the pool; else wait until that operation has ended."""
        info = workflow.info()
        self._seen = None
        try:
            await self._acquire()
        except ActivityError as error:
            found = problem_of(error)
            if found.code is not ProblemCode.BUSY:
                raise
            await self._give_way(found.operation)
            return
        try:
            self._show(KeeperState.REPAIRING, why)
            seen = await self._steps.act(SURVEY_POOL, self._pool)
            if seen.wish_problem is None:
                asked = ApplyPoolServices(**self._pool.model_dump(), wish=seen.wish)
                await self._steps.act(APPLY_POOL_SERVICES, asked)
                await move_pods(self._steps, self._pool, moves_for(seen.wish.assignments, seen.pods))
            self._shown = self._shown.model_copy(
                update={"repairs": self._shown.repairs + 1, "repaired_at": workflow.now()}
            )
        finally:
            await asyncio.shield(self._give_back(Holder(operation=info.workflow_id, run_id=info.run_id)))
        self._show(KeeperState.WATCHING, "it has handed pods out")

    async def _give_way(self, operation: str | None) -> None:
        """Until the operation that has the say is over. One without a name was over before it could be told."""
        if operation is None:
            await self._pause(KeeperState.WAITING, "an operation has the say")
            return
        self._show(KeeperState.WAITING, f"{operation} has the say")
        await self._unless_called(self._steps.wait(WAIT_FOR_HOLDER, HeldBy(operation=operation)))

    async def _acquire(self) -> None:
        """The pool's lease, at once or not at all. Raises ActivityError of ``busy``."""
        info, scope = workflow.info(), self._kept.scope
        record = ClusterRecord(
            tag=scope.cluster,
            region=scope.region,
            created_by=scope.created_by,
            created_at=workflow.now(),
            updated_at=workflow.now(),
        )
        request = LeaseRequest(
            operation=info.workflow_id,
            run_id=info.run_id,
            kind=MODEL_POOL_WORKFLOW,
            by=scope.created_by,
            leases=(self._pool.lease,),
            wait=False,
        )
        await workflow.execute_activity(
            ACQUIRE_LEASES.name,
            Acquire(record=record, request=request),
            task_queue=task_queue(ACQUIRE_LEASES.queue, scope.region),
            result_type=Acquired,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20), maximum_attempts=5),
        )

    async def _give_back(self, holder: Holder) -> None:
        entity = workflow.get_external_workflow_handle(cluster_id(self._kept.scope.cluster))
        try:
            await entity.signal("released", holder)
        except ApplicationError:
            workflow.logger.warning("the entity of cluster %s is gone; nothing to give back", self._kept.scope.cluster)

    async def _pause(self, state: KeeperState, why: str) -> None:
        self._seen = None
        self._show(state, why)
        pause = min(FIRST_PAUSE * 2**self._pauses, LAST_PAUSE)
        self._pauses = min(self._pauses + 1, 10)
        try:
            await workflow.wait_condition(lambda: self._called, timeout=pause, timeout_summary="before it looks again")
        except TimeoutError:
            return

    @property
    def _called(self) -> bool:
        """Whether somebody has said that there is something else to do than to watch."""
        return self._retired or self._renew

    async def _unless_called(self, watching: Awaitable[Out]) -> Out | None:
        """What was waited for; None where the pool is gone meanwhile, or the keeper is to continue as new."""
        task = asyncio.ensure_future(watching)
        called = asyncio.ensure_future(workflow.wait_condition(lambda: self._called))
        await workflow.wait([task, called], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            return None
        called.cancel()
        return await task

    def _must_continue(self) -> bool:
        info = workflow.info()
        return (
            self._renew
            or info.is_continue_as_new_suggested()
            or info.get_current_history_length() > CONTINUE_AFTER_EVENTS
        )

    def _show(self, state: KeeperState, detail: str) -> None:
        shown = self._shown.model_copy(update={"state": state, "detail": detail})
        if shown != self._shown:
            self._shown = shown
            self._publish()

    def _publish(self) -> None:
        workflow.upsert_memo(self._memo())
        workflow.set_current_details(f"**{self._shown.state.value}** {self._shown.detail or ''}")

    def _memo(self) -> dict[str, Any]:
        """What readers see without a worker; a new run begins with it."""
        return {MEMO_KEEPER: self._shown.model_dump(mode="json", exclude_none=True)}
