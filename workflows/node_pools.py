"""Node pools of managed Karpenter: created and deleted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import CREATE_NODE_POOL, DELETE_NODE_POOL
from contracts.cluster import replaced, without
from contracts.node_pools import (
    DELETE_NODE_CLASS,
    ENSURE_NODE_CLASS,
    ENSURE_NODE_POOL,
    LIST_NODE_POOLS,
    START_NODE_POOL_DELETION,
    WAIT_FOR_NODE_POOL,
    WAIT_FOR_NODE_POOL_GONE,
    DeleteNodeClass,
    DeleteNodePoolSpec,
    EnsureNodeClass,
    EnsureNodePool,
    ListNodePools,
    NodePool,
    NodePoolRef,
    NodePoolSpec,
)
from contracts.operation import Outcome, Start
from workflows.engine import Operation, StagePlan, StageRun
from workflows.parts import control_plane_of, hyperpod_of
from workflows.plans import checks, checks_stage

INPUTS = (
    "instance_groups",
    "accept_scale_down",
    "gpu_limit",
    "consolidation",
    "consolidate_after",
    "labels",
    "taints",
    "weight",
)


@workflow.defn(name=CREATE_NODE_POOL.name)
class CreateNodePool(Operation[NodePoolSpec]):
    kind = CREATE_NODE_POOL
    stages = (checks(*INPUTS), StagePlan("node_pool", "Node pool", inputs=INPUTS))

    @workflow.init
    def __init__(self, start: Start[NodePoolSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[NodePoolSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"node-pools/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        hyperpod = hyperpod_of(self)
        await checks_stage(self)

        async def steps(run: StageRun) -> NodePool:
            spec, scope, cluster = self.spec, self.scope, control_plane.name
            await run.act(
                ENSURE_NODE_CLASS,
                EnsureNodeClass(
                    scope=scope, eks_cluster=cluster, name=spec.name, instance_groups=list(spec.instance_groups)
                ),
            )
            made = await run.act(
                ENSURE_NODE_POOL,
                EnsureNodePool(scope=scope, eks_cluster=cluster, hyperpod_cluster=hyperpod.name, spec=spec),
            )
            await run.record_at_once(node_pools=replaced("node_pools", self.record.node_pools, made))
            ready = await run.wait(WAIT_FOR_NODE_POOL, NodePoolRef(scope=scope, eks_cluster=cluster, name=spec.name))
            await record_node_pools(run, self, cluster)
            run.detail(f"{spec.name} is Ready: nodes of {', '.join(ready.instance_groups)} come when pods need them")
            return ready

        return (await self.stage("node_pool", steps)).model_dump(mode="json")


@workflow.defn(name=DELETE_NODE_POOL.name)
class DeleteNodePool(Operation[DeleteNodePoolSpec]):
    kind = DELETE_NODE_POOL
    stages = (checks(), StagePlan("node_pool", "Node pool and its nodes"), StagePlan("node_class", "Node class"))

    @workflow.init
    def __init__(self, start: Start[DeleteNodePoolSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteNodePoolSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"node-pools/{self.spec.node_pool}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        scope, name, cluster = self.scope, self.spec.node_pool, control_plane.name
        await checks_stage(self)

        async def delete(run: StageRun) -> str | None:
            pool = NodePoolRef(scope=scope, eks_cluster=cluster, name=name)
            gone = await run.act(START_NODE_POOL_DELETION, pool)
            await run.record_at_once(node_pools=without("node_pools", self.record.node_pools, name))
            await run.wait(WAIT_FOR_NODE_POOL_GONE, pool)
            run.detail(f"{name} and its nodes are gone")
            return gone.node_class

        async def delete_class(run: StageRun) -> dict[str, Any]:
            kept = None
            if node_class is not None:
                gone = await run.act(
                    DELETE_NODE_CLASS, DeleteNodeClass(scope=scope, eks_cluster=cluster, name=node_class)
                )
                kept = f"{gone.name} is kept: {gone.kept}" if gone.kept else None
            await record_node_pools(run, self, cluster)
            run.detail(kept or f"{node_class} is gone")
            return {"node_pool": name, "kept": [kept] if kept else []}

        node_class = await self.stage("node_pool", delete)
        return await self.stage("node_class", delete_class)


async def record_node_pools(run: StageRun, operation: Operation[Any], eks_cluster: str) -> None:
    """Put all node pools into the cluster's record as they are now."""
    found = await run.act(LIST_NODE_POOLS, ListNodePools(scope=operation.scope, eks_cluster=eks_cluster))
    await run.record(node_pools=found.node_pools)
