"""Clusters: which there are, which one is meant, and new ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import catalogue, endpoints
from contracts.access import Caller
from contracts.answers import ClusterPage, ClusterUsage
from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ClusterView
from contracts.hyperpod import HyperPodSpec
from contracts.network import NetworkSpec
from contracts.operation import Operation
from contracts.storage import StorageSpec
from mcp_server.arguments import PageSize, PageToken, PlanId, Region, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.naming import NewTag, start_named
from mcp_server.operations import Listing, listing
from mcp_server.started import Started, started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

KubernetesVersion = Annotated[SkipValidation[str | None], Field(description="e.g. 1.34; absent: the default.")]


@tools.tool("List clusters", endpoints.LIST_CLUSTERS)
async def cluster_list_all(
    who: Who,
    search: Annotated[SkipValidation[str | None], Field(description="Part of the tag or the region.")] = None,
    page_size: PageSize = 50,
    page_token: PageToken = None,
) -> ClusterPage:
    """Every managed cluster, the newest first: region, EKS and HyperPod status, nodes and accelerators.

    Use it first, before creating anything, and whenever a cluster is not known by its tag. Not for details of one
    cluster: that is cluster_get_status.
    """
    return await who.get(endpoints.LIST_CLUSTERS, search=search, page_size=page_size, page_token=page_token)


@tools.tool("Status of a cluster", endpoints.GET_CLUSTER, aliases={"clusterTag": "cluster"})
async def cluster_get_status(who: Who, cluster: ClusterTag = None) -> ClusterView:
    """What a cluster is made of as last verified, which operations hold or wait for it, and what was done to it.

    Use it to inspect before changing anything. Not for live node health (node_list) and not to follow an operation
    (operation_wait).
    """
    return await who.get(endpoints.GET_CLUSTER, tag=await who.cluster(cluster))


@tools.tool(
    "Choose the default cluster",
    endpoints.SET_DEFAULT_CLUSTER,
    endpoints.CLEAR_DEFAULT_CLUSTER,
    aliases={"clusterTag": "cluster"},
)
async def cluster_switch(
    who: Who,
    cluster: Annotated[SkipValidation[str | None], Field(description="Its tag; null: no cluster is the default.")],
) -> Caller:
    """Make a cluster the one that your tools mean where none is named. Done when it answers.

    It is kept for your token alone and changes no cluster. Not needed where every call names its cluster, which is
    safer when you work on several.
    """
    if cluster is None:
        return await who.get(endpoints.CLEAR_DEFAULT_CLUSTER)
    return await who.get(endpoints.SET_DEFAULT_CLUSTER, {"cluster": await who.cluster(cluster)})


@tools.tool(
    "Create a cluster",
    endpoints.GET_CALLER,
    endpoints.GET_CLUSTER,
    endpoints.GET_OPERATION,
    endpoints.CREATE_CLUSTER,
    idempotent=False,
    aliases={"clusterTag": "tag"},
)
async def cluster_create(
    who: Who,
    tag: NewTag = None,
    region: Region = None,
    instance_groups: Annotated[
        SkipValidation[list[InstanceGroupSpec] | None],
        Field(description="Its nodes; absent: the operation asks which capacity to take, with what can be had then."),
    ] = None,
    kubernetes_version: KubernetesVersion = None,
    network: Annotated[SkipValidation[NetworkSpec | None], Field(description="Absent: a VPC of its own.")] = None,
    hyperpod: Annotated[SkipValidation[HyperPodSpec | None], Field(description="How nodes are treated.")] = None,
    storage: Annotated[
        SkipValidation[StorageSpec | None], Field(description="Its S3 claim; absent: s3-claim on its own bucket.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Create a whole cluster: network, EKS control plane, dependencies, HyperPod nodes, storage, verification.

    Use it for a new cluster, or to complete one whose creation ended early: what exists is kept. It takes about an
    hour and costs money: have the user decide on type, count, zone and capacity before. Not for single stages
    (cluster_create_eks, cluster_configure_dependencies, hyperpod_create) and not to add nodes
    (hyperpod_add_instance_group). operation_wait decides completion; the answer names the tag as `cluster`.
    """
    body = given(
        region=region,
        instance_groups=instance_groups,
        kubernetes_version=kubernetes_version,
        network=network,
        hyperpod=hyperpod,
        storage=storage,
    )

    async def start(chosen: str) -> Operation:
        sent = {"tag": chosen, **body}
        return await who.operation(endpoints.CREATE_CLUSTER, sent, places={"/tag": "/tag"}, plan=plan)

    return started(await start_named(who, tag, catalogue.CREATE_CLUSTER, start), "operation_get")


@tools.tool("Verify a cluster", endpoints.VERIFY_CLUSTER, aliases={"clusterTag": "cluster"}, toolset=Toolset.STAGES)
async def cluster_verify(who: Who, cluster: ClusterTag = None, plan: PlanId = None) -> Started:
    """Look at the whole cluster and bring its record up to date. operation_wait decides completion.

    Use it when cluster_get_status seems to be out of date. It changes nothing in the cluster. For one that others
    changed in structure (groups, features, networks) use cluster_redetect.
    """
    return await who.start(endpoints.VERIFY_CLUSTER, tag=await who.cluster(cluster), plan=plan)


@tools.tool("Usage of a cluster", endpoints.GET_USAGE, aliases={"clusterTag": "cluster"}, toolset=Toolset.STAGES)
async def cluster_get_usage(who: Who, cluster: ClusterTag = None) -> ClusterUsage:
    """Nodes, accelerators and pods of a cluster as numbers: how many there are, are used and are waited for.

    Use it to see whether capacity is free before adding some. For the nodes one by one, use node_list.
    """
    return await who.get(endpoints.GET_USAGE, tag=await who.cluster(cluster))


@tools.tool(
    "Operations of a cluster",
    endpoints.LIST_CLUSTER_OPERATIONS,
    aliases={"clusterTag": "cluster"},
    toolset=Toolset.STAGES,
)
async def cluster_list_operations(
    who: Who, cluster: ClusterTag = None, page_size: PageSize = None, page_token: PageToken = None
) -> Listing:
    """Everything that was started on one cluster, the default one where none is named; running operations first.

    To search all clusters, or by kind and phase, use operation_list.
    """
    tag = await who.cluster(cluster)
    page = await who.get(endpoints.LIST_CLUSTER_OPERATIONS, tag=tag, page_size=page_size, page_token=page_token)
    return listing(page)
