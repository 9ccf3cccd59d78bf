"""Compute subnets: where nodes run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import activity

from activities.aws import (
    AwsClients,
    find_settled,
    is_ours,
    tag_map,
    tag_specifications,
    tags_of,
    token,
    until_visible,
)
from activities.errors import code_of, fail, is_absent
from activities.hyperpod.cluster import describe
from activities.network.gateways import add_route_tables, ensure_default_route
from activities.network.lookup import (
    blocks_of,
    default_target,
    get_vpc,
    has_role,
    main_table,
    route_tables_of,
    subnets_of,
    table_of,
    vpc_blocks,
)
from activities.network.vpc import as_subnet
from activities.settings import Settings
from contracts.names import TAG_RESOURCE, ClusterNames
from contracts.network import ENSURE_COMPUTE_SUBNET, EnsureComputeSubnet, NatGateway, Subnet, free_subnet
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import RouteTableTypeDef, SubnetTypeDef

RESERVED_ADDRESSES = 5
"""AWS keeps five addresses of every subnet. (VPC User Guide: subnet sizing)"""


class ComputeSubnetActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._settle = aws, settings.settle_seconds

    @activity.defn(name=ENSURE_COMPUTE_SUBNET.name)
    def ensure_compute_subnet(self, request: EnsureComputeSubnet) -> Subnet:
        """The given subnet, else the one that the group's nodes are in, else one that fits in the zone, else a new one
        with its own route table to a NAT gateway and the S3 endpoint. A half-made one of ours is completed.

        Raises INVALID for a given subnet that does not serve, CAPACITY when the VPC has no room for another.
        """
        ec2 = self._aws.read.ec2(request.scope.region)
        subnets = subnets_of(ec2, request.vpc_id)
        if request.subnet_id:
            return as_subnet(self._given(request, request.subnet_id, subnets), changed=False)
        ours = [s for s in subnets if self._is_compute(request, s) and s["AvailabilityZone"] == request.zone]
        if (settled := self._settled(request, subnets)) is not None:
            return self._completed(request, settled, changed=False) if settled in ours else as_subnet(settled, False)
        roomy = [s for s in ours if s["AvailableIpAddressCount"] >= request.addresses]
        if roomy:
            return self._completed(request, roomy[0], changed=False)
        tables = route_tables_of(ec2, request.vpc_id)
        for subnet in subnets:
            if (
                subnet not in ours
                and not self._is_other_part(request, subnet)
                and self._serves(request, subnet, tables)
            ):
                return as_subnet(subnet, changed=False)
        return self._completed(request, self._made(request, subnets, len(ours)), changed=True)

    def _given(self, request: EnsureComputeSubnet, subnet_id: str, subnets: list[SubnetTypeDef]) -> SubnetTypeDef:
        subnet = next((each for each in subnets if each["SubnetId"] == subnet_id), None)
        tables = route_tables_of(self._aws.read.ec2(request.scope.region), request.vpc_id)
        if subnet is None:
            reason = f"it is not in {request.vpc_id}"
        elif subnet["AvailabilityZone"] != request.zone:
            reason = f"it is in {subnet['AvailabilityZone']} ({subnet['AvailabilityZoneId']}), not {request.zone}"
        elif subnet["AvailableIpAddressCount"] < request.addresses:
            reason = f"it has {subnet['AvailableIpAddressCount']} free addresses; the nodes need {request.addresses}"
        elif not _leads_to_nat(subnet, tables):
            reason = "its route table has no route for 0.0.0.0/0 to a NAT gateway"
        else:
            return subnet
        fail(
            ProblemCode.INVALID,
            f"Subnet {subnet_id} does not serve: {reason}",
            "Give another subnet, or none: the platform finds or makes one that fits.",
            field="/subnet_id",
        )

    def _settled(self, request: EnsureComputeSubnet, subnets: list[SubnetTypeDef]) -> SubnetTypeDef | None:
        """Where the group's nodes are. They take addresses themselves, so fewer may be left than the group needs."""
        if request.group is None:
            return None
        name = ClusterNames(request.scope.cluster).hyperpod_cluster
        found = describe(self._aws, request.scope.region, name) or {}
        for group in found.get("InstanceGroups", []):
            if group["InstanceGroupName"] == request.group and group.get("CurrentCount", 0):
                places = group.get("OverrideVpcConfig", {}).get("Subnets", [])
                here = (s for s in subnets if s["SubnetId"] in places and s["AvailabilityZone"] == request.zone)
                return next(here, None)
        return None

    def _is_compute(self, request: EnsureComputeSubnet, subnet: SubnetTypeDef) -> bool:
        tags = tag_map(subnet.get("Tags"))
        return is_ours(tags, request.scope.cluster) and tags.get(TAG_RESOURCE, "").startswith("compute-")

    def _is_other_part(self, request: EnsureComputeSubnet, subnet: SubnetTypeDef) -> bool:
        """Whether it is a public or control plane subnet of ours: nodes do not go there."""
        return is_ours(tag_map(subnet.get("Tags")), request.scope.cluster)

    def _serves(self, request: EnsureComputeSubnet, subnet: SubnetTypeDef, tables: list[RouteTableTypeDef]) -> bool:
        return (
            subnet["AvailabilityZone"] == request.zone
            and subnet["AvailableIpAddressCount"] >= request.addresses
            and _leads_to_nat(subnet, tables)
        )

    def _made(self, request: EnsureComputeSubnet, subnets: list[SubnetTypeDef], earlier: int) -> SubnetTypeDef:
        """A new subnet. ``earlier`` ones of the zone are too full, so the role counts them."""
        scope, ec2 = request.scope, self._aws.read.ec2(request.scope.region)
        role = f"compute-{request.zone}" + (f"-{earlier + 1}" if earlier else "")

        def find() -> SubnetTypeDef | None:
            for subnet in subnets_of(ec2, request.vpc_id):
                if self._is_compute(request, subnet) and tag_map(subnet.get("Tags"))[TAG_RESOURCE] == role:
                    return subnet
            return None

        if (found := find_settled(find, self._settle)) is not None:
            return found
        block = free_subnet(vpc_blocks(get_vpc(ec2, request.vpc_id)), blocks_of(subnets), request.prefix)
        if block is None:
            fail(
                ProblemCode.CAPACITY,
                f"No /{request.prefix} is left in {request.vpc_id} for a compute subnet in {request.zone}",
                "Associate another block with the VPC, give a smaller compute_subnet_prefix, or name a subnet.",
                field="/network/compute_subnet_prefix",
            )
        usable = block.num_addresses - RESERVED_ADDRESSES
        if usable < request.addresses:
            fail(
                ProblemCode.INVALID,
                f"A /{request.prefix} has {usable} usable addresses; the nodes need {request.addresses}",
                "Ask for a larger compute subnet (a smaller compute_subnet_prefix), or fewer nodes.",
                field="/network/compute_subnet_prefix",
            )
        names = ClusterNames(scope.cluster)
        tags = {
            **tags_of(scope, role, names.compute_subnet(request.zone)),
            "kubernetes.io/role/internal-elb": "1",
            "karpenter.sh/discovery": names.eks_cluster,
        }
        try:
            made = self._aws.act.ec2(scope.region).create_subnet(
                VpcId=request.vpc_id,
                CidrBlock=str(block),
                AvailabilityZone=request.zone,
                TagSpecifications=tag_specifications("subnet", tags),
            )["Subnet"]
        except Exception as error:
            if code_of(error) == "InvalidSubnet.Conflict":
                remedy = "The platform looks again and takes another block."
                fail(ProblemCode.BUSY, f"Somebody took {block} a moment ago", remedy, retry=True, delay=1)
            raise
        until_visible(find, self._settle)
        return made

    def _completed(self, request: EnsureComputeSubnet, subnet: SubnetTypeDef, changed: bool) -> Subnet:
        """Give one of our compute subnets what it lacks: route table, route, S3 endpoint."""
        scope, ec2 = request.scope, self._aws.read.ec2(request.scope.region)
        tables, subnet_id = route_tables_of(ec2, request.vpc_id), subnet["SubnetId"]
        role = tag_map(subnet.get("Tags")).get(TAG_RESOURCE, f"compute-{request.zone}")
        table = table_of(tables, subnet_id)
        if table is None:
            table = next((t for t in tables if has_role(t, scope.cluster, f"{role}-routes")), None)
            act = self._aws.act.ec2(scope.region)
            if table is None:
                tags = tags_of(scope, f"{role}-routes", f"{ClusterNames(scope.cluster).network(role)}-routes")
                table = act.create_route_table(
                    VpcId=request.vpc_id,
                    TagSpecifications=tag_specifications("route-table", tags),
                    ClientToken=token(f"{role}-routes"),
                )["RouteTable"]
            act.associate_route_table(RouteTableId=table["RouteTableId"], SubnetId=subnet_id)
            changed = True
        if default_target(table) not in {nat.nat_gateway_id for nat in request.nat_gateways}:
            nat = _nearest(request.nat_gateways, request.zone)
            changed |= ensure_default_route(self._aws, scope, table, NatGatewayId=nat.nat_gateway_id)
        try:
            changed |= add_route_tables(self._aws, scope, request.s3_endpoint_id, [table["RouteTableId"]])
        except Exception as error:
            # The endpoint already has the table, though its description did not show it yet.
            if not is_absent(error, "RouteAlreadyExists"):
                raise
        return as_subnet(subnet, changed)


def _leads_to_nat(subnet: SubnetTypeDef, tables: list[RouteTableTypeDef]) -> bool:
    table = table_of(tables, subnet["SubnetId"]) or main_table(tables)
    return table is not None and (default_target(table) or "").startswith("nat-")


def _nearest(gateways: list[NatGateway], zone: str) -> NatGateway:
    """The one of the same zone, whose traffic costs nothing extra; else any."""
    if not gateways:
        fail(ProblemCode.INTERNAL, "No NAT gateway was given for a compute subnet", "Retry the network stages first.")
    return next((gateway for gateway in gateways if gateway.zone == zone), gateways[0])
