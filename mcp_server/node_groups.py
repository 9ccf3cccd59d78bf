"""EKS node groups beside HyperPod's instance groups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.answers import NodeGroupList
from contracts.capacity import Taint
from mcp_server.arguments import PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.started import Started
from mcp_server.toolbox import Alias, Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.NODE_GROUPS)

NodeGroupName = Annotated[SkipValidation[str], Field(description="Name of the EKS node group, e.g. cpu.")]
Minimum = Annotated[SkipValidation[int | None], Field(description="Absent: as it is, or 0.")]
Maximum = Annotated[SkipValidation[int | None], Field(description="Absent: as it is, or `desired`.")]

_SIZES: dict[str, Alias] = {"desiredSize": "desired", "minSize": "minimum", "maxSize": "maximum"}


@tools.tool("List node groups", endpoints.LIST_NODE_GROUPS)
async def cluster_nodegroup_list(who: Who, cluster: ClusterTag = None) -> NodeGroupList:
    """The EKS node groups of a cluster as they are now, others' among them.

    Use it for these alone; cluster_get_instance_groups answers them together with HyperPod's groups.
    """
    return await who.get(endpoints.LIST_NODE_GROUPS, tag=await who.cluster(cluster))


@tools.tool(
    "Create a node group",
    endpoints.CREATE_NODE_GROUP,
    aliases={"name": "node_group", **_SIZES},
)
async def cluster_nodegroup_create(
    who: Who,
    node_group: NodeGroupName,
    instance_types: Annotated[
        SkipValidation[list[str]], Field(description="EC2 types without ml., e.g. m6i.2xlarge; several: any of them.")
    ],
    cluster: ClusterTag = None,
    desired: Annotated[SkipValidation[int | None], Field(description="How many nodes; absent: 2.")] = None,
    minimum: Minimum = None,
    maximum: Maximum = None,
    capacity: Annotated[
        SkipValidation[Literal["on-demand", "spot", "capacity-block"] | None], Field(description="Absent: on demand.")
    ] = None,
    capacity_reservation_id: Annotated[SkipValidation[str | None], Field(description="Of a capacity block.")] = None,
    availability_zones: Annotated[
        SkipValidation[list[str] | None], Field(description="Names; absent: those of the cluster's compute subnets.")
    ] = None,
    subnet_ids: Annotated[SkipValidation[list[str] | None], Field(description="Absent: subnets of the zones.")] = None,
    volume_gib: Annotated[SkipValidation[int | None], Field(description="Absent: 200.")] = None,
    efa: Annotated[SkipValidation[bool | None], Field(description="true: with EFA interfaces, in one zone.")] = None,
    labels: Annotated[SkipValidation[dict[str, str] | None], Field(description="Of its nodes.")] = None,
    taints: Annotated[SkipValidation[list[Taint] | None], Field(description="Of its nodes.")] = None,
    plan: PlanId = None,
) -> Started:
    """Create a group of EC2 instances that EKS manages, with CPUs or accelerators, beside HyperPod's nodes.

    Use it for services that need no HyperPod nodes. For training capacity with HyperPod's health checks use
    hyperpod_add_instance_group. operation_wait decides completion: all nodes are Ready.
    """
    scaling = given(desired=desired, minimum=minimum, maximum=maximum)
    body = given(
        name=node_group,
        instance_types=instance_types,
        scaling=scaling or None,
        capacity=capacity,
        capacity_reservation_id=capacity_reservation_id,
        availability_zones=availability_zones,
        subnet_ids=subnet_ids,
        volume_gib=volume_gib,
        efa=efa,
        labels=labels,
        taints=taints,
    )
    places = {"/scaling": "", "/name": "/node_group"}
    return await who.start(endpoints.CREATE_NODE_GROUP, body, tag=await who.cluster(cluster), plan=plan, places=places)


@tools.tool(
    "Scale a node group",
    endpoints.SCALE_NODE_GROUP,
    destroys=True,
    aliases={"name": "node_group", "nodeGroupName": "node_group", **_SIZES},
)
async def cluster_nodegroup_scale(
    who: Who,
    sure: Sure,
    node_group: NodeGroupName,
    desired: Annotated[SkipValidation[int], Field(description="How many nodes it should have.")],
    cluster: ClusterTag = None,
    minimum: Minimum = None,
    maximum: Maximum = None,
    plan: PlanId = None,
) -> Started:
    """Give an EKS node group another number of nodes. Fewer ends nodes with all that runs on them.

    Use it for EKS node groups only; HyperPod's groups are scaled by hyperpod_scale_instance_group. Asked again while it
    runs, the last word holds. operation_wait decides completion.
    """
    return await who.start(
        endpoints.SCALE_NODE_GROUP,
        given(desired=desired, minimum=minimum, maximum=maximum),
        tag=await who.cluster(cluster),
        name=node_group,
        plan=plan,
        places={"/name": "/node_group"},
    )


@tools.tool(
    "Delete a node group",
    endpoints.DELETE_NODE_GROUP,
    destroys=True,
    aliases={"name": "node_group", "nodeGroupName": "node_group"},
)
async def cluster_nodegroup_delete(
    who: Who, sure: Sure, node_group: NodeGroupName, cluster: ClusterTag = None, plan: PlanId = None
) -> Started:
    """Delete an EKS node group: its pods are evicted, its instances end, and what was made for it goes.

    Use it only when the user has named the group. HyperPod's groups are deleted by hyperpod_delete_instance_group.
    operation_wait decides completion.
    """
    return await who.start(
        endpoints.DELETE_NODE_GROUP,
        tag=await who.cluster(cluster),
        name=node_group,
        plan=plan,
        places={"/name": "/node_group"},
    )
