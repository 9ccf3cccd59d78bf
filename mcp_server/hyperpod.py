"""The HyperPod cluster on an EKS cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import catalogue, endpoints
from contracts.capacity import InstanceGroupSpec
from contracts.hyperpod import HyperPodSpec
from mcp_server import arguments
from mcp_server.arguments import CAPACITY_PLACES, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.instance_groups import ACCELERATED
from mcp_server.operations import Followed, newest
from mcp_server.problems import unless
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)


@tools.tool("Create a HyperPod cluster", endpoints.CREATE_HYPERPOD, aliases={"hyperPodTag": "cluster", **ACCELERATED})
async def hyperpod_create(
    who: Who,
    cluster: ClusterTag = None,
    group: Annotated[SkipValidation[str | None], Field(description="Name of its group; absent: workers.")] = None,
    instance_type: Annotated[
        SkipValidation[str | None],
        Field(description="Type of its nodes, e.g. ml.g6.4xlarge; absent: the operation asks which capacity to take."),
    ] = None,
    count: Annotated[SkipValidation[int | None], Field(description="How many nodes.")] = None,
    availability_zone: arguments.Zone = None,
    capacity: arguments.CapacityKind = None,
    training_plan: arguments.TrainingPlanName = None,
    volume_gib: arguments.VolumeSize = None,
    subnet_id: arguments.SubnetId = None,
    instance_groups: Annotated[
        SkipValidation[list[InstanceGroupSpec] | None],
        Field(description="Instead of the arguments for one group: several groups, or one with all its choices."),
    ] = None,
    hyperpod: Annotated[SkipValidation[HyperPodSpec | None], Field(description="How nodes are treated.")] = None,
    plan: arguments.PlanId = None,
) -> Started:
    """Create the HyperPod cluster and its nodes on a cluster whose dependencies are installed.

    Use it once for a cluster; to add nodes later use hyperpod_add_instance_group. It costs money: have the user decide
    on type, count, zone and capacity. cluster_create includes it. hyperpod_get_creation_status decides completion.
    """
    one = given(
        name=group,
        instance_type=instance_type,
        count=count,
        availability_zone=availability_zone,
        capacity=arguments.capacity(capacity, training_plan),
        volume_gib=volume_gib,
        subnet_id=subnet_id,
    )
    unless(
        one and instance_groups,
        "instance_groups",
        "groups are given as a list and one by its own arguments",
        "Put all groups into instance_groups, or describe the only one by the other arguments.",
    )
    places = {f"/instance_groups/0{sent}": argument for sent, argument in CAPACITY_PLACES.items()}
    places |= {"/instance_groups/0/name": "/group", "/instance_groups/0": ""}
    return await who.start(
        endpoints.CREATE_HYPERPOD,
        given(instance_groups=[one] if one else instance_groups, hyperpod=hyperpod),
        tag=await who.cluster(cluster),
        plan=plan,
        places=places if one else None,
        status_tool="hyperpod_get_creation_status",
    )


@tools.tool("Status of a HyperPod creation", endpoints.GET_OPERATION, aliases={"clusterTag": "cluster"})
async def hyperpod_get_creation_status(who: Who, cluster: ClusterTag = None) -> Followed:
    """How the creation of a HyperPod cluster with its nodes stands: the operation that makes it, alone or as part of
    the whole cluster. Decides completion of hyperpod_create: done when it has ended with phase succeeded.

    Not for groups that are added later: those have operations of their own (operation_wait).
    """
    return await newest(who, await who.cluster(cluster), catalogue.CREATE_HYPERPOD, catalogue.CREATE_CLUSTER)
