"""Managed endpoints of the inference operator: created, updated and deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from temporalio import workflow

from contracts.catalogue import CREATE_ENDPOINT, DELETE_ENDPOINT, UPDATE_ENDPOINT
from contracts.managed_endpoints import (
    APPLY_ENDPOINT,
    START_ENDPOINT_DELETION,
    WAIT_FOR_ENDPOINT,
    WAIT_FOR_ENDPOINT_ANSWER,
    WAIT_FOR_ENDPOINT_GONE,
    ApplyEndpoint,
    DeleteEndpointSpec,
    EndpointAnswer,
    EndpointRef,
    EndpointSpec,
    ManagedEndpoint,
)
from contracts.operation import Outcome, Start
from workflows.engine import Operation, Skipped, StagePlan, StageRun
from workflows.parts import control_plane_of
from workflows.plans import checks, checks_stage

INPUTS = (
    "model_name",
    "source",
    "worker",
    "instance_types",
    "replicas",
    "kv_cache",
    "routing",
    "session_key",
    "autoscaling",
    "sagemaker_endpoint",
    "tls",
    "load_balancer",
    "invocation_path",
    "metrics",
    "tags",
    "deploy_timeout_seconds",
)
SERVED = (
    checks(*INPUTS),
    StagePlan("endpoint", "Endpoint as the operator deploys it", inputs=INPUTS),
    StagePlan("answers", "An answer of the model", skippable=True),
)


class _Served(Operation[EndpointSpec]):
    """An endpoint that is as its spec says, and answers."""

    def leases(self) -> tuple[str, ...]:
        return (f"endpoints/{self.spec.namespace}/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        def reference(generation: int = 0) -> EndpointRef:
            spec = self.spec
            return EndpointRef(
                scope=self.scope,
                eks_cluster=control_plane.name,
                namespace=spec.namespace,
                name=spec.name,
                kind=spec.kind,
                generation=generation,
            )

        async def deploy(run: StageRun) -> ManagedEndpoint:
            wanted = ApplyEndpoint(scope=self.scope, eks_cluster=control_plane.name, spec=self.spec)
            applied = await run.act(APPLY_ENDPOINT, wanted)
            deployed = await run.wait(WAIT_FOR_ENDPOINT, reference(applied.generation))
            run.detail(f"{deployed.ready_replicas} of {deployed.replicas} replicas ready")
            return deployed

        async def ask(run: StageRun) -> EndpointAnswer | None:
            if not endpoint.ready_replicas:
                run.detail("it is scaled to no replica now: there is nobody to ask")
                return None
            answer = await run.wait(WAIT_FOR_ENDPOINT_ANSWER, reference())
            run.detail(f"{answer.model} answers in {answer.seconds} s")
            return answer

        endpoint, answer = await self.stage("endpoint", deploy), None
        with suppress(Skipped):
            answer = await self.stage("answers", ask)
        return {
            "endpoint": endpoint.model_dump(mode="json"),
            "answer": answer.model_dump(mode="json") if answer is not None else None,
        }


@workflow.defn(name=CREATE_ENDPOINT.name)
class CreateEndpoint(_Served):
    kind = CREATE_ENDPOINT
    stages = SERVED

    @workflow.init
    def __init__(self, start: Start[EndpointSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[EndpointSpec]) -> Outcome:
        return await self.carry_out()


@workflow.defn(name=UPDATE_ENDPOINT.name)
class UpdateEndpoint(_Served):
    kind = UPDATE_ENDPOINT
    stages = SERVED

    @workflow.init
    def __init__(self, start: Start[EndpointSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[EndpointSpec]) -> Outcome:
        return await self.carry_out()


@workflow.defn(name=DELETE_ENDPOINT.name)
class DeleteEndpoint(Operation[DeleteEndpointSpec]):
    kind = DELETE_ENDPOINT
    stages = (checks(), StagePlan("endpoint", "Endpoint and what its operator made"))

    @workflow.init
    def __init__(self, start: Start[DeleteEndpointSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteEndpointSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"endpoints/{self.spec.namespace}/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        async def delete(run: StageRun) -> dict[str, Any]:
            spec = self.spec
            endpoint = EndpointRef(
                scope=self.scope, eks_cluster=control_plane.name, namespace=spec.namespace, name=spec.name
            )
            gone = await run.act(START_ENDPOINT_DELETION, endpoint)
            await run.wait(WAIT_FOR_ENDPOINT_GONE, endpoint.model_copy(update={"kind": gone.kind}))
            run.detail(f"{spec.name} is gone; the model's files stay where they are")
            return {"endpoint": spec.name, "namespace": spec.namespace}

        return await self.stage("endpoint", delete)
