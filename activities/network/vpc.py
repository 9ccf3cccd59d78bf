"""The VPC, its public and control plane subnets, and its security group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from temporalio import activity

from activities.aws import (
    AwsClients,
    filters,
    find_settled,
    pages,
    tag_specifications,
    tags_of,
    until_visible,
)
from activities.errors import code_of, fail, is_absent
from activities.network.lookup import (
    EVERYWHERE,
    find_subnet,
    find_vpc,
    get_vpc,
    only_one,
    refuse_foreign,
    subnets_of,
    vpc_blocks,
)
from activities.settings import Settings
from contracts.names import ClusterNames
from contracts.network import (
    ENSURE_SECURITY_GROUP,
    ENSURE_SUBNET,
    ENSURE_VPC,
    EnsureSecurityGroup,
    EnsureSubnet,
    EnsureVpc,
    Scope,
    SecurityGroup,
    Subnet,
    Vpc,
    overlap,
    parse_cidr,
)
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import IpPermissionOutputTypeDef, SecurityGroupTypeDef, SubnetTypeDef, VpcTypeDef

ALL_TRAFFIC = "-1"


class VpcActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._settle = aws, settings.settle_seconds

    @activity.defn(name=ENSURE_VPC.name)
    def ensure_vpc(self, request: EnsureVpc) -> Vpc:
        """The cluster's VPC, with DNS resolution and host names on.

        Raises NOT_FOUND or INVALID for a VPC to reuse that does not exist or has DNS off, CONFLICT for one of ours with
        another block.
        """
        scope, ec2 = request.scope, self._aws.read.ec2(request.scope.region)
        if request.vpc_id:
            return self._reused(scope, request.vpc_id)
        vpc = find_settled(lambda: find_vpc(ec2, scope.cluster), self._settle)
        changed = vpc is None
        if vpc is None:
            vpc = self._make_vpc(scope, request.plan.vpc_cidr)
        elif vpc["CidrBlock"] != request.plan.vpc_cidr:
            fail(
                ProblemCode.CONFLICT,
                f"The cluster's VPC {vpc['VpcId']} has {vpc['CidrBlock']}, not {request.plan.vpc_cidr}",
                "Ask for the block that it has, or delete the VPC first.",
                field="/network/vpc_cidr",
            )
        for attribute in ("enableDnsSupport", "enableDnsHostnames"):
            changed |= self._switch_on(scope.region, vpc["VpcId"], attribute)
        return Vpc(vpc_id=vpc["VpcId"], cidrs=[str(b) for b in vpc_blocks(vpc)], owned=True, changed=changed)

    def _make_vpc(self, scope: Scope, cidr: str) -> VpcTypeDef:
        tags = tags_of(scope, "vpc", ClusterNames(scope.cluster).network("vpc"))
        made = self._aws.act.ec2(scope.region).create_vpc(
            CidrBlock=cidr, TagSpecifications=tag_specifications("vpc", tags)
        )["Vpc"]
        until_visible(lambda: find_vpc(self._aws.read.ec2(scope.region), scope.cluster), self._settle)
        return made

    def _reused(self, scope: Scope, vpc_id: str) -> Vpc:
        ec2 = self._aws.read.ec2(scope.region)
        try:
            vpc = get_vpc(ec2, vpc_id)
        except Exception as error:
            if is_absent(error, "InvalidVpcID.NotFound"):
                fail(
                    ProblemCode.NOT_FOUND,
                    f"There is no VPC {vpc_id} in {scope.region}",
                    "Give the ID of a VPC of this region, or leave it out.",
                    field="/network/vpc_id",
                )
            raise
        for attribute in ("enableDnsSupport", "enableDnsHostnames"):
            if not self._is_on(scope.region, vpc_id, attribute):
                fail(
                    ProblemCode.INVALID,
                    f"{attribute} is off in {vpc_id}; nodes could not resolve the control plane's private endpoint",
                    f"Switch it on (ec2:ModifyVpcAttribute {attribute}), or let the platform make a VPC.",
                    field="/network/vpc_id",
                )
        return Vpc(vpc_id=vpc_id, cidrs=[str(b) for b in vpc_blocks(vpc)], owned=False, changed=False)

    def _is_on(self, region: str, vpc_id: str, attribute: Any) -> bool:
        answer: Any = self._aws.read.ec2(region).describe_vpc_attribute(VpcId=vpc_id, Attribute=attribute)
        return bool(answer[attribute[0].upper() + attribute[1:]]["Value"])

    def _switch_on(self, region: str, vpc_id: str, attribute: str) -> bool:
        """Whether it had to be switched on. One attribute a call: EC2 takes no more."""
        if self._is_on(region, vpc_id, attribute):
            return False
        switch: dict[str, Any] = {attribute[0].upper() + attribute[1:]: {"Value": True}}
        self._aws.act.ec2(region).modify_vpc_attribute(VpcId=vpc_id, **switch)
        return True

    @activity.defn(name=ENSURE_SUBNET.name)
    def ensure_subnet(self, request: EnsureSubnet) -> Subnet:
        """A subnet of one block in one zone. Raises CONFLICT where one of ours differs, FOREIGN where the block is in
        use by somebody else."""
        scope, ec2 = request.scope, self._aws.read.ec2(request.scope.region)

        def find() -> SubnetTypeDef | None:
            return find_subnet(ec2, scope, request.vpc_id, request.resource)

        found = find_settled(find, self._settle)
        changed = found is None
        if found is None:
            found = self._make_subnet(request)
            until_visible(find, self._settle)
        elif (found["CidrBlock"], found["AvailabilityZone"]) != (request.cidr, request.zone):
            fail(
                ProblemCode.CONFLICT,
                f"Subnet {found['SubnetId']} ({request.resource}) has {found['CidrBlock']} in "
                f"{found['AvailabilityZone']}, not {request.cidr} in {request.zone}",
                "Ask for what it has, or delete the subnet first.",
            )
        if request.public and not found.get("MapPublicIpOnLaunch"):
            act = self._aws.act.ec2(scope.region)
            act.modify_subnet_attribute(SubnetId=found["SubnetId"], MapPublicIpOnLaunch={"Value": True})
            changed = True
        return as_subnet(found, changed)

    def _make_subnet(self, request: EnsureSubnet) -> SubnetTypeDef:
        scope = request.scope
        for other in subnets_of(self._aws.read.ec2(scope.region), request.vpc_id):
            if overlap(parse_cidr(request.cidr), [parse_cidr(other["CidrBlock"])]):
                fail(
                    ProblemCode.FOREIGN,
                    f"{request.cidr} overlaps subnet {other['SubnetId']} ({other['CidrBlock']}) of {request.vpc_id}, "
                    "which is not this cluster's",
                    "Give blocks that are free, or leave them out.",
                )
        # The AWS Load Balancer Controller finds subnets by these tags. (its documentation: subnet auto-discovery)
        role = "kubernetes.io/role/elb" if request.public else "kubernetes.io/role/internal-elb"
        tags = {**tags_of(scope, request.resource, request.name), role: "1"}
        return self._aws.act.ec2(scope.region).create_subnet(
            VpcId=request.vpc_id,
            CidrBlock=request.cidr,
            AvailabilityZone=request.zone,
            TagSpecifications=tag_specifications("subnet", tags),
        )["Subnet"]

    @activity.defn(name=ENSURE_SECURITY_GROUP.name)
    def ensure_security_group(self, request: EnsureSecurityGroup) -> SecurityGroup:
        """The security group of control plane and nodes: everything among its members, in and out, and everything out.

        EFA needs the rule that refers to the group itself in both directions. (EC2 User Guide: get started with EFA)
        """
        scope, name = request.scope, ClusterNames(request.scope.cluster).security_group
        ec2, act = self._aws.read.ec2(scope.region), self._aws.act.ec2(scope.region)

        def find() -> SecurityGroupTypeDef | None:
            wanted = filters(vpc_id=request.vpc_id, group_name=name)
            found = list(pages(ec2, "describe_security_groups", "SecurityGroups", Filters=wanted))
            return only_one(found, "security group", "GroupId")

        group = find()
        changed = group is None
        if group is None:
            made = act.create_security_group(
                GroupName=name,
                Description=f"InstantStart cluster {scope.cluster}: control plane and nodes",
                VpcId=request.vpc_id,
                TagSpecifications=tag_specifications("security-group", tags_of(scope, "security-group", name)),
            )
            group_id = made["GroupId"]
            group = until_visible(find, self._settle)
        else:
            refuse_foreign(group.get("Tags"), scope, f"Security group {name} ({group['GroupId']})")
            group_id = group["GroupId"]
        within: Any = [{"IpProtocol": ALL_TRAFFIC, "UserIdGroupPairs": [{"GroupId": group_id}]}]
        outward: Any = [{"IpProtocol": ALL_TRAFFIC, "IpRanges": [{"CidrIp": EVERYWHERE}]}]
        inbound = group.get("IpPermissions", []) if group else []
        outbound = group.get("IpPermissionsEgress", []) if group else []
        if not _admits(inbound, group_id=group_id):
            changed |= _once(lambda: act.authorize_security_group_ingress(GroupId=group_id, IpPermissions=within))
        if not _admits(outbound, group_id=group_id):
            changed |= _once(lambda: act.authorize_security_group_egress(GroupId=group_id, IpPermissions=within))
        if not _admits(outbound, cidr=EVERYWHERE):
            changed |= _once(lambda: act.authorize_security_group_egress(GroupId=group_id, IpPermissions=outward))
        return SecurityGroup(security_group_id=group_id, changed=changed)


def as_subnet(found: SubnetTypeDef, changed: bool) -> Subnet:
    return Subnet(
        subnet_id=found["SubnetId"],
        cidr=found["CidrBlock"],
        zone=found["AvailabilityZone"],
        zone_id=found.get("AvailabilityZoneId", ""),
        changed=changed,
    )


def _admits(rules: list[IpPermissionOutputTypeDef], group_id: str = "", cidr: str = "") -> bool:
    """Whether one of the rules admits all traffic of a group's members, or of a block."""
    return any(
        any(pair.get("GroupId") == group_id for pair in rule.get("UserIdGroupPairs", ()))
        if group_id
        else any(block.get("CidrIp") == cidr for block in rule.get("IpRanges", ()))
        for rule in rules
        if rule.get("IpProtocol") == ALL_TRAFFIC
    )


def _once(authorize: Any) -> bool:
    """Whether a rule had to be added; one that is there already is what was asked."""
    try:
        authorize()
    except Exception as error:
        if code_of(error) == "InvalidPermission.Duplicate":
            return False
        raise
    return True
