"""Clusters: which there are, and which one is meant."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contracts import endpoints
from contracts.answers import ClusterPage
from contracts.cluster import ClusterView
from mcp_server.asker import ClusterTag, Who
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)


@tools.tool("List clusters", endpoints.LIST_CLUSTERS)
async def cluster_list_all(
    who: Who,
    page_size: Annotated[int, Field(description="Clusters in one answer, 1 to 200.")] = 50,
    page_token: Annotated[str | None, Field(description="next_page_token of the answer before.")] = None,
) -> ClusterPage:
    """Every managed cluster, the newest first: region, EKS and HyperPod status, nodes and accelerators.

    Use it first, before creating anything, and whenever a cluster is not known by its tag. Not for details of one
    cluster: that is cluster_get_status.
    """
    return await who.get(endpoints.LIST_CLUSTERS, page_size=page_size, page_token=page_token)


@tools.tool("Status of a cluster", endpoints.GET_CLUSTER, aliases={"clusterTag": "cluster"})
async def cluster_get_status(who: Who, cluster: ClusterTag = None) -> ClusterView:
    """What a cluster is made of as last verified, which operations hold or wait for it, and what was done to it.

    Use it to inspect before changing anything. Not for live node health (node_list) and not to follow an operation
    (operation_wait).
    """
    return await who.get(endpoints.GET_CLUSTER, tag=await who.cluster(cluster))
