"""Node pools of managed Karpenter."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.answers import NodePoolList
from contracts.capacity import Taint
from mcp_server.arguments import PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.NODE_POOLS)

NodePoolName = Annotated[SkipValidation[str], Field(description="Name of the node pool, e.g. gpus.")]


@tools.tool("List node pools", endpoints.LIST_NODE_POOLS)
async def node_pool_list(who: Who, cluster: ClusterTag = None) -> NodePoolList:
    """Node pools of a cluster's managed Karpenter: readiness, nodes, accelerators in use and limits as they are now.

    Whether Karpenter itself works is told by karpenter_get_status.
    """
    return await who.get(endpoints.LIST_NODE_POOLS, tag=await who.cluster(cluster))


@tools.tool("Create a node pool", endpoints.CREATE_NODE_POOL)
async def node_pool_create(
    who: Who,
    node_pool: NodePoolName,
    instance_groups: Annotated[
        SkipValidation[list[str]], Field(description="Instance groups that it scales from zero, at most 10.")
    ],
    cluster: ClusterTag = None,
    accept_scale_down: Annotated[
        SkipValidation[bool | None],
        Field(description="true: groups that have nodes now may be scaled down to what pods need."),
    ] = None,
    gpu_limit: Annotated[
        SkipValidation[int | None],
        Field(description="Most accelerators that it may have; absent: what quotas give."),
    ] = None,
    consolidation: Annotated[
        SkipValidation[Literal["WhenEmpty", "WhenEmptyOrUnderutilized"] | None],
        Field(description="Which nodes are given back; absent: WhenEmpty."),
    ] = None,
    consolidate_after: Annotated[
        SkipValidation[str | None], Field(description="How long a node must be idle, e.g. 5m; Never keeps it.")
    ] = None,
    labels: Annotated[SkipValidation[dict[str, str] | None], Field(description="Of its nodes.")] = None,
    taints: Annotated[SkipValidation[list[Taint] | None], Field(description="Of its nodes.")] = None,
    weight: Annotated[
        SkipValidation[int | None], Field(description="1 to 100; of pools that a pod fits, the heaviest is taken.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Let managed Karpenter scale instance groups: pods that fit get nodes, from zero, and idle nodes go. A pool that
    exists is changed to what is asked.

    Use it after karpenter_install, with groups that were added for it (count 0). operation_wait decides completion.
    """
    body = given(
        name=node_pool,
        instance_groups=instance_groups,
        accept_scale_down=accept_scale_down,
        gpu_limit=gpu_limit,
        consolidation=consolidation,
        consolidate_after=consolidate_after,
        labels=labels,
        taints=taints,
        weight=weight,
    )
    tag = await who.cluster(cluster)
    return await who.start(endpoints.CREATE_NODE_POOL, body, tag=tag, plan=plan, places={"/name": "/node_pool"})


@tools.tool("Delete a node pool", endpoints.DELETE_NODE_POOL, destroys=True)
async def node_pool_delete(
    who: Who, sure: Sure, node_pool: NodePoolName, cluster: ClusterTag = None, plan: PlanId = None
) -> Started:
    """Delete a node pool: its pods are evicted and its nodes go. The instance groups stay, at zero.

    Use it only when the user has named the pool. operation_wait decides completion.
    """
    tag, places = await who.cluster(cluster), {"/name": "/node_pool"}
    return await who.start(endpoints.DELETE_NODE_POOL, tag=tag, name=node_pool, plan=plan, places=places)
