"""Routers: made until they see their servers and one has answered through them, and deleted without a trace."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import CREATE_ROUTER, DELETE_ROUTER
from contracts.deployment_parts import Verification
from contracts.deployments import (
    WAIT_FOR_ADDRESS,
    WAIT_FOR_ANSWERS,
    WAIT_FOR_ROLLOUT,
    Answered,
    DeploymentRef,
    PublicAddress,
    RolledOut,
    WatchAnswers,
    WatchRollout,
)
from contracts.operation import Outcome, Start
from contracts.routers import (
    APPLY_ROUTER,
    APPLY_ROUTER_SERVICES,
    DEFAULT_WORKER_PORT,
    ENSURE_ROUTER_ACCESS,
    START_ROUTER_DELETION,
    WAIT_FOR_ROUTER_GONE,
    WAIT_FOR_ROUTER_WORKERS,
    ApplyRouter,
    DeleteRouterSpec,
    RouterRef,
    RouterSpec,
    WatchWorkers,
    WorkersListed,
)
from contracts.words import number_of
from workflows.engine import Operation, StagePlan, StageRun
from workflows.parts import control_plane_of
from workflows.plans import check, checks, checks_stage

MEMBERS = tuple(name for name in RouterSpec.model_fields if name not in ("name", "namespace"))
START_MINUTES = 15


@workflow.defn(name=CREATE_ROUTER.name)
class CreateRouter(Operation[RouterSpec]):
    kind = CREATE_ROUTER
    stages = (
        checks(*MEMBERS),
        StagePlan("router", "Router and its account", inputs=MEMBERS),
        StagePlan("services", "Services", inputs=("service", "public", "confirm_public")),
        StagePlan("workers", "It sees its servers"),
        StagePlan("address", "Public address"),
        StagePlan("answers", "An answer through it"),
    )

    @workflow.init
    def __init__(self, start: Start[RouterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[RouterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        findings = await checks_stage(self)

        def asked(port: int) -> ApplyRouter:
            return ApplyRouter(scope=self.scope, eks_cluster=cluster, spec=self.spec, worker_port=port)

        def deployment() -> DeploymentRef:
            spec = self.spec
            return DeploymentRef(scope=self.scope, eks_cluster=cluster, name=spec.name, namespace=spec.namespace)

        async def router(run: StageRun) -> RolledOut:
            found = findings
            if self.progress.stages["router"].attempt > 1:
                # What was corrected meanwhile has not been looked at yet.
                found = await check(run, self)
            told = found.draft.facts.get("worker_port")
            port = told if isinstance(told, int) else self.spec.worker_port or DEFAULT_WORKER_PORT
            await run.act(ENSURE_ROUTER_ACCESS, asked(port))
            applied = await run.act(APPLY_ROUTER, asked(port))
            watched = WatchRollout(
                **deployment().model_dump(), generation=applied.generation, limit_minutes=START_MINUTES
            )
            rolled = await run.wait(WAIT_FOR_ROLLOUT, watched)
            run.detail(f"{rolled.ready} of {rolled.replicas} ready")
            return rolled

        async def services(run: StageRun) -> list[str]:
            made = await run.act(APPLY_ROUTER_SERVICES, asked(self.spec.worker_port or DEFAULT_WORKER_PORT))
            run.detail(f"reached by {', '.join(made.names)}")
            return made.names

        async def workers(run: StageRun) -> WorkersListed:
            spec = self.spec
            watched = WatchWorkers(
                scope=self.scope,
                eks_cluster=cluster,
                name=spec.name,
                namespace=spec.namespace,
                target=spec.target,
                port=spec.port,
            )
            listed = await run.wait(WAIT_FOR_ROUTER_WORKERS, watched)
            run.detail(f"it sees {number_of(listed.workers, 'server')} of {spec.target.words}")
            return listed

        async def address(run: StageRun) -> PublicAddress | None:
            if self.spec.service != "public":
                run.detail("reached inside the cluster only")
                return None
            found = await run.wait(WAIT_FOR_ADDRESS, deployment())
            run.detail(f"reached at {found.hostname}")
            return found

        async def answers(run: StageRun) -> Answered:
            spec = self.spec
            watched = WatchAnswers(
                **deployment().model_dump(), port=spec.port, service=spec.name, verification=Verification()
            )
            answered = await run.wait(WAIT_FOR_ANSWERS, watched)
            run.detail(answered.verified)
            return answered

        rolled = await self.stage("router", router)
        names = await self.stage("services", services)
        listed = await self.stage("workers", workers)
        reached = await self.stage("address", address)
        answered = await self.stage("answers", answers)
        return {
            "router": self.spec.operated,
            "replicas": rolled.replicas,
            "workers": listed.workers,
            "services": names,
            "address": reached.hostname if reached is not None else None,
            "answer": answered.model_dump(mode="json"),
        }


@workflow.defn(name=DELETE_ROUTER.name)
class DeleteRouter(Operation[DeleteRouterSpec]):
    kind = DELETE_ROUTER
    stages = (checks(), StagePlan("router", "Router, and all that belongs to it"))

    @workflow.init
    def __init__(self, start: Start[DeleteRouterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteRouterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        spec = self.spec
        reference = RouterRef(scope=self.scope, eks_cluster=cluster, name=spec.name, namespace=spec.namespace)
        await checks_stage(self)

        async def steps(run: StageRun) -> None:
            await run.act(START_ROUTER_DELETION, reference)
            await run.wait(WAIT_FOR_ROUTER_GONE, reference)
            run.detail(f"{spec.operated} is gone, with its Services, its account and what that was allowed")

        await self.stage("router", steps)
        return {"router": spec.operated}
