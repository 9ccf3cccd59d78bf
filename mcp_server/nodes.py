"""Nodes: listed, rebooted, replaced and deleted."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.answers import NodeDetail, NodePage
from contracts.endpoints import Endpoint
from contracts.operation import Operation
from mcp_server.arguments import PageSize, PageToken, PlanId, given
from mcp_server.asker import Asker, ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.started import Started
from mcp_server.toolbox import Alias, Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

NodeNames = Annotated[
    SkipValidation[list[str]],
    Field(description="The nodes, each by its Kubernetes name (hyperpod-i-…), instance (i-…) or logical ID."),
]
Drain = Annotated[
    SkipValidation[bool | None],
    Field(description="Evict pods within their disruption budgets first; absent: false, pods go with the node."),
]
DrainTimeout = Annotated[
    SkipValidation[int | None], Field(description="How long evictions may take; absent: 30 minutes.")
]

_ONE: dict[str, Alias] = {"nodeId": lambda node: {"nodes": [node]}}


@tools.tool("List nodes", endpoints.LIST_NODES, toolset=Toolset.NODES)
async def node_list(
    who: Who,
    cluster: ClusterTag = None,
    group: Annotated[
        SkipValidation[str | None], Field(description="Only nodes of this instance group, node group or node pool.")
    ] = None,
    unhealthy: Annotated[
        SkipValidation[bool | None], Field(description="true: only nodes that are not healthy.")
    ] = None,
    page_size: PageSize = None,
    page_token: PageToken = None,
) -> NodePage:
    """Every node as SageMaker and Kubernetes have it now: health, accelerators, what pods use, and totals of all.

    Use it to find unhealthy nodes and free capacity. For one node with its pods use node_get; for totals alone
    cluster_get_usage is cheaper.
    """
    return await who.get(
        endpoints.LIST_NODES,
        tag=await who.cluster(cluster),
        group=group,
        unhealthy=unhealthy,
        page_size=page_size,
        page_token=page_token,
    )


@tools.tool("Get a node", endpoints.GET_NODE, toolset=Toolset.NODES, aliases={"nodeId": "node"})
async def node_get(
    who: Who,
    node: Annotated[SkipValidation[str], Field(description="Its Kubernetes name, instance or logical ID.")],
    cluster: ClusterTag = None,
) -> NodeDetail:
    """One node with its health, conditions and the pods that live on it, and what those belong to.

    Use it before a node is rebooted, replaced or deleted, to tell the user what would be interrupted.
    """
    return await who.get(endpoints.GET_NODE, tag=await who.cluster(cluster), node=node)


async def _act(
    who: Asker,
    endpoint: Endpoint[Operation],
    cluster: str | None,
    nodes: Any,
    drain: bool | None,
    drain_timeout_minutes: int | None,
    plan: str | None,
) -> Started:
    body = given(nodes=nodes, drain=drain, drain_timeout_minutes=drain_timeout_minutes)
    return await who.start(endpoint, body, tag=await who.cluster(cluster), plan=plan)


@tools.tool("Reboot nodes", endpoints.REBOOT_NODES, destroys=True, idempotent=False, aliases=_ONE)
async def hyperpod_node_reboot(
    who: Who,
    sure: Sure,
    nodes: NodeNames,
    cluster: ClusterTag = None,
    drain: Drain = None,
    drain_timeout_minutes: DrainTimeout = None,
    plan: PlanId = None,
) -> Started:
    """Restart the operating systems of nodes; instances and volumes stay, what runs on them is interrupted.

    Use it first for a node that misbehaves, after looking at it (node_get). If it does not help, use
    hyperpod_node_replace. operation_wait decides completion: each has booted anew and is Ready.
    """
    return await _act(who, endpoints.REBOOT_NODES, cluster, nodes, drain, drain_timeout_minutes, plan)


@tools.tool("Replace nodes", endpoints.REPLACE_NODES, destroys=True, idempotent=False, aliases=_ONE)
async def hyperpod_node_replace(
    who: Who,
    sure: Sure,
    nodes: NodeNames,
    cluster: ClusterTag = None,
    drain: Drain = None,
    drain_timeout_minutes: DrainTimeout = None,
    plan: PlanId = None,
) -> Started:
    """Put other instances in the place of nodes; everything on their volumes is lost, and the names change.

    Use it for broken hardware, or where a reboot did not help. operation_wait decides completion: the successors are
    Ready with their accelerators.
    """
    return await _act(who, endpoints.REPLACE_NODES, cluster, nodes, drain, drain_timeout_minutes, plan)


@tools.tool("Delete nodes", endpoints.DELETE_NODES, destroys=True, aliases=_ONE, toolset=Toolset.NODES)
async def hyperpod_node_delete(
    who: Who,
    sure: Sure,
    nodes: NodeNames,
    cluster: ClusterTag = None,
    drain: Drain = None,
    drain_timeout_minutes: DrainTimeout = None,
    plan: PlanId = None,
) -> Started:
    """End chosen nodes for good; their groups' targets become smaller by as many.

    Use it to give back certain nodes. Not to repair (hyperpod_node_replace), and not where any node may go
    (hyperpod_scale_instance_group). operation_wait decides completion: they are gone.
    """
    return await _act(who, endpoints.DELETE_NODES, cluster, nodes, drain, drain_timeout_minutes, plan)
