"""EKS control planes with their networks: the first stage of a cluster."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SkipValidation

from contracts import catalogue, endpoints
from contracts.operation import Operation
from mcp_server.arguments import PlanId, Region, given
from mcp_server.asker import Asker, ClusterTag, Who
from mcp_server.clusters import KubernetesVersion
from mcp_server.naming import NewTag, start_named
from mcp_server.operations import Followed, newest
from mcp_server.started import Started, started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

STATUS_TOOL = "cluster_get_eks_creation_status"
USED = (endpoints.GET_CALLER, endpoints.GET_CLUSTER, endpoints.GET_OPERATION, endpoints.CREATE_CONTROL_PLANE)

Block = Annotated[SkipValidation[str], Field(description="A CIDR block of the VPC's, e.g. 10.90.1.0/24.")]


@tools.tool(
    "Create an EKS cluster",
    *USED,
    idempotent=False,
    aliases={"clusterTag": "tag", "vpcCidr": "vpc_cidr"},
)
async def cluster_create_eks(
    who: Who,
    tag: NewTag = None,
    region: Region = None,
    vpc_cidr: Annotated[
        SkipValidation[str | None], Field(description="Block of a new VPC, /16 to /20; absent: a free one is chosen.")
    ] = None,
    vpc_id: Annotated[SkipValidation[str | None], Field(description="Reuse this VPC instead of making one.")] = None,
    kubernetes_version: KubernetesVersion = None,
    plan: PlanId = None,
) -> Started:
    """Create network, roles and EKS control plane only, in 15 to 20 minutes.

    Use it for a creation stage by stage; then follow cluster_configure_dependencies and hyperpod_create. For a whole
    cluster use cluster_create. cluster_get_eks_creation_status decides completion; the answer names the tag.
    """
    network = given(vpc_cidr=vpc_cidr, vpc_id=vpc_id)
    return await _create(who, tag, region, kubernetes_version, network, plan, {"/network": ""})


def _prefix(block: Any) -> dict[str, Any]:
    """A compute subnet's size from a block: where it lies is chosen when nodes come."""
    size = str(block).rpartition("/")[2]
    return {"compute_subnet_prefix": int(size) if size.isdecimal() else block} if block else {}


@tools.tool(
    "Create an EKS cluster with CIDR blocks",
    *USED,
    idempotent=False,
    aliases={
        "clusterTag": "tag",
        "vpcCidr": "vpc_cidr",
        "publicSubnet1Cidr": "public_subnet_1_cidr",
        "publicSubnet2Cidr": "public_subnet_2_cidr",
        "eksPrivateSubnet1Cidr": "control_plane_subnet_1_cidr",
        "eksPrivateSubnet2Cidr": "control_plane_subnet_2_cidr",
        "hyperPodPrivateSubnetCidr": _prefix,
    },
    toolset=Toolset.NETWORK,
)
async def cluster_create_eks_with_cidr(
    who: Who,
    vpc_cidr: Annotated[SkipValidation[str], Field(description="Block of the new VPC, /16 to /20.")],
    public_subnet_1_cidr: Block,
    public_subnet_2_cidr: Block,
    control_plane_subnet_1_cidr: Block,
    control_plane_subnet_2_cidr: Block,
    tag: NewTag = None,
    region: Region = None,
    compute_subnet_prefix: Annotated[
        SkipValidation[int | None], Field(description="Size of a subnet for nodes, 16 to 24; absent: 20.")
    ] = None,
    service_cidr: Annotated[
        SkipValidation[str | None], Field(description="Addresses of Kubernetes Services; absent: a free block.")
    ] = None,
    kubernetes_version: KubernetesVersion = None,
    plan: PlanId = None,
) -> Started:
    """Create network, roles and EKS control plane with address blocks that the user has chosen.

    Use it only where a network plan prescribes the blocks; else cluster_create_eks chooses free ones.
    cluster_get_eks_creation_status decides completion.
    """
    network = given(
        vpc_cidr=vpc_cidr,
        public_subnet_cidrs=[public_subnet_1_cidr, public_subnet_2_cidr],
        control_plane_subnet_cidrs=[control_plane_subnet_1_cidr, control_plane_subnet_2_cidr],
        compute_subnet_prefix=compute_subnet_prefix,
        service_cidr=service_cidr,
    )
    places = {
        "/network/public_subnet_cidrs/0": "/public_subnet_1_cidr",
        "/network/public_subnet_cidrs/1": "/public_subnet_2_cidr",
        "/network/control_plane_subnet_cidrs/0": "/control_plane_subnet_1_cidr",
        "/network/control_plane_subnet_cidrs/1": "/control_plane_subnet_2_cidr",
        "/network": "",
    }
    return await _create(who, tag, region, kubernetes_version, network, plan, places)


async def _create(
    who: Asker,
    tag: str | None,
    region: str | None,
    version: str | None,
    network: dict[str, Any],
    plan: str | None,
    places: dict[str, str],
) -> Started:
    body = given(kubernetes_version=version, network=network or None)

    async def start(chosen: str) -> Operation:
        return await who.operation(
            endpoints.CREATE_CONTROL_PLANE,
            body,
            tag=chosen,
            region=region,
            plan=plan,
            places={**places, "/tag": "/tag"},
        )

    return started(await start_named(who, tag, catalogue.CREATE_CONTROL_PLANE, start), STATUS_TOOL)


@tools.tool("Status of an EKS creation", endpoints.GET_OPERATION, aliases={"clusterTag": "cluster"})
async def cluster_get_eks_creation_status(who: Who, cluster: ClusterTag = None) -> Followed:
    """How the creation of a cluster's EKS control plane stands: the operation that makes it, alone or as part of the
    whole cluster. Decides completion of cluster_create_eks: done when it has ended with phase succeeded.

    To follow it with fewer calls, use operation_wait with the operation that this answers.
    """
    return await newest(who, await who.cluster(cluster), catalogue.CREATE_CONTROL_PLANE, catalogue.CREATE_CLUSTER)
