"""The network of a cluster as it is."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from temporalio import activity

from activities.aws import AwsClients, filters, is_ours, pages, tag_map
from activities.drift.looking import looked
from activities.errors import is_absent
from activities.network.lookup import (
    EVERYWHERE,
    default_target,
    main_table,
    route_tables_of,
    subnets_of,
    table_of,
)
from activities.network.vpc import ALL_TRAFFIC
from contracts.drift import DriftKind, Member, Properties, Sight
from contracts.drift_look import LOOK_AT_NETWORK, LookForDrift
from contracts.drift_recorded import AVAILABLE
from contracts.network import Network

LIVING = ("pending", "available")


class NetworkLooks:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=LOOK_AT_NETWORK.name)
    def look_at_network(self, request: LookForDrift) -> Sight:
        """The recorded VPC, its subnets and their ways out, NAT gateways, S3 endpoint and security group."""
        network, scope = request.record.network, request.scope
        if network is None:
            return Sight()
        ec2: Any = self._aws.read.ec2(scope.region)
        return looked(
            (
                ((DriftKind.VPC,), lambda: _vpc(ec2, network)),
                ((DriftKind.SUBNET,), lambda: _subnets(ec2, network)),
                ((DriftKind.NAT_GATEWAY,), lambda: _nat_gateways(ec2, network, scope.cluster)),
                ((DriftKind.S3_ENDPOINT,), lambda: _endpoints(ec2, network)),
                ((DriftKind.SECURITY_GROUP,), lambda: _security_group(ec2, network)),
            )
        )


def _vpc(ec2: Any, network: Network) -> Iterator[Member]:
    try:
        vpc = ec2.describe_vpcs(VpcIds=[network.vpc_id])["Vpcs"][0]
    except Exception as error:
        if not is_absent(error, "InvalidVpcID.NotFound"):
            raise
        return
    cidrs = [each["CidrBlock"] for each in vpc.get("CidrBlockAssociationSet", [])] or [vpc["CidrBlock"]]
    yield Member(kind=DriftKind.VPC, name=network.vpc_id, properties={"cidrs": cidrs})


def _subnets(ec2: Any, network: Network) -> Iterator[Member]:
    tables = route_tables_of(ec2, network.vpc_id)
    for subnet in subnets_of(ec2, network.vpc_id):
        table = table_of(tables, subnet["SubnetId"]) or main_table(tables)
        properties: Properties = {
            "zone": subnet["AvailabilityZone"],
            "leads_to": _way_out(default_target(table) if table else None),
        }
        # Others' subnets in the VPC are not the cluster's; which are, its record says.
        yield Member(kind=DriftKind.SUBNET, name=subnet["SubnetId"], properties=properties, owned=False)


def _way_out(target: str | None) -> str:
    for prefix, words in (("nat-", "NAT gateway"), ("igw-", "internet gateway")):
        if (target or "").startswith(prefix):
            return words
    return target or "nowhere"


def _nat_gateways(ec2: Any, network: Network, cluster: str) -> Iterator[Member]:
    known = {each.nat_gateway_id for each in network.nat_gateways}
    inside = filters(vpc_id=network.vpc_id)
    for each in pages(ec2, "describe_nat_gateways", "NatGateways", Filter=inside):
        if each["State"] not in LIVING:
            continue
        addresses = each.get("NatGatewayAddresses", [])
        made: Properties = {
            "allocation_id": next((one["AllocationId"] for one in addresses if one.get("AllocationId")), ""),
            "subnet_id": each["SubnetId"],
            "zone": "",
        }
        recorded = each["NatGatewayId"] in known
        # One that is coming up is neither available nor gone.
        state: Properties = {"state": AVAILABLE} if each["State"] == AVAILABLE else {}
        yield Member(
            kind=DriftKind.NAT_GATEWAY,
            name=each["NatGatewayId"],
            properties=state if recorded else {**state, **made},
            owned=recorded or is_ours(tag_map(each.get("Tags")), cluster),
        )


def _endpoints(ec2: Any, network: Network) -> Iterator[Member]:
    inside = filters(vpc_id=network.vpc_id)
    for each in pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=inside):
        if str(each.get("State", "available")).lower() in LIVING:
            yield Member(kind=DriftKind.S3_ENDPOINT, name=each["VpcEndpointId"], owned=False)


def _security_group(ec2: Any, network: Network) -> Iterator[Member]:
    group_id = network.security_group_id
    try:
        group = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
    except Exception as error:
        if not is_absent(error, "InvalidGroup.NotFound"):
            raise
        return
    inward, outward = group.get("IpPermissions", []), group.get("IpPermissionsEgress", [])
    within = _admits_members(inward, group_id) and _admits_members(outward, group_id)
    properties: Properties = {
        "traffic_within": "open" if within else "not open",
        "traffic_out": "open" if _admits_all(outward) else "not open",
        "open_to": [*_opened(inward, network)],
    }
    yield Member(kind=DriftKind.SECURITY_GROUP, name=group_id, properties=properties)


def _admits_members(rules: list[Any], group_id: str) -> bool:
    return any(
        rule.get("IpProtocol") == ALL_TRAFFIC
        and any(pair.get("GroupId") == group_id for pair in rule.get("UserIdGroupPairs", ()))
        for rule in rules
    )


def _admits_all(rules: list[Any]) -> bool:
    return any(
        rule.get("IpProtocol") == ALL_TRAFFIC
        and any(block.get("CidrIp") == EVERYWHERE for block in rule.get("IpRanges", ()))
        for rule in rules
    )


def _opened(rules: list[Any], network: Network) -> Iterator[str]:
    """Who else is let in: blocks of addresses outside the VPC, each with the ports."""
    own = [ip_network(each) for each in network.vpc_cidrs]
    for rule in rules:
        blocks = [each["CidrIp"] for each in rule.get("IpRanges", ())]
        blocks += [each["CidrIpv6"] for each in rule.get("Ipv6Ranges", ())]
        for text in blocks:
            block = ip_network(text, strict=False)
            if any(block.version == each.version and block.subnet_of(each) for each in own):  # type: ignore[arg-type]
                continue
            ports = f"{rule.get('FromPort', 'all')}-{rule.get('ToPort', 'all')}"
            protocol = "all traffic" if rule.get("IpProtocol") == ALL_TRAFFIC else f"{rule.get('IpProtocol')} {ports}"
            yield f"{protocol} from {text}"
