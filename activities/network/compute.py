"""Compute subnets: where nodes run."""

from __future__ import annotations

from ipaddress import IPv4Network
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
from contracts.names import TAG_INSTANCE_GROUP, TAG_RESOURCE, ClusterNames
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

        A dedicated one is the group's own: the one that carries the group's name, which an earlier group may have left,
        else a new one.

        Raises INVALID for a given or a dedicated subnet that does not serve, CAPACITY when the VPC has no room for
        another.
        """
        subnets = subnets_of(self._aws.read.ec2(request.scope.region), request.vpc_id)
        found = self._existing(request, subnets)
        if found is not None:
            ours = request.subnet_id is None and is_ours(tag_map(found.get("Tags")), request.scope.cluster)
            return self.completed(request, found, changed=False) if ours else as_subnet(found, changed=False)
        role, tags = self._role(request, subnets)
        return self.completed(request, self._made(request, subnets, role, tags), changed=True)

    def would_use(self, request: EnsureComputeSubnet) -> SubnetTypeDef | None:
        """The subnet that ``ensure_compute_subnet`` would take now; None where it would make one. Changes nothing.

        Raises as that does.
        """
        subnets = subnets_of(self._aws.read.ec2(request.scope.region), request.vpc_id)
        found = self._existing(request, subnets)
        if found is None:
            self._free_block(request, subnets)
        return found

    def _existing(self, request: EnsureComputeSubnet, subnets: list[SubnetTypeDef]) -> SubnetTypeDef | None:
        if request.subnet_id:
            return self._given(request, request.subnet_id, subnets)
        if (settled := self._settled(request, subnets)) is not None:
            return settled
        if request.dedicated and request.group is not None:
            return self._dedicated(request, request.group, subnets)
        shared = self._shared(request, subnets)
        roomy = [s for s in shared if s["AvailableIpAddressCount"] >= request.addresses]
        if roomy:
            return roomy[0]
        tables = route_tables_of(self._aws.read.ec2(request.scope.region), request.vpc_id)
        others = (s for s in subnets if not is_ours(tag_map(s.get("Tags")), request.scope.cluster))
        return next((subnet for subnet in others if self._serves(request, subnet, tables)), None)

    def _dedicated(
        self, request: EnsureComputeSubnet, group: str, subnets: list[SubnetTypeDef]
    ) -> SubnetTypeDef | None:
        own = dedicated_subnet(subnets, request.scope.cluster, group)
        if own is not None and (fault := unfit(own, request.zone, request.addresses)):
            fail(
                ProblemCode.INVALID,
                f"{own['SubnetId']} is the group {group}'s own subnet and does not serve: {fault}",
                DEDICATED_REMEDY,
                field="/subnet_placement",
            )
        return own

    def _shared(self, request: EnsureComputeSubnet, subnets: list[SubnetTypeDef]) -> list[SubnetTypeDef]:
        """Ours in the zone that groups share."""
        return [
            subnet
            for subnet in subnets
            if (tags := tag_map(subnet.get("Tags"))).get(TAG_RESOURCE, "").startswith("compute-")
            and is_ours(tags, request.scope.cluster)
            and TAG_INSTANCE_GROUP not in tags
            and subnet["AvailabilityZone"] == request.zone
        ]

    def _role(self, request: EnsureComputeSubnet, subnets: list[SubnetTypeDef]) -> tuple[str, dict[str, str]]:
        """What a new subnet is in the cluster, and its tags."""
        names, scope = ClusterNames(request.scope.cluster), request.scope
        if request.dedicated and request.group is not None:
            role = f"compute-group-{request.group}"
            tags = tags_of(scope, role, names.group_subnet(request.group))
            return role, {**tags, TAG_INSTANCE_GROUP: request.group}
        # Earlier ones of the zone are too full, so the role counts them.
        earlier = len(self._shared(request, subnets))
        role = f"compute-{request.zone}" + (f"-{earlier + 1}" if earlier else "")
        return role, tags_of(scope, role, names.compute_subnet(request.zone))

    def _given(self, request: EnsureComputeSubnet, subnet_id: str, subnets: list[SubnetTypeDef]) -> SubnetTypeDef:
        subnet = next((each for each in subnets if each["SubnetId"] == subnet_id), None)
        tables = route_tables_of(self._aws.read.ec2(request.scope.region), request.vpc_id)
        if subnet is None:
            reason = f"it is not in {request.vpc_id}"
        elif fault := unfit(subnet, request.zone, request.addresses):
            reason = fault
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
        name = request.hyperpod_cluster or ClusterNames(request.scope.cluster).hyperpod_cluster
        found = describe(self._aws, request.scope.region, name) or {}
        for group in found.get("InstanceGroups", []):
            if group["InstanceGroupName"] == request.group and group.get("CurrentCount", 0):
                places = group.get("OverrideVpcConfig", {}).get("Subnets", [])
                here = (s for s in subnets if s["SubnetId"] in places and s["AvailabilityZone"] == request.zone)
                return next(here, None)
        return None

    def _serves(self, request: EnsureComputeSubnet, subnet: SubnetTypeDef, tables: list[RouteTableTypeDef]) -> bool:
        return (
            subnet["AvailabilityZone"] == request.zone
            and subnet["AvailableIpAddressCount"] >= request.addresses
            and _leads_to_nat(subnet, tables)
        )

    def _made(
        self, request: EnsureComputeSubnet, subnets: list[SubnetTypeDef], role: str, tags: dict[str, str]
    ) -> SubnetTypeDef:
        """A new subnet with this role in the cluster."""
        scope, ec2 = request.scope, self._aws.read.ec2(request.scope.region)

        def find() -> SubnetTypeDef | None:
            for subnet in subnets_of(ec2, request.vpc_id):
                found = tag_map(subnet.get("Tags"))
                if is_ours(found, scope.cluster) and found.get(TAG_RESOURCE) == role:
                    return subnet
            return None

        if (found := find_settled(find, self._settle)) is not None:
            return found
        block = self._free_block(request, subnets)
        tags = {
            **tags,
            "kubernetes.io/role/internal-elb": "1",
            "karpenter.sh/discovery": ClusterNames(scope.cluster).eks_cluster,
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

    def _free_block(self, request: EnsureComputeSubnet, subnets: list[SubnetTypeDef]) -> IPv4Network:
        """Where a new subnet has room, and nodes in it. Raises CAPACITY, INVALID."""
        vpc = get_vpc(self._aws.read.ec2(request.scope.region), request.vpc_id)
        block = free_subnet(vpc_blocks(vpc), blocks_of(subnets), request.prefix)
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
        return block

    def completed(self, request: EnsureComputeSubnet, subnet: SubnetTypeDef, changed: bool) -> Subnet:
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
        if request.s3_endpoint_id is None:
            return as_subnet(subnet, changed)
        try:
            changed |= add_route_tables(self._aws, scope, request.s3_endpoint_id, [table["RouteTableId"]])
        except Exception as error:
            # The endpoint already has the table, though its description did not show it yet.
            if not is_absent(error, "RouteAlreadyExists"):
                raise
        return as_subnet(subnet, changed)


DEDICATED_REMEDY = (
    "Ask for its zone and as many nodes as fit, give the group another name, or let it share a subnet "
    "(subnet_placement shared)."
)


def dedicated_subnet(subnets: list[SubnetTypeDef], cluster: str, group: str) -> SubnetTypeDef | None:
    """The subnet that is the group's own, also while no group of the name is there."""
    return next((subnet for subnet in subnets if group_of_subnet(subnet, cluster) == group), None)


def group_of_subnet(subnet: SubnetTypeDef, cluster: str) -> str | None:
    """The group whose own the subnet is; None for one that is shared, or not the cluster's."""
    tags = tag_map(subnet.get("Tags"))
    return tags.get(TAG_INSTANCE_GROUP) if is_ours(tags, cluster) else None


def unfit(subnet: SubnetTypeDef, zone: str, addresses: int) -> str | None:
    """Why nodes in ``zone`` that need so many addresses cannot go into the subnet; None where they can."""
    if subnet["AvailabilityZone"] != zone:
        return f"it is in {subnet['AvailabilityZone']} ({subnet['AvailabilityZoneId']}), not {zone}"
    if subnet["AvailableIpAddressCount"] < addresses:
        return f"it has {subnet['AvailableIpAddressCount']} free addresses; the nodes need {addresses}"
    return None


def _leads_to_nat(subnet: SubnetTypeDef, tables: list[RouteTableTypeDef]) -> bool:
    table = table_of(tables, subnet["SubnetId"]) or main_table(tables)
    return table is not None and (default_target(table) or "").startswith("nat-")


def _nearest(gateways: list[NatGateway], zone: str) -> NatGateway:
    """The one of the same zone, whose traffic costs nothing extra; else any."""
    if not gateways:
        fail(
            ProblemCode.NOT_FOUND,
            "The cluster's record names no NAT gateway that a new compute subnet could use",
            "Give the group a subnet that has a way out (subnet_id).",
            field="/subnet_id",
        )
    return next((gateway for gateway in gateways if gateway.zone == zone), gateways[0])
