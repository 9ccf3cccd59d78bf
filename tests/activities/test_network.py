"""The network, against the sandbox: each effect once, whatever happens to the answers."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.network import (
    ENSURE_COMPUTE_SUBNET,
    ENSURE_INTERNET_GATEWAY,
    ENSURE_NAT_GATEWAY,
    ENSURE_S3_ENDPOINT,
    ENSURE_SECURITY_GROUP,
    ENSURE_SUBNET,
    ENSURE_VPC,
    PLAN_NETWORK,
    WAIT_FOR_NAT_GATEWAYS,
    EnsureComputeSubnet,
    EnsureInternetGateway,
    EnsureNatGateway,
    EnsureS3Endpoint,
    EnsureSecurityGroup,
    EnsureSubnet,
    EnsureVpc,
    NetworkPlan,
    NetworkSpec,
    PlanNetwork,
    Scope,
    Vpc,
    WaitForNatGateways,
)
from tests.activities.conftest import REGION, Runner, Sandbox, problem


@pytest.fixture(autouse=True)
def _empty(quiet: Sandbox) -> None:
    """Five VPCs are the quota of a region."""
    quiet.call("POST", "reset")


@pytest.fixture
def plan(run: Runner, scope: Scope) -> NetworkPlan:
    return run(PLAN_NETWORK, PlanNetwork(cluster=scope.cluster, region=REGION, spec=NetworkSpec()))


@pytest.fixture
def vpc(run: Runner, scope: Scope, plan: NetworkPlan) -> Vpc:
    return run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan))


def public(scope: Scope, plan: NetworkPlan, vpc: Vpc, number: int = 1) -> EnsureSubnet:
    return EnsureSubnet(
        scope=scope,
        vpc_id=vpc.vpc_id,
        name=f"{scope.cluster}-public-{number}",
        resource=f"public-{number}",
        cidr=plan.public_subnet_cidrs[number - 1],
        zone=plan.zones[number - 1],
        public=True,
    )


def test_a_lost_answer_makes_no_second_vpc(run: Runner, quiet: Sandbox, scope: Scope, plan: NetworkPlan) -> None:
    quiet.lose_response("CreateVpc", "ec2")
    vpc = run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan))
    assert len(quiet.fired()) == 1
    assert run.attempts == 2
    assert run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan)).changed is False
    assert len(quiet.effects("CreateVpc")) == 1
    assert vpc.cidrs == [plan.vpc_cidr]


def test_what_is_visible_late_is_not_made_twice(run: Runner, quiet: Sandbox, scope: Scope, plan: NetworkPlan) -> None:
    quiet.call("PUT", "consistency", {"visible_after": 30})
    try:
        run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan))
        run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan))
    finally:
        quiet.call("PUT", "consistency", {"visible_after": 0})
    assert len(quiet.effects("CreateVpc")) == 1


def test_denied_is_never_absent(run: Runner, quiet: Sandbox, scope: Scope, plan: NetworkPlan) -> None:
    quiet.deny("DescribeVpcs", "ec2")
    with pytest.raises(ApplicationError) as caught:
        run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan))
    assert (caught.value.type, caught.value.non_retryable) == ("denied", True)
    assert quiet.effects("CreateVpc") == []


def test_a_vpc_with_another_block_is_a_conflict(run: Runner, scope: Scope, plan: NetworkPlan, vpc: Vpc) -> None:
    with pytest.raises(ApplicationError) as caught:
        run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan.model_copy(update={"vpc_cidr": "10.99.0.0/16"})))
    assert problem(caught).code == "conflict"
    assert "10.99.0.0/16" in problem(caught).detail


def test_the_plan_stays_what_was_made(run: Runner, scope: Scope, plan: NetworkPlan, vpc: Vpc) -> None:
    run(ENSURE_SUBNET, public(scope, plan, vpc, 2))
    again = run(PLAN_NETWORK, PlanNetwork(cluster=scope.cluster, region=REGION, spec=NetworkSpec()))
    assert again == plan


def test_the_plan_avoids_secondary_blocks(run: Runner, scope: Scope, activities: Activities) -> None:
    ec2 = activities.aws.act.ec2(REGION)
    other = ec2.create_vpc(CidrBlock="172.30.0.0/24")["Vpc"]["VpcId"]
    ec2.associate_vpc_cidr_block(VpcId=other, CidrBlock="10.90.64.0/20")
    found = run(PLAN_NETWORK, PlanNetwork(cluster=scope.cluster, region=REGION, spec=NetworkSpec()))
    assert found.vpc_cidr == "10.91.0.0/16"


def test_a_reused_vpc_must_resolve_names(run: Runner, scope: Scope, plan: NetworkPlan, activities: Activities) -> None:
    ec2 = activities.aws.act.ec2(REGION)
    theirs = ec2.create_vpc(CidrBlock="10.200.0.0/16")["Vpc"]["VpcId"]
    with pytest.raises(ApplicationError, match="enableDnsHostnames") as caught:
        run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan, vpc_id=theirs))
    assert problem(caught).field == "/network/vpc_id"
    ec2.modify_vpc_attribute(VpcId=theirs, EnableDnsHostnames={"Value": True})
    vpc = run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan, vpc_id=theirs))
    assert (vpc.owned, vpc.changed) == (False, False)
    with pytest.raises(ApplicationError) as caught:
        run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan, vpc_id="vpc-0123456789abcdef0"))
    assert problem(caught).code == "not_found"


def test_the_security_group_lets_efa_through_both_ways(
    run: Runner, quiet: Sandbox, scope: Scope, vpc: Vpc, activities: Activities
) -> None:
    quiet.lose_response("AuthorizeSecurityGroupIngress", "ec2")
    wanted = EnsureSecurityGroup(scope=scope, vpc_id=vpc.vpc_id)
    group_id = run(ENSURE_SECURITY_GROUP, wanted).security_group_id
    assert run(ENSURE_SECURITY_GROUP, wanted).changed is False
    group = activities.aws.read.ec2(REGION).describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        assert any(pair["GroupId"] == group_id for rule in rules for pair in rule["UserIdGroupPairs"])
    assert any(block["CidrIp"] == "0.0.0.0/0" for rule in group["IpPermissionsEgress"] for block in rule["IpRanges"])
    assert len(quiet.effects("CreateSecurityGroup")) == 1


def test_a_foreign_security_group_is_left_alone(run: Runner, scope: Scope, vpc: Vpc, activities: Activities) -> None:
    activities.aws.act.ec2(REGION).create_security_group(
        GroupName=f"instantstart-{scope.cluster}", Description="theirs", VpcId=vpc.vpc_id
    )
    with pytest.raises(ApplicationError) as caught:
        run(ENSURE_SECURITY_GROUP, EnsureSecurityGroup(scope=scope, vpc_id=vpc.vpc_id))
    assert problem(caught).code == "foreign"


@pytest.mark.parametrize("lost", ["AllocateAddress", "CreateNatGateway", None])
def test_a_nat_gateway_takes_one_address(
    run: Runner, quiet: Sandbox, scope: Scope, plan: NetworkPlan, vpc: Vpc, lost: str | None
) -> None:
    subnet = run(ENSURE_SUBNET, public(scope, plan, vpc))
    if lost:
        quiet.lose_response(lost, "ec2")
    wanted = EnsureNatGateway(scope=scope, resource="nat-1", subnet_id=subnet.subnet_id)
    gateway = run(ENSURE_NAT_GATEWAY, wanted)
    again = run(ENSURE_NAT_GATEWAY, wanted)
    assert (again.nat_gateway_id, again.changed) == (gateway.nat_gateway_id, False)
    assert len(quiet.effects("AllocateAddress")) == len(quiet.effects("CreateNatGateway")) == 1
    waited = WaitForNatGateways(scope=scope, nat_gateway_ids=[gateway.nat_gateway_id])
    assert run(WAIT_FOR_NAT_GATEWAYS, waited).states == {gateway.nat_gateway_id: "available"}


def test_a_half_made_compute_subnet_is_completed(
    run: Runner, quiet: Sandbox, scope: Scope, plan: NetworkPlan, vpc: Vpc, activities: Activities
) -> None:
    subnet = run(ENSURE_SUBNET, public(scope, plan, vpc))
    gateway = run(
        ENSURE_INTERNET_GATEWAY,
        EnsureInternetGateway(scope=scope, vpc_id=vpc.vpc_id, public_subnet_ids=[subnet.subnet_id]),
    )
    endpoint = run(
        ENSURE_S3_ENDPOINT, EnsureS3Endpoint(scope=scope, vpc_id=vpc.vpc_id, route_table_ids=[gateway.route_table_id])
    )
    nat = run(ENSURE_NAT_GATEWAY, EnsureNatGateway(scope=scope, resource="nat-1", subnet_id=subnet.subnet_id))
    wanted = EnsureComputeSubnet(
        scope=scope,
        vpc_id=vpc.vpc_id,
        zone=plan.zones[1],
        addresses=100,
        nat_gateways=[nat],
        s3_endpoint_id=endpoint.vpc_endpoint_id,
    )
    for operation in ("CreateSubnet", "CreateRouteTable", "AssociateRouteTable", "CreateRoute", "ModifyVpcEndpoint"):
        quiet.fault({"operation": operation, "service": "ec2", "code": "UnauthorizedOperation", "status": 403})
        with pytest.raises(ApplicationError):
            run(ENSURE_COMPUTE_SUBNET, wanted)
    quiet.fault()
    made = run(ENSURE_COMPUTE_SUBNET, wanted)
    assert run(ENSURE_COMPUTE_SUBNET, wanted).changed is False
    assert made.cidr.endswith("/20")
    ec2 = activities.aws.read.ec2(REGION)
    tables = ec2.describe_route_tables(Filters=[{"Name": "association.subnet-id", "Values": [made.subnet_id]}])
    (table,) = tables["RouteTables"]
    assert any(route.get("NatGatewayId") == nat.nat_gateway_id for route in table["Routes"])
    (found,) = ec2.describe_vpc_endpoints(VpcEndpointIds=[endpoint.vpc_endpoint_id])["VpcEndpoints"]
    assert table["RouteTableId"] in found["RouteTableIds"]
    given = run(ENSURE_COMPUTE_SUBNET, wanted.model_copy(update={"subnet_id": made.subnet_id}))
    assert given.subnet_id == made.subnet_id
    unrouted = run(
        ENSURE_SUBNET,
        EnsureSubnet(
            scope=scope,
            vpc_id=vpc.vpc_id,
            name="x",
            resource="control-plane-2",
            cidr=plan.control_plane_subnet_cidrs[1],
            zone=plan.zones[1],
        ),
    )
    with pytest.raises(ApplicationError, match="no route for"):
        run(ENSURE_COMPUTE_SUBNET, wanted.model_copy(update={"subnet_id": unrouted.subnet_id}))


def test_calls_say_for_whom(run: Runner, quiet: Sandbox, scope: Scope, plan: NetworkPlan, vpc: Vpc) -> None:
    (entry,) = quiet.effects("CreateVpc")
    assert f"op/create-cluster/{scope.cluster}" in entry["user_agent"]
    assert "instantstart/" in entry["user_agent"]
