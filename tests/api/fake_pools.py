"""Fake workflows that answer which model pools and routers a cluster has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow

from contracts.deployments import DeploymentState
from contracts.model_pools import (
    MEMO_KEEPER,
    Keeper,
    KeeperState,
    ListModelPools,
    ModelPoolDetail,
    ModelPoolList,
    ModelPoolView,
    PoolAssignment,
    PoolPodView,
    PoolState,
    ReadModelPool,
)
from contracts.problem import ProblemCode
from contracts.routers import ListRouters, ReadRouter, RouterDetail, RouterList, RouterView, Worker
from tests.api.fake_readings import refuse

POOL = ModelPoolView(
    namespace="default",
    name="pool",
    state=PoolState.READY,
    detail="2 of 2 ready",
    engine="vllm",
    image="vllm/vllm-openai:v0.28.0-cu129",
    model="Qwen/Qwen3-0.6B",
    gpu_count=1,
    replicas=2,
    ready=2,
    unassigned=1,
    assignments=[PoolAssignment(service="chat", wanted=1, pods=1, ready=1)],
    created_at=datetime(2026, 11, 1, tzinfo=UTC),
)
FRONT = RouterView(
    namespace="default",
    name="front",
    state=DeploymentState.READY,
    detail="1 of 1 ready",
    target="deployment chat",
    policy="cache_aware",
    image="lmsysorg/sglang:v0.5.13.post1-cu129",
    replicas=1,
    ready=1,
    targets=2,
    created_at=datetime(2026, 11, 1, tzinfo=UTC),
)


@workflow.defn(name="list-model-pools")
class ListModelPoolsOf:
    @workflow.run
    async def run(self, asked: ListModelPools) -> ModelPoolList:
        view = POOL.model_copy(update={"namespace": asked.namespace or POOL.namespace})
        return ModelPoolList(model_pools=[view], read_at=workflow.now())


@workflow.defn(name="read-model-pool")
class ReadModelPoolOf:
    @workflow.run
    async def run(self, asked: ReadModelPool) -> ModelPoolDetail:
        if asked.name != POOL.name:
            raise refuse(ProblemCode.NOT_FOUND, f"namespace {asked.namespace} has no model pool {asked.name}")
        pods = [
            PoolPodView(name="pool-1", business="chat", ready=True, node="node-1", phase="Running"),
            PoolPodView(name="pool-2", business="unassigned", ready=True, node="node-1", phase="Running"),
        ]
        view = POOL.model_copy(update={"namespace": asked.namespace})
        return ModelPoolDetail(pool=view, pods=pods, read_at=workflow.now())


@workflow.defn(name="list-routers")
class ListRoutersOf:
    @workflow.run
    async def run(self, asked: ListRouters) -> RouterList:
        view = FRONT.model_copy(update={"namespace": asked.namespace or FRONT.namespace})
        return RouterList(routers=[view], read_at=workflow.now())


@workflow.defn(name="read-router")
class ReadRouterOf:
    @workflow.run
    async def run(self, asked: ReadRouter) -> RouterDetail:
        if asked.name != FRONT.name:
            raise refuse(ProblemCode.NOT_FOUND, f"namespace {asked.namespace} has no router {asked.name}")
        worker = Worker(url="http://10.0.0.1:8000", healthy=True, pod="chat-1")
        view = FRONT.model_copy(update={"namespace": asked.namespace})
        return RouterDetail(router=view, workers=[worker], read_at=workflow.now())


@workflow.defn(name="model-pool")
class KeeperOf:
    """Says that it watches, until it is told that the pool is gone."""

    def __init__(self) -> None:
        self.retired = False

    @workflow.run
    async def run(self) -> None:
        shown = Keeper(state=KeeperState.WATCHING, detail="chat 1 of 1, 1 free", repairs=3)
        workflow.upsert_memo({MEMO_KEEPER: shown.model_dump(mode="json", exclude_none=True)})
        await workflow.wait_condition(lambda: self.retired)

    @workflow.signal
    def retire(self) -> None:
        self.retired = True


POOLS: list[Any] = [ListModelPoolsOf, ReadModelPoolOf, ListRoutersOf, ReadRouterOf, KeeperOf]
