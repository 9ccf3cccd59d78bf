"""Deleting clusters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.teardown import Level
from mcp_server.arguments import PlanId, given
from mcp_server.asker import Who
from mcp_server.asking import Sure
from mcp_server.problems import unless
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.TEARDOWN)


@tools.tool("Delete a cluster", endpoints.DELETE_CLUSTER, destroys=True, aliases={"clusterTag": "cluster"})
async def cluster_delete(
    who: Who,
    sure: Sure,
    cluster: Annotated[SkipValidation[str], Field(description="Its tag. The default cluster is not meant here.")],
    level: Annotated[
        SkipValidation[Level | None],
        Field(description="hyperpod: nodes only; eks: the EKS cluster too; network, and absent: everything."),
    ] = None,
    abort_running: Annotated[
        SkipValidation[bool | None], Field(description="true: abort operations that hold it, instead of waiting.")
    ] = None,
    delete_bucket: Annotated[
        SkipValidation[bool | None], Field(description="true: delete its bucket, too, with everything in it.")
    ] = None,
    delete_dedicated_subnets: Annotated[
        SkipValidation[bool | None], Field(description="true: delete dedicated subnets where the VPC stays.")
    ] = None,
    keep: Annotated[
        SkipValidation[list[str] | None], Field(description="IDs, ARNs or names of what must stay.")
    ] = None,
    region: Annotated[
        SkipValidation[str | None], Field(description="Of a cluster that has no record any more.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Delete a cluster or parts of it, for good, until nothing is left that was not kept on purpose.

    Use it only when the user has named the cluster: make the plan first (plan_make, kind delete-cluster), show it, and
    send its `plan`. operation_wait decides completion; its result reports what was deleted, kept and left over.
    """
    unless(cluster is None, "cluster", "no cluster is named", "Name the one that the user named; no default is taken.")
    body = given(
        level=level,
        abort_running=abort_running,
        delete_bucket=delete_bucket,
        delete_dedicated_subnets=delete_dedicated_subnets,
        keep=keep,
    )
    tag = await who.cluster(cluster)
    return await who.start(endpoints.DELETE_CLUSTER, body or None, tag=tag, region=region, plan=plan)
