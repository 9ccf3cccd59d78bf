"""Fake workflows that answer which model servers a cluster has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow

from contracts.deployments import (
    DeploymentDetail,
    DeploymentList,
    DeploymentSpec,
    DeploymentState,
    DeploymentView,
    ListDeployments,
    ReadDeployment,
)
from contracts.problem import ProblemCode
from tests.api.fake_readings import refuse

CHAT = DeploymentView(
    namespace="default",
    name="chat",
    state=DeploymentState.READY,
    detail="1 of 1 ready",
    engine="vllm",
    image="vllm/vllm-openai:v0.28.0-cu129",
    model="Qwen/Qwen3-0.6B",
    gpu_count=1,
    replicas=1,
    ready=1,
    updated=1,
    created_at=datetime(2026, 11, 1, tzinfo=UTC),
)


@workflow.defn(name="list-deployments")
class ListDeploymentsOf:
    """One, in every namespace that is asked for."""

    @workflow.run
    async def run(self, asked: ListDeployments) -> DeploymentList:
        view = CHAT.model_copy(update={"namespace": asked.namespace or CHAT.namespace})
        return DeploymentList(deployments=[view], read_at=workflow.now())


@workflow.defn(name="read-deployment")
class ReadDeploymentOf:
    @workflow.run
    async def run(self, asked: ReadDeployment) -> DeploymentDetail:
        if asked.name != CHAT.name:
            raise refuse(
                ProblemCode.NOT_FOUND, f"namespace {asked.namespace} has no deployment {asked.name}; it has chat"
            )
        spec = DeploymentSpec(name="chat", command="vllm serve Qwen/Qwen3-0.6B --port 8000", gpu_count=1)
        view = CHAT.model_copy(update={"namespace": asked.namespace})
        return DeploymentDetail(deployment=view, spec=spec, read_at=workflow.now())


SERVING: list[Any] = [ListDeploymentsOf, ReadDeploymentOf]
