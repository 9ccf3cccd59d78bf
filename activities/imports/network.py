"""The network that a cluster lives in, as it is."""

from __future__ import annotations

from typing import Any

from activities.aws import AwsClients, filters, is_ours, pages, tag_map
from activities.hyperpod.groups import Specification
from activities.network.lookup import default_target, get_vpc, main_table, route_tables_of, subnets_of, table_of
from activities.network.vpc import as_subnet
from contracts.imports import Gap
from contracts.names import TAG_RESOURCE
from contracts.network import NatGateway, Network, Scope

EVERYTHING = "-1"
"""All protocols, in a security group's rule."""


def detect_network(
    aws: AwsClients, scope: Scope, eks: Any, hyperpod: Specification | None
) -> tuple[Network, list[Gap]]:
    """The VPC with what nodes need of it, and what is missing there."""
    ec2, place = aws.read.ec2(scope.region), eks["resourcesVpcConfig"]
    vpc_id = place["vpcId"]
    vpc, subnets = get_vpc(ec2, vpc_id), {subnet["SubnetId"]: subnet for subnet in subnets_of(ec2, vpc_id)}
    tables = route_tables_of(ec2, vpc_id)
    control_plane = [each for each in place.get("subnetIds", []) if each in subnets]
    compute = _compute_subnets(scope, hyperpod, subnets)
    attached = filters(attachment__vpc_id=vpc_id)
    gateways = list(pages(ec2, "describe_internet_gateways", "InternetGateways", Filters=attached))
    nats = list(pages(ec2, "describe_nat_gateways", "NatGateways", Filter=filters(vpc_id=vpc_id, state="available")))
    s3 = filters(vpc_id=vpc_id, service_name=f"com.amazonaws.{scope.region}.s3")
    endpoints = list(pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=s3))
    groups = _security_groups(hyperpod) or place.get("securityGroupIds") or [place.get("clusterSecurityGroupId", "")]
    network = Network(
        vpc_id=vpc_id,
        vpc_cidrs=[each["CidrBlock"] for each in vpc.get("CidrBlockAssociationSet", [])] or [vpc["CidrBlock"]],
        owned=is_ours(tag_map(vpc.get("Tags")), scope.cluster),
        service_cidr=eks.get("kubernetesNetworkConfig", {}).get("serviceIpv4Cidr", ""),
        zones=sorted({subnets[each]["AvailabilityZone"] for each in (*control_plane, *compute)}),
        public_subnet_ids=sorted(
            each
            for each in subnets
            if (default_target(table_of(tables, each) or main_table(tables) or {}) or "").startswith("igw-")
        ),
        control_plane_subnet_ids=control_plane,
        internet_gateway_id=gateways[0]["InternetGatewayId"] if gateways else None,
        security_group_id=groups[0],
        s3_endpoint_id=endpoints[0]["VpcEndpointId"] if endpoints else None,
        nat_gateways=[
            NatGateway(
                nat_gateway_id=nat["NatGatewayId"],
                allocation_id=next((a.get("AllocationId", "") for a in nat.get("NatGatewayAddresses", [])), ""),
                subnet_id=nat["SubnetId"],
                zone=subnets[nat["SubnetId"]]["AvailabilityZone"] if nat["SubnetId"] in subnets else "",
                changed=False,
            )
            for nat in nats
        ],
        compute_subnets=[as_subnet(subnets[each], changed=False) for each in compute],
    )
    gaps = [*_route_gaps(network, tables), *_group_gaps(aws, scope, _security_groups(hyperpod))]
    return network, gaps


def _security_groups(hyperpod: Specification | None) -> list[str]:
    if hyperpod is None:
        return []
    own = list(hyperpod.get("VpcConfig", {}).get("SecurityGroupIds", []))
    for group in hyperpod.get("InstanceGroups", []):
        own += group.get("OverrideVpcConfig", {}).get("SecurityGroupIds", [])
    return list(dict.fromkeys(own))


def _compute_subnets(scope: Scope, hyperpod: Specification | None, subnets: dict[str, Any]) -> list[str]:
    """Where the groups' nodes are, and the compute subnets that carry our tag."""
    used = list((hyperpod or {}).get("VpcConfig", {}).get("Subnets", []))
    for group in (hyperpod or {}).get("InstanceGroups", []):
        used += group.get("OverrideVpcConfig", {}).get("Subnets", [])
    for subnet_id, subnet in subnets.items():
        tags = tag_map(subnet.get("Tags"))
        if is_ours(tags, scope.cluster) and tags.get(TAG_RESOURCE, "").startswith("compute-"):
            used.append(subnet_id)
    return [each for each in dict.fromkeys(used) if each in subnets]


def _route_gaps(network: Network, tables: list[Any]) -> list[Gap]:
    gaps = []
    for subnet in network.compute_subnets:
        table = table_of(tables, subnet.subnet_id) or main_table(tables)
        target = default_target(table) if table else None
        if not (target or "").startswith(("nat-", "tgw-", "eni-")):
            gaps.append(
                Gap(
                    what="egress",
                    detail=f"{subnet.subnet_id} has no route for 0.0.0.0/0 to a NAT gateway, but {target or 'none'}",
                    remedy="Nodes there cannot reach AWS; give the subnet's route table such a route.",
                )
            )
    if not network.s3_endpoint_id:
        detail = f"{network.vpc_id} has no gateway endpoint for S3"
        gaps.append(Gap(what="s3 endpoint", detail=detail, remedy="Data goes through NAT, which costs by the GB."))
    if not network.nat_gateways:
        detail = f"{network.vpc_id} has no NAT gateway: new compute subnets cannot be made"
        gaps.append(Gap(what="nat gateway", detail=detail, remedy="Name subnets (subnet_id) for new groups."))
    return gaps


def _group_gaps(aws: AwsClients, scope: Scope, group_ids: list[str]) -> list[Gap]:
    """EFA needs every security group of a node to refer to itself for all traffic, in and out.
    (EC2 User Guide: EFA, security group)"""
    if not group_ids:
        return []
    found = aws.read.ec2(scope.region).describe_security_groups(GroupIds=group_ids)["SecurityGroups"]
    gaps = []
    for group in found:
        for way, rules in (("in", group["IpPermissions"]), ("out", group["IpPermissionsEgress"])):
            if not any(_admits_itself(rule, group["GroupId"], way) for rule in rules):
                gaps.append(
                    Gap(
                        what="security group",
                        detail=f"{group['GroupId']} does not refer to itself for all traffic {way}",
                        remedy="EFA health checks of new nodes will fail; add that rule.",
                    )
                )
    return gaps


def _admits_itself(rule: Any, group_id: str, way: str) -> bool:
    if rule.get("IpProtocol") != EVERYTHING:
        return False
    itself = any(pair.get("GroupId") == group_id for pair in rule.get("UserIdGroupPairs", []))
    # A rule for every address lets EFA's own traffic pass only outwards.
    everywhere = way == "out" and any(each.get("CidrIp") == "0.0.0.0/0" for each in rule.get("IpRanges", []))
    return itself or everywhere
