"""Clusters that others made: taken over, and looked at anew."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from mcp_server.arguments import PlanId, Region, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.IMPORT)


@tools.tool("Import a cluster", endpoints.IMPORT_CLUSTER, aliases={"clusterTag": "tag"})
async def cluster_import(
    who: Who,
    tag: Annotated[SkipValidation[str], Field(description="What the cluster is called here, e.g. prod.")],
    region: Region = None,
    eks_cluster: Annotated[
        SkipValidation[str | None],
        Field(description="Its name in EKS; absent: that of one made here under the tag."),
    ] = None,
    hyperpod_cluster: Annotated[
        SkipValidation[str | None], Field(description="Name or ARN; absent: the one on the EKS cluster, if any.")
    ] = None,
    grant_access: Annotated[
        SkipValidation[bool | None], Field(description="true: give the platform an access entry where it has none.")
    ] = None,
    adopt: Annotated[
        SkipValidation[bool | None],
        Field(description="true: tag the clusters as the platform's to delete."),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Take over an EKS cluster that others made, with or without HyperPod, or rebuild a lost record.

    Use it before working on such a cluster. Everything is read, and nothing changed but what `grant_access` and `adopt`
    ask for: have the user decide on those. operation_wait decides completion; its result names gaps.
    """
    body = given(
        tag=tag,
        region=region,
        eks_cluster=eks_cluster,
        hyperpod_cluster=hyperpod_cluster,
        grant_access=grant_access,
        adopt=adopt,
    )
    return await who.start(endpoints.IMPORT_CLUSTER, body, plan=plan, places={"/tag": "/tag"})


@tools.tool("Detect a cluster anew", endpoints.REDETECT_CLUSTER, aliases={"clusterTag": "cluster"})
async def cluster_redetect(who: Who, cluster: ClusterTag = None, plan: PlanId = None) -> Started:
    """Compare a cluster's record with what there is, and bring it up to date; the result says what had changed.

    Use it where others have changed a cluster by other means. operation_wait decides completion.
    """
    return await who.start(endpoints.REDETECT_CLUSTER, tag=await who.cluster(cluster), plan=plan)
