"""Which blocks and Availability Zones a network is built from."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from temporalio import activity

from activities.aws import AwsClients, owned_filters, pages, tag_map
from activities.errors import fail, is_absent
from activities.network.lookup import EKS_REFUSES_ZONES, blocks_of, find_vpc, get_vpc, subnets_of, vpc_blocks
from contracts.names import TAG_RESOURCE, ClusterNames
from contracts.network import (
    PLAN_NETWORK,
    NetworkPlan,
    PlanNetwork,
    choose_service_cidr,
    choose_vpc_cidr,
    parse_cidr,
    plan_subnets,
)
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import AvailabilityZoneTypeDef, SubnetTypeDef, VpcTypeDef

PUBLIC = ("public-1", "public-2")
CONTROL_PLANE = ("control-plane-1", "control-plane-2")


class PlanActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=PLAN_NETWORK.name)
    def plan(self, request: PlanNetwork) -> NetworkPlan:
        """Choose blocks that overlap nothing, and two zones; what exists already for the cluster is kept.

        Reads every VPC of the region, with secondary blocks. Raises INVALID when nothing fits or a given block
        overlaps, NOT_FOUND when the VPC to reuse does not exist.
        """
        ec2, spec = self._aws.read.ec2(request.region), request.spec
        vpcs: list[VpcTypeDef] = list(pages(ec2, "describe_vpcs", "Vpcs"))
        vpc = self._existing(request, vpcs)
        others = [block for each in vpcs for block in vpc_blocks(each) if vpc is None or each["VpcId"] != vpc["VpcId"]]
        service = self._service(request.cluster, request.region) or spec.service_cidr
        try:
            if vpc is not None:
                blocks = vpc_blocks(vpc)
            elif spec.vpc_cidr:
                blocks = [parse_cidr(spec.vpc_cidr)]
            else:
                blocks = [choose_vpc_cidr(others, parse_cidr(service) if service else None)]
            service = service or str(choose_service_cidr([*others, *blocks]))
            subnets = subnets_of(ec2, vpc["VpcId"]) if vpc is not None else []
            ours = _by_role(subnets, request.cluster)
            if len(ours) == len(PUBLIC) + len(CONTROL_PLANE):
                public, control = _given(spec.public_subnet_cidrs), _given(spec.control_plane_subnet_cidrs)
                public = public or blocks_of(ours[role] for role in PUBLIC)
                control = control or blocks_of(ours[role] for role in CONTROL_PLANE)
            else:
                public, control = self._subnets(request, blocks, subnets, ours)
        except ValueError as error:
            fail(
                ProblemCode.INVALID,
                str(error),
                "Give blocks that are free (network.vpc_cidr, network.service_cidr), or another VPC.",
                field="/network",
            )
        return NetworkPlan(
            vpc_cidr=str(blocks[0]),
            service_cidr=service,
            zones=self._zones(request.region, ours),
            public_subnet_cidrs=[str(block) for block in public],
            control_plane_subnet_cidrs=[str(block) for block in control],
        )

    def _existing(self, request: PlanNetwork, vpcs: list[VpcTypeDef]) -> VpcTypeDef | None:
        """The VPC to reuse, else the one that an earlier operation made for the cluster."""
        ec2, spec = self._aws.read.ec2(request.region), request.spec
        if spec.vpc_id:
            try:
                return next((vpc for vpc in vpcs if vpc["VpcId"] == spec.vpc_id), None) or get_vpc(ec2, spec.vpc_id)
            except Exception as error:
                if is_absent(error, "InvalidVpcID.NotFound"):
                    fail(
                        ProblemCode.NOT_FOUND,
                        f"There is no VPC {spec.vpc_id} in {request.region}",
                        "Give the ID of a VPC of this region, or leave it out.",
                        field="/network/vpc_id",
                    )
                raise
        vpc = find_vpc(ec2, request.cluster)
        if vpc is not None and spec.vpc_cidr and parse_cidr(spec.vpc_cidr) != IPv4Network(vpc["CidrBlock"]):
            fail(
                ProblemCode.CONFLICT,
                f"The cluster's VPC {vpc['VpcId']} exists with {vpc['CidrBlock']}, not {spec.vpc_cidr}",
                "Ask for the block that it has, or delete the VPC first.",
                field="/network/vpc_cidr",
            )
        return vpc

    def _service(self, cluster: str, region: str) -> str | None:
        """The service block of the cluster's control plane, which cannot change any more."""
        name = ClusterNames(cluster).eks_cluster
        try:
            found = self._aws.read.eks(region).describe_cluster(name=name)["cluster"]
        except Exception as error:
            if is_absent(error, "ResourceNotFoundException"):
                return None
            raise
        return found.get("kubernetesNetworkConfig", {}).get("serviceIpv4Cidr")

    def _subnets(
        self,
        request: PlanNetwork,
        blocks: list[IPv4Network],
        subnets: list[SubnetTypeDef],
        ours: dict[str, SubnetTypeDef],
    ) -> tuple[list[IPv4Network], list[IPv4Network]]:
        """Two public and two control plane blocks; a role that has its subnet already keeps its block."""
        # As if ours were not there yet, so that the blocks come out as they did the first time.
        taken = blocks_of(subnet for subnet in subnets if subnet not in ours.values())
        public, control = plan_subnets(
            blocks,
            taken,
            request.spec.compute_subnet_prefix,
            _given(request.spec.public_subnet_cidrs),
            _given(request.spec.control_plane_subnet_cidrs),
        )
        for roles, chosen in ((PUBLIC, public), (CONTROL_PLANE, control)):
            for position, role in enumerate(roles):
                if role in ours:
                    chosen[position] = IPv4Network(ours[role]["CidrBlock"])
        return public, control

    def _zones(self, region: str, ours: dict[str, SubnetTypeDef]) -> list[str]:
        """Two zones, in order: those of subnets that exist, then the first that EKS accepts."""
        zones = [
            zone["ZoneName"] for zone in usable_zones(self._aws, region) if zone["ZoneId"] not in EKS_REFUSES_ZONES
        ]
        chosen: list[str] = []
        for position in range(2):
            made = ours.get(PUBLIC[position]) or ours.get(CONTROL_PLANE[position])
            free = [zone for zone in zones if zone not in chosen]
            kept = {subnet["AvailabilityZone"] for subnet in ours.values()}
            chosen.append(made["AvailabilityZone"] if made else next((z for z in free if z not in kept), ""))
        if "" in chosen:
            fail(
                ProblemCode.UNSUPPORTED,
                f"{region} offers fewer than two Availability Zones that EKS can use: {', '.join(zones) or 'none'}",
                "Choose another region.",
            )
        return chosen


def usable_zones(aws: AwsClients, region: str) -> list[AvailabilityZoneTypeDef]:
    """The region's own zones that are available: no Local or Wavelength Zones, sorted by name."""
    found = aws.read.ec2(region).describe_availability_zones(
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}, {"Name": "state", "Values": ["available"]}]
    )
    zones = [
        zone for zone in found["AvailabilityZones"] if zone.get("ZoneType", "availability-zone") == "availability-zone"
    ]
    return sorted((zone for zone in zones if zone.get("State") == "available"), key=lambda zone: zone["ZoneName"])


def _given(blocks: list[str] | None) -> list[IPv4Network] | None:
    return [parse_cidr(block) for block in blocks] if blocks else None


def _by_role(subnets: list[SubnetTypeDef], cluster: str) -> dict[str, SubnetTypeDef]:
    wanted = {condition["Name"]: condition["Values"] for condition in owned_filters(cluster, [*PUBLIC, *CONTROL_PLANE])}
    result: dict[str, SubnetTypeDef] = {}
    for subnet in subnets:
        tags = tag_map(subnet.get("Tags"))
        if all(tags.get(name.removeprefix("tag:")) in values for name, values in wanted.items()):
            result[tags[TAG_RESOURCE]] = subnet
    return result
