"""Instance groups of a HyperPod cluster."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.answers import InstanceGroupList, NodeGroupList
from contracts.capacity import DeepHealthCheck, Taint
from contracts.model import Model
from mcp_server import arguments
from mcp_server.arguments import CAPACITY_PLACES, GroupName, PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.started import Started
from mcp_server.toolbox import Alias, Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

ACCELERATED: dict[str, Alias] = {
    "AcceleratedInstanceType": "instance_type",
    "AcceleratedInstanceCount": "count",
    "AcceleratedEBSVolumeSize": "volume_gib",
    "AcceleratedTrainingPlanArn": "training_plan",
    "availabilityZone": "availability_zone",
    "computeSubnetId": "subnet_id",
}
"""An instance group as the original's creation calls it."""


def _spot(wanted: Any) -> dict[str, Any]:
    return {"capacity": "spot"} if wanted else {}


class Groups(Model):
    """All groups of nodes of a cluster."""

    hyperpod: InstanceGroupList
    eks: NodeGroupList
    """EKS node groups beside HyperPod's."""


@tools.tool("List instance groups and node groups", endpoints.LIST_INSTANCE_GROUPS, endpoints.LIST_NODE_GROUPS)
async def cluster_get_instance_groups(who: Who, cluster: ClusterTag = None) -> Groups:
    """HyperPod's instance groups and the EKS node groups of a cluster as they are now: type, current and target count,
    status, zone and how capacity is bought.

    Use it before adding, scaling or deleting a group. For the nodes in them use node_list; to follow a change, the
    operation that makes it (operation_wait).
    """
    tag = await who.cluster(cluster)
    hyperpod, eks = await asyncio.gather(
        who.get(endpoints.LIST_INSTANCE_GROUPS, tag=tag), who.get(endpoints.LIST_NODE_GROUPS, tag=tag)
    )
    return Groups(hyperpod=hyperpod, eks=eks)


@tools.tool(
    "Add an instance group",
    endpoints.ADD_INSTANCE_GROUP,
    aliases={
        "instanceGroupName": "group",
        "instanceType": "instance_type",
        "instanceCount": "count",
        "availabilityZone": "availability_zone",
        "volumeSize": "volume_gib",
        "trainingPlanArn": "training_plan",
        "isSpot": _spot,
    },
)
async def hyperpod_add_instance_group(
    who: Who,
    instance_type: arguments.InstanceType,
    count: Annotated[SkipValidation[int], Field(description="How many nodes; 0 for a group that a node pool scales.")],
    cluster: ClusterTag = None,
    group: Annotated[
        SkipValidation[str | None], Field(description="The new group's name; absent: workers, if that is free.")
    ] = None,
    availability_zone: arguments.Zone = None,
    capacity: arguments.CapacityKind = None,
    training_plan: arguments.TrainingPlanName = None,
    alternative_types: Annotated[
        SkipValidation[list[str] | None],
        Field(description="Types to take, in order, where instance_type has no capacity."),
    ] = None,
    min_count: Annotated[
        SkipValidation[int | None], Field(description="The group works only with so many nodes; absent: with any.")
    ] = None,
    volume_gib: arguments.VolumeSize = None,
    network_interface: Annotated[
        SkipValidation[Literal["efa", "efa-only"] | None],
        Field(description="efa-only saves VPC addresses, on types with several cards. Cannot be changed later."),
    ] = None,
    threads_per_core: Annotated[
        SkipValidation[Literal[1, 2] | None], Field(description="Absent: what suits the type. Cannot be changed later.")
    ] = None,
    deep_health_checks: Annotated[
        SkipValidation[list[DeepHealthCheck] | None], Field(description="Run on nodes before they join: takes hours.")
    ] = None,
    labels: Annotated[
        SkipValidation[dict[str, str] | None], Field(description="Kubernetes labels of its nodes.")
    ] = None,
    taints: Annotated[SkipValidation[list[Taint] | None], Field(description="Kubernetes taints of its nodes.")] = None,
    subnet_id: arguments.SubnetId = None,
    subnet_placement: Annotated[
        SkipValidation[Literal["shared", "dedicated"] | None],
        Field(description="dedicated: a subnet of the group's own, which outlives it; absent: shared."),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Add a group of nodes of one type in one Availability Zone to a HyperPod cluster.

    Use it for more capacity of another type, zone or kind; for more of the same use hyperpod_scale_instance_group. It
    costs money: have the user decide on type, count, zone and capacity, and look first at what can be had
    (cluster_get_available_instances). operation_wait decides completion: all nodes Ready with their accelerators.
    """
    body = given(
        name=group,
        instance_type=instance_type,
        alternative_types=alternative_types,
        count=count,
        min_count=min_count,
        availability_zone=availability_zone,
        capacity=arguments.capacity(capacity, training_plan),
        network_interface=network_interface,
        threads_per_core=threads_per_core,
        deep_health_checks=deep_health_checks,
        volume_gib=volume_gib,
        labels=labels,
        taints=taints,
        subnet_id=subnet_id,
        subnet_placement=subnet_placement,
    )
    places = {**CAPACITY_PLACES, "/name": "/group"}
    return await who.start(endpoints.ADD_INSTANCE_GROUP, body, tag=await who.cluster(cluster), plan=plan, places=places)


@tools.tool(
    "Scale an instance group",
    endpoints.SCALE_INSTANCE_GROUP,
    destroys=True,
    aliases={"name": "group", "targetCount": "count"},
)
async def hyperpod_scale_instance_group(
    who: Who,
    sure: Sure,
    group: GroupName,
    count: Annotated[SkipValidation[int], Field(description="How many nodes it should have, not how many more.")],
    cluster: ClusterTag = None,
    plan: PlanId = None,
) -> Started:
    """Give an instance group another number of nodes. Fewer ends nodes with all that runs on them.

    Use it for more or fewer of the same; asked again while it runs, the last word holds. To choose which nodes go use
    hyperpod_node_delete. operation_wait decides completion.
    """
    tag = await who.cluster(cluster)
    return await who.start(endpoints.SCALE_INSTANCE_GROUP, {"count": count}, tag=tag, group=group, plan=plan)


@tools.tool("Change an instance group", endpoints.UPDATE_INSTANCE_GROUP, destroys=True, toolset=Toolset.STAGES)
async def hyperpod_update_instance_group(
    who: Who,
    sure: Sure,
    group: GroupName,
    cluster: ClusterTag = None,
    min_count: Annotated[
        SkipValidation[int | None], Field(description="The group works only with so many nodes.")
    ] = None,
    labels: Annotated[
        SkipValidation[dict[str, str] | None], Field(description="All labels that it should have: replaces them.")
    ] = None,
    taints: Annotated[
        SkipValidation[list[Taint] | None], Field(description="All taints that it should have: replaces them.")
    ] = None,
    deep_health_checks: Annotated[
        SkipValidation[list[DeepHealthCheck] | None], Field(description="All of them.")
    ] = None,
    volume_gib: Annotated[
        SkipValidation[int | None], Field(description="Of nodes that come later, in GiB; those that run keep theirs.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Change labels, taints, minimum, deep health checks or volume of an instance group; what is not named stays. A
    taint NoExecute ends the pods that do not tolerate it.

    Not for type, zone, capacity or network interface: those belong to the nodes, so add a group with the new values and
    delete this one. For the count use hyperpod_scale_instance_group. operation_wait decides completion.
    """
    changes = given(
        min_count=min_count,
        labels=labels,
        taints=taints,
        deep_health_checks=deep_health_checks,
        volume_gib=volume_gib,
    )
    return await who.start(
        endpoints.UPDATE_INSTANCE_GROUP, changes, tag=await who.cluster(cluster), group=group, plan=plan
    )


@tools.tool(
    "Delete an instance group",
    endpoints.DELETE_INSTANCE_GROUP,
    destroys=True,
    toolset=Toolset.STAGES,
    aliases={"instanceGroupName": "group"},
)
async def hyperpod_delete_instance_group(
    who: Who,
    sure: Sure,
    group: GroupName,
    cluster: ClusterTag = None,
    drain: Annotated[
        SkipValidation[bool | None],
        Field(description="Evict pods within their disruption budgets first; absent: true."),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Delete an instance group with all its nodes, their volumes and what runs on them.

    Use it only when the user has named the group. To keep the group without nodes, scale it to 0. operation_wait
    decides completion.
    """
    tag = await who.cluster(cluster)
    return await who.start(endpoints.DELETE_INSTANCE_GROUP, tag=tag, group=group, drain=drain, plan=plan)
