"""Where a cluster's nodes are, and what of Lustre their security groups let through.

https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any

from activities.aws import AwsClients, pages
from activities.eks import describe as describe_eks
from activities.errors import fail, is_absent
from activities.hyperpod.cluster import describe as describe_hyperpod
from activities.network.lookup import vpc_blocks
from contracts.fsx_storage import LUSTRE_PORTS, FileSystemPlace, NewFileSystem
from contracts.problem import ProblemCode

ALL_TRAFFIC = "-1"


@dataclass(frozen=True)
class Spot:
    """A subnet that nodes are in, or may be."""

    subnet_id: str
    zone: str
    nodes: int
    block: IPv4Network


@dataclass(frozen=True)
class Site:
    """The network of a cluster as its EKS and HyperPod clusters have it."""

    vpc_id: str
    security_group_id: str
    """HyperPod nodes' own; the EKS cluster's where there are none."""
    client_group_ids: list[str] = field(default_factory=list)
    """What other nodes have."""
    spots: list[Spot] = field(default_factory=list)
    """Those with most nodes first."""

    @property
    def zones(self) -> list[str]:
        """Zones that nodes are in; where there are none, those that they may come to."""
        used = [spot.zone for spot in self.spots if spot.nodes]
        return list(dict.fromkeys(used or [spot.zone for spot in self.spots]))

    @property
    def blocks(self) -> list[IPv4Network]:
        """Addresses that nodes have, or may get."""
        return [spot.block for spot in self.spots if spot.nodes] or [spot.block for spot in self.spots]

    def place(self, wanted: NewFileSystem) -> FileSystemPlace | None:
        """Where a file system goes that names no subnet; None where there is none in its zone."""
        zone = wanted.availability_zone
        spot = next((each for each in self.spots if zone in (None, each.zone)), None)
        if spot is None:
            return None
        return FileSystemPlace(
            vpc_id=self.vpc_id,
            subnet_id=spot.subnet_id,
            zone=spot.zone,
            security_group_id=self.security_group_id,
            client_group_ids=self.client_group_ids,
        )


def look(aws: AwsClients, region: str, eks_cluster: str, hyperpod_cluster: str | None) -> Site:
    """Raises NOT_FOUND where there is no such EKS cluster."""
    eks = describe_eks(aws, region, eks_cluster)
    if eks is None:
        remedy = "Create the control plane first (create-control-plane)."
        fail(ProblemCode.NOT_FOUND, f"There is no EKS cluster {eks_cluster} in {region}", remedy)
    network: Any = eks["resourcesVpcConfig"]
    nodes: Counter[str] = Counter()
    groups: list[str] = []
    hyperpod = describe_hyperpod(aws, region, hyperpod_cluster) if hyperpod_cluster else None
    for each in (hyperpod or {}).get("InstanceGroups", []):
        vpc = each.get("OverrideVpcConfig") or (hyperpod or {}).get("VpcConfig") or {}
        _spread(nodes, vpc.get("Subnets", []), max(each.get("CurrentCount", 0), each.get("TargetCount", 0)))
        groups += vpc.get("SecurityGroupIds", [])
    others = _node_groups(aws, region, eks_cluster)
    for each in others:
        _spread(nodes, each.get("subnets", []), each.get("scalingConfig", {}).get("desiredSize", 0))
    cluster_group = network.get("clusterSecurityGroupId")
    every = [*groups, *([cluster_group] if others or not groups else [])]
    named = [each for each in dict.fromkeys(every) if each]
    _spread(nodes, network.get("subnetIds", []), 0)
    return Site(
        vpc_id=network["vpcId"],
        security_group_id=named[0],
        client_group_ids=named[1:],
        spots=_spots(aws, region, nodes),
    )


def subnet(aws: AwsClients, region: str, subnet_id: str) -> Any | None:
    """A subnet as EC2 describes it; None where there is none."""
    try:
        return aws.read.ec2(region).describe_subnets(SubnetIds=[subnet_id])["Subnets"][0]
    except Exception as error:
        if is_absent(error, "InvalidSubnetID.NotFound", "InvalidSubnetId.Malformed"):
            return None
        raise


def blocks_of(aws: AwsClients, region: str, vpc_id: str) -> list[IPv4Network]:
    return vpc_blocks(aws.read.ec2(region).describe_vpcs(VpcIds=[vpc_id])["Vpcs"][0])


def security_groups(aws: AwsClients, region: str, ids: Iterable[str]) -> list[Any]:
    wanted: Any = [{"Name": "group-id", "Values": list(dict.fromkeys(ids))}]
    return list(pages(aws.read.ec2(region), "describe_security_groups", "SecurityGroups", Filters=wanted))


def missing_ports(rules: Iterable[Any], group_ids: Iterable[str], blocks: Iterable[IPv4Network]) -> list[Any]:
    """Which of Lustre's ranges of ports ``rules`` close to somebody: to members of every group that is not among those
    with one of ``blocks``, an address of which is enough."""
    rules, wanted = list(rules), list(group_ids)
    return [ports for ports in LUSTRE_PORTS if not _open(rules, ports, wanted, list(blocks))]


def _open(rules: list[Any], ports: tuple[int, int], group_ids: list[str], blocks: list[IPv4Network]) -> bool:
    let_in: set[str] = set()
    for rule in rules:
        if rule.get("IpProtocol") not in (ALL_TRAFFIC, "tcp", "6"):
            continue
        if rule.get("IpProtocol") != ALL_TRAFFIC and not (
            rule.get("FromPort", 0) <= ports[0] and ports[1] <= rule.get("ToPort", 65535)
        ):
            continue
        let_in |= {pair.get("GroupId", "") for pair in rule.get("UserIdGroupPairs", ())}
        ranges = [IPv4Network(each["CidrIp"], strict=False) for each in rule.get("IpRanges", ())]
        if blocks and all(any(block.subnet_of(each) for each in ranges) for block in blocks):
            return True
    return bool(group_ids) and let_in >= set(group_ids)


def _spread(nodes: Counter[str], subnets: list[str], count: int) -> None:
    for position, subnet_id in enumerate(subnets):
        nodes[subnet_id] += count // len(subnets) + (1 if position < count % len(subnets) else 0)


def _node_groups(aws: AwsClients, region: str, cluster: str) -> list[Any]:
    eks = aws.read.eks(region)
    return [
        eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
        for name in pages(eks, "list_nodegroups", "nodegroups", clusterName=cluster)
    ]


def _spots(aws: AwsClients, region: str, nodes: Counter[str]) -> list[Spot]:
    wanted: Any = [{"Name": "subnet-id", "Values": list(nodes)}]
    described = pages(aws.read.ec2(region), "describe_subnets", "Subnets", Filters=wanted) if nodes else ()
    found = {each["SubnetId"]: each for each in described}
    spots = [
        Spot(name, found[name]["AvailabilityZone"], count, IPv4Network(found[name]["CidrBlock"]))
        for name, count in nodes.items()
        if name in found
    ]
    return sorted(spots, key=lambda spot: -spot.nodes)
