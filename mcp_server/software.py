"""The software of a HyperPod cluster's nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.software import RollingUpdate, SoftwareRead
from mcp_server.arguments import PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.STAGES)


@tools.tool("Software of instance groups", endpoints.GET_SOFTWARE)
async def hyperpod_get_software(who: Who, cluster: ClusterTag = None) -> SoftwareRead:
    """Image, release and last update of every instance group, as they are now.

    Use it before hyperpod_update_software, to see whether there is anything newer.
    """
    return await who.get(endpoints.GET_SOFTWARE, tag=await who.cluster(cluster))


@tools.tool("Update software", endpoints.UPDATE_SOFTWARE, destroys=True, aliases={"clusterArn": "cluster"})
async def hyperpod_update_software(
    who: Who,
    sure: Sure,
    cluster: ClusterTag = None,
    groups: Annotated[
        SkipValidation[list[str] | None], Field(description="Only these instance groups; absent: all.")
    ] = None,
    image_id: Annotated[
        SkipValidation[str | None], Field(description="An AMI of the account's own, or `default` for HyperPod's.")
    ] = None,
    release_version: Annotated[
        SkipValidation[str | None], Field(description="A release of HyperPod's image; absent: the newest.")
    ] = None,
    rolling: Annotated[
        SkipValidation[RollingUpdate | None],
        Field(description="Some nodes at a time; absent: all of a group at once, as the service does by default."),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Bring the nodes of instance groups to another image, the newest without arguments. Nodes are rebooted and their
    root volumes made anew: what is on them, and pods that run, are lost.

    Use it when the user wants an update and knows what it interrupts; propose `rolling` for groups in use.
    operation_wait decides completion; an update that was rolled back blocks.
    """
    body = given(groups=groups, image_id=image_id, release_version=release_version, rolling=rolling)
    return await who.start(endpoints.UPDATE_SOFTWARE, body, tag=await who.cluster(cluster), plan=plan)
