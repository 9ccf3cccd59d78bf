"""Ray clusters for people: made until head and workers are ready and the head answers, and deleted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import CREATE_RAY_CLUSTER, DELETE_RAY_CLUSTER
from contracts.operation import Outcome, Start
from contracts.ray_clusters import (
    APPLY_RAY_CLUSTER,
    START_RAY_CLUSTER_DELETION,
    WAIT_FOR_DASHBOARD,
    WAIT_FOR_RAY_CLUSTER,
    WAIT_FOR_RAY_CLUSTER_GONE,
    ApplyRayCluster,
    DashboardAnswered,
    DeleteRayClusterSpec,
    RayClusterRef,
    RayClusterRuns,
    RayClusterSpec,
    WatchDashboard,
    WatchRayCluster,
)
from contracts.ray_parts import ray_version_of
from contracts.words import number_of
from workflows.engine import Operation, StagePlan, StageRun
from workflows.parts import control_plane_of
from workflows.plans import check, checks, checks_stage

MEMBERS = tuple(name for name in RayClusterSpec.model_fields if name not in ("name", "namespace"))


@workflow.defn(name=CREATE_RAY_CLUSTER.name)
class CreateRayCluster(Operation[RayClusterSpec]):
    kind = CREATE_RAY_CLUSTER
    stages = (
        checks(*MEMBERS),
        StagePlan("ray_cluster", "Head and workers", inputs=MEMBERS),
        StagePlan("dashboard", "An answer of the head"),
    )

    @workflow.init
    def __init__(self, start: Start[RayClusterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[RayClusterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        await checks_stage(self)

        def place() -> dict[str, Any]:
            return {
                "scope": self.scope,
                "eks_cluster": cluster,
                "name": self.spec.name,
                "namespace": self.spec.namespace,
            }

        async def pods(run: StageRun) -> RayClusterRuns:
            if self.progress.stages["ray_cluster"].attempt > 1:
                # What was corrected meanwhile has not been looked at yet.
                await check(run, self)
            applied = await run.act(
                APPLY_RAY_CLUSTER, ApplyRayCluster(scope=self.scope, eks_cluster=cluster, spec=self.spec)
            )
            watched = WatchRayCluster(**place(), generation=applied.generation, workers=self.spec.workers)
            runs = await run.wait(WAIT_FOR_RAY_CLUSTER, watched)
            run.detail(f"head and {number_of(runs.workers, 'worker')} ready on {', '.join(runs.nodes) or 'no node'}")
            return runs

        async def dashboard(run: StageRun) -> DashboardAnswered:
            told = self.spec.ray_version or ray_version_of(self.spec.image)
            answered = await run.wait(WAIT_FOR_DASHBOARD, WatchDashboard(**place(), ray_version=told))
            run.detail(answered.note or f"Ray {answered.ray_version} answers at {answered.address}")
            return answered

        runs = await self.stage("ray_cluster", pods)
        answered = await self.stage("dashboard", dashboard)
        return {
            "ray_cluster": self.spec.target,
            "workers": runs.workers,
            "nodes": runs.nodes,
            "dashboard": answered.address,
            "ray_version": answered.ray_version,
            "note": answered.note,
        }


@workflow.defn(name=DELETE_RAY_CLUSTER.name)
class DeleteRayCluster(Operation[DeleteRayClusterSpec]):
    kind = DELETE_RAY_CLUSTER
    stages = (checks(), StagePlan("ray_cluster", "Head and workers"))

    @workflow.init
    def __init__(self, start: Start[DeleteRayClusterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteRayClusterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (self.spec.lease,)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        spec = self.spec
        reference = RayClusterRef(scope=self.scope, eks_cluster=cluster, name=spec.name, namespace=spec.namespace)
        await checks_stage(self)

        async def pods(run: StageRun) -> None:
            await run.act(START_RAY_CLUSTER_DELETION, reference)
            await run.wait(WAIT_FOR_RAY_CLUSTER_GONE, reference)
            run.detail(f"{spec.target} and its pods are gone")

        await self.stage("ray_cluster", pods)
        return {"ray_cluster": spec.target}
