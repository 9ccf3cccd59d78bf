"""Autoscalers of Deployments: created (or changed to what is asked) and deleted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.autoscalers import (
    APPLY_AUTOSCALER,
    START_AUTOSCALER_DELETION,
    WAIT_FOR_AUTOSCALER,
    WAIT_FOR_AUTOSCALER_GONE,
    ApplyAutoscaler,
    Autoscaler,
    AutoscalerRef,
    AutoscalerSpec,
    DeleteAutoscalerSpec,
)
from contracts.catalogue import CREATE_AUTOSCALER, DELETE_AUTOSCALER
from contracts.operation import Outcome, Start
from contracts.words import number_of
from workflows.engine import Operation, StagePlan, StageRun
from workflows.parts import control_plane_of
from workflows.plans import checks, checks_stage

INPUTS = (
    "min_replicas",
    "max_replicas",
    "polling_seconds",
    "cooldown_seconds",
    "scale_up_stabilization_seconds",
    "scale_down_stabilization_seconds",
    "triggers",
)


@workflow.defn(name=CREATE_AUTOSCALER.name)
class CreateAutoscaler(Operation[AutoscalerSpec]):
    kind = CREATE_AUTOSCALER
    stages = (checks(*INPUTS), StagePlan("autoscaler", "Autoscaler that reads its metrics", inputs=INPUTS))

    @workflow.init
    def __init__(self, start: Start[AutoscalerSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AutoscalerSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        """The Deployment's, too: a number of replicas has one owner at a time."""
        spec = self.spec
        return (f"autoscalers/{spec.namespace}/{spec.called}", f"deployments/{spec.namespace}/{spec.target}")

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        async def steps(run: StageRun) -> Autoscaler:
            spec, cluster = self.spec, control_plane.name
            await run.act(APPLY_AUTOSCALER, ApplyAutoscaler(scope=self.scope, eks_cluster=cluster, spec=spec))
            reference = AutoscalerRef(scope=self.scope, eks_cluster=cluster, namespace=spec.namespace, name=spec.called)
            ready = await run.wait(WAIT_FOR_AUTOSCALER, reference)
            limits = f"{ready.min_replicas} to {ready.max_replicas}"
            run.detail(f"{ready.state.value}: {ready.replicas} replicas, of {limits}")
            return ready

        return (await self.stage("autoscaler", steps)).model_dump(mode="json")


@workflow.defn(name=DELETE_AUTOSCALER.name)
class DeleteAutoscaler(Operation[DeleteAutoscalerSpec]):
    kind = DELETE_AUTOSCALER
    stages = (checks(), StagePlan("autoscaler", "Autoscaler"))

    @workflow.init
    def __init__(self, start: Start[DeleteAutoscalerSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteAutoscalerSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"autoscalers/{self.spec.namespace}/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        async def steps(run: StageRun) -> dict[str, Any]:
            reference = AutoscalerRef(
                scope=self.scope,
                eks_cluster=control_plane.name,
                namespace=self.spec.namespace,
                name=self.spec.name,
            )
            asked = await run.act(START_AUTOSCALER_DELETION, reference)
            gone = await run.wait(WAIT_FOR_AUTOSCALER_GONE, reference)
            target, replicas = (
                asked.target or gone.target,
                gone.replicas if gone.replicas is not None else asked.replicas,
            )
            kept = f"{target or 'its target'} is gone"
            if replicas is not None:
                kept = f"{target} keeps {number_of(replicas, 'replica')}"
            run.detail(f"{self.spec.name} is gone; {kept}")
            return {"autoscaler": self.spec.name, "target": target, "replicas": replicas}

        return await self.stage("autoscaler", steps)
