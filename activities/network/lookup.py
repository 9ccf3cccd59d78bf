"""Reads of EC2 that several activities need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from activities.aws import filters, is_ours, owned_filters, pages, tag_map
from activities.errors import fail
from contracts.names import TAG_RESOURCE
from contracts.network import Scope
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import RouteTableTypeDef, SubnetTypeDef, VpcTypeDef

EKS_REFUSES_ZONES = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zone IDs in which EKS cannot place its network interfaces (EKS User Guide: VPC and subnet requirements)."""

EVERYWHERE = "0.0.0.0/0"


def vpc_blocks(vpc: VpcTypeDef) -> list[IPv4Network]:
    """Every block of a VPC: its primary one and those associated later."""
    associated = [
        IPv4Network(block["CidrBlock"])
        for block in vpc.get("CidrBlockAssociationSet", ())
        if block.get("CidrBlockState", {}).get("State", "associated") in ("associated", "associating")
    ]
    primary = IPv4Network(vpc["CidrBlock"])
    return [primary, *(block for block in associated if block != primary)]


def only_one(found: Sequence[Any], what: str, key: str) -> Any | None:
    """The one resource that carries our tags; several are a fault that only a person can settle."""
    if len(found) > 1:
        names = ", ".join(str(item[key]) for item in found)
        fail(
            ProblemCode.CONFLICT,
            f"{len(found)} resources carry the tags of this cluster's {what}: {names}",
            "Delete those that are not in use, or remove their instantstart tags, then retry.",
        )
    return found[0] if found else None


def find_vpc(ec2: EC2Client, cluster: str) -> VpcTypeDef | None:
    found = list(pages(ec2, "describe_vpcs", "Vpcs", Filters=owned_filters(cluster, "vpc")))
    return only_one(found, "VPC", "VpcId")


def get_vpc(ec2: EC2Client, vpc_id: str) -> VpcTypeDef:
    """A VPC by its ID. EC2 answers InvalidVpcID.NotFound if there is none."""
    return ec2.describe_vpcs(VpcIds=[vpc_id])["Vpcs"][0]


def find_subnet(ec2: EC2Client, scope: Scope, vpc_id: str, resource: str) -> SubnetTypeDef | None:
    wanted = [*owned_filters(scope.cluster, resource), *filters(vpc_id=vpc_id)]
    return only_one(list(pages(ec2, "describe_subnets", "Subnets", Filters=wanted)), f"subnet {resource}", "SubnetId")


def subnets_of(ec2: EC2Client, vpc_id: str) -> list[SubnetTypeDef]:
    return list(pages(ec2, "describe_subnets", "Subnets", Filters=filters(vpc_id=vpc_id)))


def blocks_of(subnets: Iterable[SubnetTypeDef]) -> list[IPv4Network]:
    return [IPv4Network(subnet["CidrBlock"]) for subnet in subnets]


def route_tables_of(ec2: EC2Client, vpc_id: str) -> list[RouteTableTypeDef]:
    return list(pages(ec2, "describe_route_tables", "RouteTables", Filters=filters(vpc_id=vpc_id)))


def table_of(tables: Iterable[RouteTableTypeDef], subnet_id: str) -> RouteTableTypeDef | None:
    """The route table that a subnet is associated with explicitly; None: it follows the VPC's main table."""
    for table in tables:
        if any(link.get("SubnetId") == subnet_id for link in table.get("Associations", ())):
            return table
    return None


def main_table(tables: Iterable[RouteTableTypeDef]) -> RouteTableTypeDef | None:
    return next((table for table in tables if any(link.get("Main") for link in table.get("Associations", ()))), None)


def default_target(table: RouteTableTypeDef) -> str | None:
    """Where a route table sends traffic for everywhere: the ID of a gateway; None without such a route."""
    for route in table.get("Routes", ()):
        if route.get("DestinationCidrBlock") == EVERYWHERE and route.get("State", "active") == "active":
            return (
                route.get("NatGatewayId")
                or route.get("GatewayId")
                or route.get("TransitGatewayId")
                or route.get("NetworkInterfaceId")
            )
    return None


def has_default_route(table: RouteTableTypeDef) -> bool:
    """Whether there is a route for everywhere, even one whose target is gone (a blackhole)."""
    return any(route.get("DestinationCidrBlock") == EVERYWHERE for route in table.get("Routes", ()))


def has_role(resource: Any, cluster: str, role: str) -> bool:
    """Whether a described resource carries our tags, as what is called ``role`` in the cluster."""
    tags = tag_map(resource.get("Tags"))
    return is_ours(tags, cluster) and tags.get(TAG_RESOURCE) == role


def refuse_foreign(tags: Any, scope: Scope, what: str) -> None:
    """Raise FOREIGN unless a resource that has our name also has our tag."""
    if not is_ours(tag_map(tags), scope.cluster):
        fail(
            ProblemCode.FOREIGN,
            f"{what} exists and does not carry the tag instantstart:cluster={scope.cluster}",
            "Rename or delete it, or choose another tag for the cluster.",
        )
