"""EC2, IAM and quotas where the sandbox corrects moto."""

from __future__ import annotations

from typing import Any

import pytest
from aws_support import REGION, Api, Network, code
from botocore.exceptions import ClientError


def test_vpc_and_address_limits(api: Api) -> None:
    ec2 = api.client("ec2")
    for i in range(4):
        ec2.create_vpc(CidrBlock=f"10.{i}.0.0/16")
    with pytest.raises(ClientError) as error:
        ec2.create_vpc(CidrBlock="10.9.0.0/16")
    assert code(error) == "VpcLimitExceeded"
    for _ in range(5):
        ec2.allocate_address(Domain="vpc")
    with pytest.raises(ClientError) as error:
        ec2.allocate_address(Domain="vpc")
    assert code(error) == "AddressLimitExceeded"
    api.admin("PUT", "quotas", {"vpcs": 6})
    ec2.create_vpc(CidrBlock="10.9.0.0/16")


def test_nat_gateway_takes_its_time_and_honours_its_token(api: Api, network: Network) -> None:
    ec2 = api.client("ec2")
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    request = {"SubnetId": network.subnets[0], "AllocationId": address, "ClientToken": "t"}
    nat = ec2.create_nat_gateway(**request)["NatGateway"]
    assert nat["State"] == "pending"
    assert ec2.create_nat_gateway(**request)["NatGateway"]["NatGatewayId"] == nat["NatGatewayId"]
    with pytest.raises(ClientError) as error:
        ec2.create_nat_gateway(**{**request, "SubnetId": network.subnets[1]})
    assert code(error) == "IdempotentParameterMismatch"

    def state() -> str:
        found: str = ec2.describe_nat_gateways(NatGatewayIds=[nat["NatGatewayId"]])["NatGateways"][0]["State"]
        return found

    api.advance(80)
    assert state() == "pending"
    api.advance(20)
    assert state() == "available"
    with pytest.raises(ClientError) as error:
        ec2.delete_subnet(SubnetId=network.subnets[0])
    assert code(error) == "DependencyViolation"
    ec2.delete_nat_gateway(NatGatewayId=nat["NatGatewayId"])
    assert state() == "deleting"
    api.advance(60)
    assert state() == "deleted"
    ec2.release_address(AllocationId=address)
    ec2.delete_subnet(SubnetId=network.subnets[0])


def test_dry_run_has_no_effect(api: Api) -> None:
    ec2 = api.client("ec2")
    with pytest.raises(ClientError) as error:
        ec2.create_vpc(CidrBlock="10.9.0.0/16", DryRun=True)
    assert code(error) == "DryRunOperation"
    assert len(ec2.describe_vpcs()["Vpcs"]) == 1
    assert api.effects("ec2", "CreateVpc") == []


@pytest.mark.parametrize("explicit", [True, False])
def test_vpc_endpoints_can_be_deleted(api: Api, network: Network, explicit: bool) -> None:
    ec2 = api.client("ec2")
    table = ec2.create_route_table(VpcId=network.vpc, ClientToken="rt")["RouteTable"]["RouteTableId"]
    kind = {"VpcEndpointType": "Gateway"} if explicit else {}
    request: dict[str, Any] = {
        "VpcId": network.vpc,
        "ServiceName": f"com.amazonaws.{REGION}.s3",
        "RouteTableIds": [table],
        "ClientToken": "e",
        **kind,
    }
    made = ec2.create_vpc_endpoint(**request)["VpcEndpoint"]["VpcEndpointId"]
    assert ec2.create_vpc_endpoint(**request)["VpcEndpoint"]["VpcEndpointId"] == made
    assert len(ec2.describe_vpc_endpoints()["VpcEndpoints"]) == 1
    answer = ec2.delete_vpc_endpoints(VpcEndpointIds=[made, "vpce-0123456789abcdef0"])
    assert [u["ResourceId"] for u in answer["Unsuccessful"]] == ["vpce-0123456789abcdef0"]
    assert ec2.describe_vpc_endpoints()["VpcEndpoints"] == []


def test_fresh_resources_may_be_invisible_for_a_while(api: Api) -> None:
    api.admin("PUT", "consistency", {"visible_after": 5})
    ec2 = api.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    with pytest.raises(ClientError) as error:
        ec2.describe_vpcs(VpcIds=[vpc])
    assert code(error) == "InvalidVpcID.NotFound"
    ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/24")
    api.advance(6)
    assert ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["VpcId"] == vpc


def test_instance_types_and_where_they_are_offered(api: Api) -> None:
    ec2 = api.client("ec2")
    (p5,) = ec2.describe_instance_types(InstanceTypes=["p5.48xlarge"])["InstanceTypes"]
    assert p5["GpuInfo"]["Gpus"][0]["Count"] == 8
    assert p5["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32
    (trn2,) = ec2.describe_instance_types(InstanceTypes=["trn2.48xlarge"])["InstanceTypes"]
    assert trn2["NeuronInfo"]["NeuronDevices"][0]["Count"] == 16
    filters = [
        {"Name": "network-info.efa-supported", "Values": ["true"]},
        {"Name": "instance-type", "Values": ["p5*"]},
    ]
    efa = ec2.describe_instance_types(Filters=filters)["InstanceTypes"]
    assert {"p5.48xlarge", "p5en.48xlarge"} <= {t["InstanceType"] for t in efa}
    offers = ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["p5.48xlarge"]}]
    )["InstanceTypeOfferings"]
    assert {o["Location"] for o in offers} == {"us-west-2b", "us-west-2c", "us-west-2d"}
    with pytest.raises(ClientError) as error:
        ec2.describe_instance_types(InstanceTypes=["p99.huge"])
    assert code(error) == "InvalidInstanceType"


def test_service_quotas(api: Api) -> None:
    quotas = api.client("service-quotas")
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    found = {q["QuotaName"]: q for page in pages for q in page["Quotas"]}
    quota = found["ml.g5.8xlarge for cluster usage"]
    assert quota["Value"] == 8
    assert found["ml.p6-b200.48xlarge for cluster usage"]["Value"] == 0
    request = {"ServiceCode": "sagemaker", "QuotaCode": quota["QuotaCode"]}
    quotas.request_service_quota_increase(**request, DesiredValue=20)
    with pytest.raises(ClientError) as error:
        quotas.request_service_quota_increase(**request, DesiredValue=20)
    assert code(error) == "ResourceAlreadyExistsException"
    api.advance(700)
    assert quotas.get_service_quota(**request)["Quota"]["Value"] == 20


def test_iam(api: Api, role: Any) -> None:
    iam = api.client("iam")
    role("one", "eks.amazonaws.com")
    with pytest.raises(ClientError) as error:
        role("one", "eks.amazonaws.com")
    assert code(error) == "EntityAlreadyExists"
    policy = "arn:aws:iam::aws:policy/AmazonSageMakerClusterInstanceRolePolicy"
    iam.attach_role_policy(RoleName="one", PolicyArn=policy)
    with pytest.raises(ClientError) as error:
        iam.create_role(RoleName="two", AssumeRolePolicyDocument="{}")
    assert code(error) == "MalformedPolicyDocument"
    made = iam.create_service_linked_role(AWSServiceName="hyperpod.sagemaker.amazonaws.com")["Role"]
    assert made["RoleName"] == "AWSServiceRoleForSageMakerHyperPod"
    with pytest.raises(ClientError) as error:
        iam.create_service_linked_role(AWSServiceName="hyperpod.sagemaker.amazonaws.com")
    assert code(error) == "InvalidInput"
