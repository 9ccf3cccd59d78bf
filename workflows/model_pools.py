"""Model pools: made until a pod has answered, scaled around what is handed out, handed out, and deleted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from contracts import queues
from contracts.catalogue import (
    ASSIGN_MODEL_POOL,
    CREATE_MODEL_POOL,
    DELETE_MODEL_POOL,
    MODEL_POOL_WORKFLOW,
    SCALE_MODEL_POOL,
)
from contracts.deployments import (
    WAIT_FOR_ADDRESS,
    WAIT_FOR_ANSWERS,
    WAIT_FOR_ROLLOUT,
    Answered,
    DeploymentRef,
    RolledOut,
    WatchAnswers,
    WatchRollout,
)
from contracts.model_pools import (
    APPLY_POOL,
    APPLY_POOL_SERVICES,
    SCALE_POOL,
    SET_WISH,
    START_POOL_DELETION,
    SURVEY_POOL,
    WAIT_FOR_POOL_GONE,
    WAIT_FOR_WORKERS,
    ApplyPool,
    ApplyPoolServices,
    AssignModelPoolSpec,
    DeleteModelPoolSpec,
    KeepPool,
    ModelPoolSpec,
    PoolRef,
    PoolSeen,
    ScaleModelPoolSpec,
    ScalePool,
    SetWish,
    Wish,
)
from contracts.names import pool_keeper_id
from contracts.operation import Outcome, Start
from contracts.pool_moves import LEAVING, RESERVED, UNASSIGNED, counted, moves_for, reached, told
from contracts.problem import ProblemCode, problem
from contracts.words import number_of
from workflows.deployments import ANSWERS, DEFAULT_STARTUP_MINUTES, FORM, startup_minutes
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import refusal
from workflows.parts import control_plane_of
from workflows.plans import check, checks, checks_stage
from workflows.pool_moves import move_pods

POOL_FORM = tuple(name for name in FORM if name != "service")
ROUNDS = 30
"""How often pods are handed out anew, where somebody else moves them meanwhile."""


def pool_of(operation: Operation[Any], eks_cluster: str) -> PoolRef:
    spec = operation.spec
    return PoolRef(scope=operation.scope, eks_cluster=eks_cluster, name=spec.name, namespace=spec.namespace)


def deployment_of(pool: PoolRef) -> DeploymentRef:
    return DeploymentRef(scope=pool.scope, eks_cluster=pool.eks_cluster, name=pool.name, namespace=pool.namespace)


def keeper_of(operation: Operation[Any]) -> str:
    return pool_keeper_id(operation.start.cluster, operation.spec.namespace, operation.spec.name)


async def keep(operation: Operation[Any], pool: PoolRef) -> None:
    """Have the pool looked after from now on, if nobody does so already. Who does outlives the operation."""
    try:
        await workflow.start_child_workflow(
            MODEL_POOL_WORKFLOW,
            KeepPool(**pool.model_dump()),
            id=keeper_of(operation),
            # Where a new build takes over what an older one began: it lives as long as the pool.
            task_queue=queues.ENTITIES,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"keeps model pool {pool.target} of {operation.start.cluster}",
        )
    except WorkflowAlreadyStartedError:
        return


async def roll_out(run: StageRun, pool: PoolRef, generation: int, minutes: int) -> RolledOut:
    asked = WatchRollout(**deployment_of(pool).model_dump(), generation=generation, limit_minutes=minutes)
    return await run.wait(WAIT_FOR_ROLLOUT, asked)


async def hand_out(run: StageRun, pool: PoolRef) -> PoolSeen:
    """Move pods until every service has what the pool's Deployment says. Waits for pods that come up."""
    for _ in range(ROUNDS):
        seen = await run.act(SURVEY_POOL, pool)
        if seen.wish_problem is not None:
            remedy = "Send the whole wish again (assign-model-pool)."
            raise refusal(problem(ProblemCode.INVALID, seen.wish_problem, remedy=remedy, field="/assignments"))
        wish = seen.wish.assignments
        if moves := moves_for(wish, seen.pods):
            named = ", ".join(f"{move.source} → {move.target}" for move in moves[:3])
            run.detail(f"{number_of(len(moves), 'pod')} to move: {named}{' …' if len(moves) > 3 else ''}")
            await move_pods(run, pool, moves)
        elif reached(wish, seen.pods):
            return seen
        else:
            await run.wait(WAIT_FOR_WORKERS, pool)
    detail = f"the pods of {pool.name} did not come to rest in {ROUNDS} rounds: somebody else moves them, or they end"
    raise refusal(problem(ProblemCode.CONFLICT, detail, remedy="Look at the pods, then retry.", field="/assignments"))


@workflow.defn(name=CREATE_MODEL_POOL.name)
class CreateModelPool(Operation[ModelPoolSpec]):
    kind = CREATE_MODEL_POOL
    stages = (
        checks(*POOL_FORM, *ANSWERS),
        StagePlan("pool", "Pods", inputs=POOL_FORM),
        StagePlan("answers", "An answer of one of them", inputs=ANSWERS),
        StagePlan("keeper", "Who looks after it"),
    )

    @workflow.init
    def __init__(self, start: Start[ModelPoolSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ModelPoolSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        pool = pool_of(self, cluster)
        findings = await checks_stage(self)

        async def pods(run: StageRun) -> RolledOut:
            found = findings
            if self.progress.stages["pool"].attempt > 1:
                # What was corrected meanwhile has not been looked at yet.
                found = await check(run, self)
            minutes = startup_minutes(self.spec, found)
            asked = ApplyPool(scope=self.scope, eks_cluster=cluster, spec=self.spec, startup_minutes=minutes)
            applied = await run.act(APPLY_POOL, asked)
            rolled = await roll_out(run, pool, applied.generation, minutes)
            run.detail(f"{rolled.ready} of {rolled.replicas} ready on {', '.join(rolled.nodes) or 'no node'}")
            return rolled

        async def answer(run: StageRun) -> Answered:
            spec = self.spec
            found = await run.wait(
                WAIT_FOR_ANSWERS,
                WatchAnswers(
                    **deployment_of(pool).model_dump(),
                    port=spec.port,
                    service=None,
                    verification=spec.verification,
                    served_model=spec.served_model,
                ),
            )
            run.detail(found.verified)
            return found

        async def keeper(run: StageRun) -> None:
            await keep(self, pool)
            run.detail(f"{keeper_of(self)} hands pods out as assigned")

        rolled = await self.stage("pool", pods)
        answered = await self.stage("answers", answer)
        await self.stage("keeper", keeper)
        return {
            "model_pool": self.spec.target,
            "replicas": rolled.replicas,
            "nodes": rolled.nodes,
            "answer": answered.model_dump(mode="json"),
        }


@workflow.defn(name=SCALE_MODEL_POOL.name)
class ScaleModelPool(Operation[ScaleModelPoolSpec]):
    """Fewer pods are taken from the free ones; should one go that is assigned, another takes its place."""

    kind = SCALE_MODEL_POOL
    stages = (
        checks("replicas"),
        StagePlan("replicas", "Pods", inputs=("replicas",)),
        StagePlan("assigned", "Assigned pods are there still"),
    )

    @workflow.init
    def __init__(self, start: Start[ScaleModelPoolSpec]) -> None:
        super().__init__(start)
        self.before: PoolSeen | None = None

    @workflow.run
    async def run(self, start: Start[ScaleModelPoolSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        pool = pool_of(self, cluster)
        findings = await checks_stage(self)

        async def scale(run: StageRun) -> RolledOut:
            if self.before is None:
                self.before = await run.act(SURVEY_POOL, pool)
            applied = await run.act(SCALE_POOL, ScalePool(**pool.model_dump(), replicas=self.spec.replicas))
            told = findings.draft.facts.get("startup_minutes")
            minutes = told if isinstance(told, int) else DEFAULT_STARTUP_MINUTES
            rolled = await roll_out(run, pool, applied.generation, minutes)
            run.detail(f"{rolled.ready} of {rolled.replicas} ready")
            return rolled

        async def assigned(run: StageRun) -> tuple[list[str], PoolSeen]:
            seen = await hand_out(run, pool)
            there = {pod.uid for pod in seen.pods}
            serving = [pod for pod in (self.before.pods if self.before else ()) if pod.business not in RESERVED]
            lost = sorted(pod.name for pod in serving if pod.uid not in there)
            kept = f"{len(serving) - len(lost)} of {len(serving)} assigned pods were kept"
            run.detail(
                f"{kept}; {told(seen.wish.assignments, seen.pods)}" + (f"; replaced: {', '.join(lost)}" if lost else "")
            )
            return lost, seen

        rolled = await self.stage("replicas", scale)
        lost, seen = await self.stage("assigned", assigned)
        return {
            "model_pool": self.spec.target,
            "replicas": rolled.replicas,
            "assigned": {name: counted(seen.pods).get(name, 0) for name in seen.wish.assignments},
            "replaced": lost,
        }


@workflow.defn(name=ASSIGN_MODEL_POOL.name)
class AssignModelPool(Operation[AssignModelPoolSpec]):
    """The wish is on the pool's Deployment before the first pod moves: whoever comes next goes on from there."""

    kind = ASSIGN_MODEL_POOL
    stages = (
        checks("assignments", "public", "confirm_public", "keep_services"),
        StagePlan("pods", "Pods to services", inputs=("assignments", "public", "confirm_public", "keep_services")),
        StagePlan("keeper", "Who looks after it"),
    )

    @workflow.init
    def __init__(self, start: Start[AssignModelPoolSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AssignModelPoolSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        pool = pool_of(self, cluster)
        await checks_stage(self)

        async def pods(run: StageRun) -> dict[str, Any]:
            if self.progress.stages["pods"].attempt > 1:
                await check(run, self)
            spec, reference = self.spec, pool.model_dump()
            await run.act(SET_WISH, SetWish(**reference, wish=spec.wish))
            await run.act(APPLY_POOL_SERVICES, ApplyPoolServices(**reference, wish=spec.wish))
            seen = await hand_out(run, pool)
            removed: list[str] = []
            if not spec.keep_services:
                asked = ApplyPoolServices(**reference, wish=spec.wish, delete_others=True)
                removed = (await run.act(APPLY_POOL_SERVICES, asked, "others")).removed
            addresses = await self._addresses(run, pool)
            run.detail(told(seen.wish.assignments, seen.pods) + (f"; {', '.join(removed)} deleted" if removed else ""))
            have = counted(seen.pods)
            return {
                "model_pool": spec.target,
                "assigned": {name: have.get(name, 0) for name in spec.assignments},
                "unassigned": have.get(UNASSIGNED, 0),
                "leaving": have.get(LEAVING, 0),
                "removed": removed,
                "addresses": addresses,
            }

        async def keeper(run: StageRun) -> None:
            await keep(self, pool)
            run.detail(f"{keeper_of(self)} keeps it so")

        result = await self.stage("pods", pods)
        await self.stage("keeper", keeper)
        return result

    async def _addresses(self, run: StageRun, pool: PoolRef) -> dict[str, str]:
        """Where the services with load balancers are reached."""
        found = {}
        for service in sorted(self.spec.public):
            asked = deployment_of(pool).model_copy(update={"name": service})
            found[service] = (await run.wait(WAIT_FOR_ADDRESS, asked, service)).hostname
        return found


@workflow.defn(name=DELETE_MODEL_POOL.name)
class DeleteModelPool(Operation[DeleteModelPoolSpec]):
    kind = DELETE_MODEL_POOL
    stages = (
        checks(),
        StagePlan("services", "Services"),
        StagePlan("pool", "Pods"),
        StagePlan("keeper", "Who looked after it"),
    )

    @workflow.init
    def __init__(self, start: Start[DeleteModelPoolSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteModelPoolSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        pool = pool_of(self, cluster)
        await checks_stage(self)

        async def services(run: StageRun) -> list[str]:
            asked = ApplyPoolServices(**pool.model_dump(), wish=Wish(), delete_others=True)
            gone = await run.act(APPLY_POOL_SERVICES, asked)
            run.detail(f"{', '.join(gone.removed) or 'no Service'}: no new requests come")
            return gone.removed

        async def pods(run: StageRun) -> None:
            await run.act(START_POOL_DELETION, pool)
            await run.wait(WAIT_FOR_POOL_GONE, pool)
            run.detail(f"{self.spec.target}, its pods and what led to them are gone")

        async def keeper(run: StageRun) -> None:
            try:
                await workflow.get_external_workflow_handle(keeper_of(self)).signal("retire")
            except ApplicationError:
                run.detail("nobody does any more")
            else:
                run.detail(f"{keeper_of(self)} ends")

        removed = await self.stage("services", services)
        await self.stage("pool", pods)
        await self.stage("keeper", keeper)
        return {"model_pool": self.spec.target, "services": removed}
