"""The verification stage: everything that the cluster's record says is looked at once more, on both sides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from contracts.eks import ControlPlane
from contracts.hyperpod import LIST_NODES, ListNodes, Nodes
from contracts.identity import VERIFY_ACCESS, VerifyAccess
from contracts.node_groups import LIST_NODE_GROUPS, ListNodeGroups
from contracts.node_pools import LIST_NODE_POOLS, ListNodePools
from contracts.problem import ProblemCode, problem
from contracts.storage import WAIT_FOR_CLAIM, Claim, WaitForClaim
from contracts.words import number_of
from workflows.dependencies import await_components
from workflows.engine import Operation, StagePlan, StageRun, together
from workflows.engine.failures import refusal

VERIFICATION = StagePlan("verification", "Verification")


async def verification_stage(
    operation: Operation[Any],
    control_plane: ControlPlane,
    before_retry: Callable[[StageRun], Awaitable[None]] | None = None,
) -> dict[str, Any]:
    """Components, nodes and claims as they are now; returns the summary that the operation ends with. ``before_retry``
    is done first when somebody has the stage tried again."""

    async def steps(run: StageRun) -> dict[str, Any]:
        if run.attempt > 1 and before_retry is not None:
            await before_retry(run)
        record = operation.record
        scope = operation.scope
        await run.act(VERIFY_ACCESS, VerifyAccess(scope=scope, eks_cluster=control_plane.name))
        components, claims, nodes = await together(
            await_components(run, scope, control_plane, record.dependencies),
            _claims(run, operation, control_plane),
            _nodes(run, operation, control_plane),
        )
        await run.record(dependencies=components, storage=claims)
        if nodes is not None:
            await run.record(**nodes.recorded(operation.record.hyperpod))
        await _groups_and_pools(run, operation, control_plane)
        run.detail(
            f"{number_of(len(components), 'component')}, {number_of(operation.record.node_total, 'node')} and "
            f"{number_of(len(claims), 'claim')} verified"
        )
        return summary(operation)

    return await operation.stage(VERIFICATION.name, steps)


def summary(operation: Operation[Any]) -> dict[str, Any]:
    """What exists, in the words of the record."""
    record = operation.record
    return {
        "eks_cluster": record.control_plane.name if record.control_plane else None,
        "kubernetes_version": record.kubernetes_version,
        "hyperpod_cluster": record.hyperpod.name if record.hyperpod else None,
        "hyperpod_status": record.hyperpod.status if record.hyperpod else None,
        "nodes": [
            {
                "name": node.name,
                "instance_group": node.instance_group,
                "instance_type": node.instance_type,
                "availability_zone": node.zone,
                "capacity": node.capacity_type,
                "ready": node.ready,
                "accelerators": node.accelerators,
            }
            for node in record.nodes
        ],
        "storage": [f"{each.namespace}/{each.claim} on {each.source}" for each in record.storage],
    }


async def _groups_and_pools(run: StageRun, operation: Operation[Any], control_plane: ControlPlane) -> None:
    """Node groups and node pools as they are now, where the record knows of any."""
    scope, cluster = operation.scope, control_plane.name
    if operation.record.node_groups:
        groups = await run.act(LIST_NODE_GROUPS, ListNodeGroups(scope=scope, eks_cluster=cluster))
        await run.record(node_groups=groups.node_groups)
    if operation.record.node_pools:
        pools = await run.act(LIST_NODE_POOLS, ListNodePools(scope=scope, eks_cluster=cluster))
        await run.record(node_pools=pools.node_pools)


async def _claims(run: StageRun, operation: Operation[Any], control_plane: ControlPlane) -> list[Claim]:
    return await together(
        *(
            run.wait(
                WAIT_FOR_CLAIM,
                WaitForClaim(
                    scope=operation.scope,
                    eks_cluster=control_plane.name,
                    claim=each.claim,
                    namespace=each.namespace,
                ),
                key=f"{each.namespace}/{each.claim}",
            )
            for each in operation.record.storage
        )
    )


async def _nodes(run: StageRun, operation: Operation[Any], control_plane: ControlPlane) -> Nodes | None:
    hyperpod = operation.record.hyperpod
    if hyperpod is None:
        return None
    nodes = await run.act(
        LIST_NODES, ListNodes(scope=operation.scope, name=hyperpod.name, eks_cluster=control_plane.name)
    )
    unready = [node.name for node in nodes.nodes if not node.ready]
    not_ready = sum(each.nodes - each.ready for each in nodes.counts)
    missing = sum(group.target - group.current for group in nodes.cluster.groups)
    if not_ready or missing > 0:
        raise refusal(
            problem(
                ProblemCode.NOT_READY,
                f"not Ready: {number_of(not_ready, 'node')} ({', '.join(unready) or 'none'}), missing: {missing}",
                remedy="Look at the nodes' conditions and the cluster's events, then retry.",
                retryable=True,
            )
        )
    return nodes
