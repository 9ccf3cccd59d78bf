"""What a cluster needs before nodes can join, and the access that installing it takes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import catalogue, endpoints
from contracts.dependencies import COMPONENTS, ComponentStatus
from contracts.model import Model
from mcp_server.arguments import PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.operations import Followed, followed, newest_if_any
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

STATUS_TOOL = "cluster_get_dependency_status"


class DependencyStatus(Model):
    """The components as last verified, and what installs them."""

    cluster: str
    components: list[ComponentStatus]
    """Empty: none has been installed yet."""
    installation: Followed | None = None
    """Null: nothing is known of an installation; the components tell of an earlier one, or of an import."""


@tools.tool("Verify access to Kubernetes", endpoints.VERIFY_ACCESS, toolset=Toolset.STAGES)
async def access_verify(who: Who, cluster: ClusterTag = None, plan: PlanId = None) -> Started:
    """Give the platform administration of a cluster's Kubernetes API, and prove it. operation_wait decides completion.

    Use it where other operations are blocked because Kubernetes refuses them. Installing dependencies needs it done.
    """
    return await who.start(endpoints.VERIFY_ACCESS, tag=await who.cluster(cluster), plan=plan)


@tools.tool("Install dependencies", endpoints.INSTALL_DEPENDENCIES, aliases={"clusterTag": "cluster"})
async def cluster_configure_dependencies(
    who: Who,
    cluster: ClusterTag = None,
    components: Annotated[
        SkipValidation[list[str] | None],
        Field(description=f"Only these of {', '.join(each.name for each in COMPONENTS)}; absent: all."),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Install the EKS add-ons and HyperPod's own components that a cluster needs before nodes can join.

    Use it after cluster_create_eks, or again to complete an installation that ended early. cluster_create includes it.
    cluster_get_dependency_status decides completion.
    """
    tag, body = await who.cluster(cluster), given(components=components)
    return await who.start(endpoints.INSTALL_DEPENDENCIES, body, tag=tag, plan=plan, status_tool=STATUS_TOOL)


@tools.tool("Status of dependencies", endpoints.GET_CLUSTER, endpoints.GET_OPERATION, aliases={"clusterTag": "cluster"})
async def cluster_get_dependency_status(who: Who, cluster: ClusterTag = None) -> DependencyStatus:
    """Which dependencies a cluster has and how their installation stands. Decides completion of
    cluster_configure_dependencies: done when `installation` has ended with phase succeeded.

    waiting_for_nodes is complete as far as it can be before the cluster has nodes. For managed features (operators,
    Karpenter) use hyperpod_get_advanced_features.
    """
    tag = await who.cluster(cluster)
    record = (await who.get(endpoints.GET_CLUSTER, tag=tag)).record
    installing = await newest_if_any(who, tag, catalogue.INSTALL_DEPENDENCIES, catalogue.CREATE_CLUSTER)
    return DependencyStatus(
        cluster=tag,
        components=record.dependencies,
        installation=followed(installing) if installing is not None else None,
    )
