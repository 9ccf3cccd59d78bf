"""Whether the network can be made: blocks, room, and quotas."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from activities.aws import AwsClients, is_ours, owned_filters, pages, tag_map
from activities.network.lookup import blocks_of, find_vpc, subnets_of, vpc_blocks
from activities.network.plan import CONTROL_PLANE, PUBLIC
from activities.quotas import quota_of
from contracts.cluster import ClusterSpec
from contracts.names import TAG_RESOURCE
from contracts.network import (
    NetworkSpec,
    choose_service_cidr,
    choose_vpc_cidr,
    free_subnet,
    overlap,
    parse_cidr,
    plan_subnets,
)
from contracts.problem import FieldError, ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import VpcTypeDef

VPCS_PER_REGION = ("vpc", "L-F678F1CE")
ADDRESSES_PER_REGION = ("ec2", "L-0263D0A3")
"""Service and quota codes. (Service Quotas: VPCs per Region; EC2-VPC Elastic IPs)"""
NAT_ADDRESSES = ("nat-1-address", "nat-2-address")


def network_errors(aws: AwsClients, region: str, spec: ClusterSpec) -> list[FieldError]:
    network, ec2 = spec.network, aws.read.ec2(region)
    vpcs: list[VpcTypeDef] = list(pages(ec2, "describe_vpcs", "Vpcs"))
    ours = find_vpc(ec2, spec.tag)
    vpc = ours
    if network.vpc_id:
        vpc = next((each for each in vpcs if each["VpcId"] == network.vpc_id), None)
        if vpc is None:
            return [
                FieldError(
                    field="/network/vpc_id",
                    detail=f"There is no VPC {network.vpc_id} in {region}",
                    remedy="Give the ID of a VPC of this region, or leave it out.",
                )
            ]
    others = [block for each in vpcs if vpc is None or each["VpcId"] != vpc["VpcId"] for block in vpc_blocks(each)]
    errors = _blocks(aws, region, spec, vpc, others)
    if network.vpc_id:
        errors += _dns(aws, region, network.vpc_id)
    elif ours is None:
        errors += _vpc_quota(aws, region, len(vpcs))
    return errors + _address_quota(aws, region, spec.tag)


def _blocks(
    aws: AwsClients, region: str, spec: ClusterSpec, vpc: VpcTypeDef | None, others: list[IPv4Network]
) -> list[FieldError]:
    """Overlaps with anything in the region, and room for every subnet that will be made."""
    network, errors = spec.network, list[FieldError]()
    free = "Give a block that overlaps none, or leave it out: the platform chooses one."
    if network.vpc_cidr and vpc is None and (other := overlap(parse_cidr(network.vpc_cidr), others)):
        detail = f"{network.vpc_cidr} overlaps {other}, a block of another VPC of the region"
        errors.append(FieldError(field="/network/vpc_cidr", detail=detail, remedy=free))
    try:
        service = parse_cidr(network.service_cidr) if network.service_cidr else None
        if vpc is not None:
            blocks = vpc_blocks(vpc)
        else:
            blocks = [parse_cidr(network.vpc_cidr) if network.vpc_cidr else choose_vpc_cidr(others, service)]
        if service is None:
            choose_service_cidr([*others, *blocks])
        elif other := overlap(service, [*blocks, *others]):
            detail = f"{service} overlaps {other}, a block of a VPC: Services there could not be told from hosts"
            errors.append(FieldError(field="/network/service_cidr", detail=detail, remedy=free))
    except ValueError as error:
        return [*errors, FieldError(field="/network", detail=str(error), remedy=free)]
    return errors + _room(aws, region, spec, blocks, vpc)


def _room(
    aws: AwsClients, region: str, spec: ClusterSpec, blocks: list[IPv4Network], vpc: VpcTypeDef | None
) -> list[FieldError]:
    network, subnets = spec.network, []
    if vpc is not None:
        subnets = subnets_of(aws.read.ec2(region), vpc["VpcId"])
    roles = {tag_map(s.get("Tags")).get(TAG_RESOURCE) for s in subnets if is_ours(tag_map(s.get("Tags")), spec.tag)}
    taken = blocks_of(subnets)
    if not roles.issuperset({*PUBLIC, *CONTROL_PLANE}):
        errors = _given_subnets(network, blocks, taken)
        if errors:
            return errors
        try:
            public, control = plan_subnets(
                blocks,
                taken,
                network.compute_subnet_prefix,
                [parse_cidr(text) for text in network.public_subnet_cidrs or ()],
                [parse_cidr(text) for text in network.control_plane_subnet_cidrs or ()],
            )
        except ValueError as error:
            remedy = "Use a larger VPC, associate another block with it, or ask for smaller compute subnets."
            return [FieldError(field="/network/compute_subnet_prefix", detail=str(error), remedy=remedy)]
        taken = [*taken, *public, *control]
    zones = {group.availability_zone for group in spec.instance_groups if group.subnet_id is None}
    for zone in (zone for zone in zones if f"compute-{zone}" not in roles):
        block = free_subnet(blocks, taken, network.compute_subnet_prefix)
        if block is None:
            return [
                FieldError(
                    field="/network/compute_subnet_prefix",
                    detail=f"The VPC has no room for a /{network.compute_subnet_prefix} in each of {len(zones)} zones "
                    f"(no place for {zone or 'the last'})",
                    remedy="Ask for smaller compute subnets, fewer zones, or a larger VPC.",
                )
            ]
        taken = [*taken, block]
    return []


def _given_subnets(network: NetworkSpec, blocks: list[IPv4Network], taken: list[IPv4Network]) -> list[FieldError]:
    errors = []
    for name, texts in (
        ("public_subnet_cidrs", network.public_subnet_cidrs),
        ("control_plane_subnet_cidrs", network.control_plane_subnet_cidrs),
    ):
        for position, text in enumerate(texts or ()):
            block, field = parse_cidr(text), f"/network/{name}/{position}"
            if not any(block.subnet_of(each) for each in blocks):
                detail = f"{block} lies outside the VPC ({', '.join(map(str, blocks))})"
                errors.append(FieldError(field=field, detail=detail, remedy="Give a block inside it."))
            elif other := overlap(block, taken):
                detail = f"{block} overlaps subnet {other} of the VPC"
                errors.append(FieldError(field=field, detail=detail, remedy="Give a block that is free."))
    return errors


def _dns(aws: AwsClients, region: str, vpc_id: str) -> list[FieldError]:
    errors = []
    for attribute in ("enableDnsSupport", "enableDnsHostnames"):
        client: Any = aws.read.ec2(region)
        answer = client.describe_vpc_attribute(VpcId=vpc_id, Attribute=attribute)
        if not answer[attribute[0].upper() + attribute[1:]]["Value"]:
            errors.append(
                FieldError(
                    field="/network/vpc_id",
                    detail=f"{attribute} is off in {vpc_id}",
                    remedy=f"Switch it on (ec2:ModifyVpcAttribute {attribute}), or use another VPC.",
                )
            )
    return errors


def _vpc_quota(aws: AwsClients, region: str, held: int) -> list[FieldError]:
    quota = quota_of(aws, region, *VPCS_PER_REGION)
    if quota is None or held < quota:
        return []
    return [
        FieldError(
            field="/network/vpc_id",
            detail=f"{region} has {held} VPCs; the quota 'VPCs per Region' is {quota}",
            remedy="Reuse a VPC (network.vpc_id), delete one, or have the quota raised in Service Quotas.",
            code=ProblemCode.QUOTA,
        )
    ]


def _address_quota(aws: AwsClients, region: str, tag: str) -> list[FieldError]:
    """Two NAT gateways need two Elastic IPs, less those that we hold already."""
    ec2 = aws.read.ec2(region)
    held = len(ec2.describe_addresses()["Addresses"])
    ours = len(ec2.describe_addresses(Filters=owned_filters(tag, NAT_ADDRESSES))["Addresses"])
    needed = max(len(NAT_ADDRESSES) - ours, 0)
    quota = quota_of(aws, region, *ADDRESSES_PER_REGION)
    if not needed or quota is None or held + needed <= quota:
        return []
    return [
        FieldError(
            field="/network",
            detail=f"The NAT gateways need {needed} Elastic IPs; {held} of {quota} are in use in {region}",
            remedy="Release Elastic IPs, or have the quota 'EC2-VPC Elastic IPs' raised in Service Quotas.",
            code=ProblemCode.QUOTA,
        )
    ]
