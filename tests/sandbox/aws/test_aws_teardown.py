"""Everything that a cluster from nothing consists of can be deleted, in AWS's order and in no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_support import REGION, Api, Network, code
from botocore.exceptions import ClientError


def refused(wanted: str, call: Callable[..., Any], **params: Any) -> None:
    with pytest.raises(ClientError) as error:
        call(**params)
    assert code(error) == wanted


def test_network_goes_only_in_order(api: Api, network: Network) -> None:
    ec2 = api.client("ec2")
    public = network.subnets[0]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=network.vpc)
    address = ec2.allocate_address(Domain="vpc")
    nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address["AllocationId"])["NatGateway"]["NatGatewayId"]
    table = ec2.create_route_table(VpcId=network.vpc)["RouteTable"]["RouteTableId"]
    association = ec2.associate_route_table(RouteTableId=table, SubnetId=network.subnets[1])["AssociationId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=public)
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    endpoint = ec2.create_vpc_endpoint(
        VpcId=network.vpc,
        VpcEndpointType="Interface",
        ServiceName=f"com.amazonaws.{REGION}.sts",
        SubnetIds=[public],
        SecurityGroupIds=[network.group],
    )["VpcEndpoint"]["VpcEndpointId"]
    api.advance(100)

    refused("AuthFailure", ec2.release_address, AllocationId=address["AllocationId"])
    association_id = ec2.describe_addresses()["Addresses"][0]["AssociationId"]
    refused("AuthFailure", ec2.disassociate_address, AssociationId=association_id)
    refused("DependencyViolation", ec2.detach_internet_gateway, InternetGatewayId=gateway, VpcId=network.vpc)
    refused("DependencyViolation", ec2.delete_internet_gateway, InternetGatewayId=gateway)
    refused("DependencyViolation", ec2.delete_security_group, GroupId=network.group)
    refused("DependencyViolation", ec2.delete_vpc, VpcId=network.vpc)
    interfaces = ec2.describe_network_interfaces(Filters=[{"Name": "vpc-id", "Values": [network.vpc]}])
    named = {i["Description"]: i["NetworkInterfaceId"] for i in interfaces["NetworkInterfaces"]}
    assert f"Interface for NAT Gateway {nat}" in named
    for interface in named.values():
        refused("InvalidParameterValue", ec2.delete_network_interface, NetworkInterfaceId=interface)

    ec2.delete_nat_gateway(NatGatewayId=nat)
    refused("AuthFailure", ec2.release_address, AllocationId=address["AllocationId"])
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    assert ec2.describe_vpc_endpoints(VpcEndpointIds=[endpoint])["VpcEndpoints"][0]["State"] == "deleting"
    refused("DependencyViolation", ec2.delete_subnet, SubnetId=public)
    api.advance(60)
    ec2.release_address(AllocationId=address["AllocationId"])
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=network.vpc)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)
    refused("DependencyViolation", ec2.delete_route_table, RouteTableId=table)
    ec2.disassociate_route_table(AssociationId=association)
    ec2.delete_subnet(SubnetId=public)
    ec2.delete_route_table(RouteTableId=table)
    ec2.delete_subnet(SubnetId=network.subnets[1])
    ec2.delete_security_group(GroupId=network.group)
    (default,) = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [network.vpc]}])["SecurityGroups"]
    refused("CannotDelete", ec2.delete_security_group, GroupId=default["GroupId"])
    (main,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [network.vpc]}])["RouteTables"]
    refused("DependencyViolation", ec2.delete_route_table, RouteTableId=main["RouteTableId"])
    fixed = main["Associations"][0]["RouteTableAssociationId"]
    refused("InvalidParameterValue", ec2.disassociate_route_table, AssociationId=fixed)
    ec2.delete_vpc(VpcId=network.vpc)
    refused("InvalidVpcID.NotFound", ec2.delete_vpc, VpcId=network.vpc)
    assert ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"][0]["State"] == "deleted"


def test_clusters_hold_their_network_until_they_are_gone(
    api: Api, network: Network, make_hyperpod: Callable[..., tuple[dict[str, Any], Any]]
) -> None:
    ec2, eks, sagemaker = api.client("ec2"), api.client("eks"), api.client("sagemaker")
    make_hyperpod()
    api.advance(600)
    described = ec2.describe_network_interfaces(Filters=[{"Name": "vpc-id", "Values": [network.vpc]}])
    assert {i["Description"] for i in described["NetworkInterfaces"]} == {
        "Amazon EKS demo",
        "SageMaker HyperPod hp/workers",
    }
    assert {i["Status"] for i in described["NetworkInterfaces"]} == {"in-use"}
    sagemaker.delete_cluster(ClusterName="hp")
    refused("DependencyViolation", ec2.delete_security_group, GroupId=network.group)
    api.advance(200)
    refused("DependencyViolation", ec2.delete_subnet, SubnetId=network.subnets[0])
    eks.delete_cluster(name="demo")
    refused("DependencyViolation", ec2.delete_subnet, SubnetId=network.subnets[0])
    api.advance(300)
    refused("ResourceNotFoundException", eks.describe_cluster, name="demo")
    for subnet in network.subnets:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_security_group(GroupId=network.group)
    ec2.delete_vpc(VpcId=network.vpc)


def test_roles_providers_and_buckets(api: Api, role: Callable[..., str]) -> None:
    iam, s3 = api.client("iam"), api.client("s3")
    role("nodes", "ec2.amazonaws.com")
    policy = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.attach_role_policy(RoleName="nodes", PolicyArn=policy)
    iam.put_role_policy(RoleName="nodes", PolicyName="own", PolicyDocument=json.dumps(document))
    refused("DeleteConflict", iam.delete_role, RoleName="nodes")
    iam.detach_role_policy(RoleName="nodes", PolicyArn=policy)
    refused("DeleteConflict", iam.delete_role, RoleName="nodes")
    iam.delete_role_policy(RoleName="nodes", PolicyName="own")
    iam.delete_role(RoleName="nodes")
    refused("NoSuchEntity", iam.get_role, RoleName="nodes")

    url = f"https://oidc.eks.{REGION}.amazonaws.com/id/A"
    provider = iam.create_open_id_connect_provider(Url=url, ThumbprintList=["a" * 40])["OpenIDConnectProviderArn"]
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider)
    refused("NoSuchEntity", iam.get_open_id_connect_provider, OpenIDConnectProviderArn=provider)

    s3.create_bucket(Bucket="versions", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="versions", Key="k", Body=b"1")
    s3.delete_object(Bucket="versions", Key="k")
    refused("BucketNotEmpty", s3.delete_bucket, Bucket="versions")
    held = s3.list_object_versions(Bucket="versions")
    for kind in ("Versions", "DeleteMarkers"):
        for version in held[kind]:
            s3.delete_object(Bucket="versions", Key=version["Key"], VersionId=version["VersionId"])
    s3.delete_bucket(Bucket="versions")
    refused("NoSuchBucket", s3.delete_bucket, Bucket="versions")


def test_a_terminated_instance_holds_its_network_no_more(api: Api, network: Network) -> None:
    ec2, subnet = api.client("ec2"), network.subnets[0]
    wanted: Any = {"ImageId": "ami-12345678", "MinCount": 1, "MaxCount": 1, "InstanceType": "t3.micro"}
    instance = ec2.run_instances(**wanted, SubnetId=subnet)["Instances"][0]["InstanceId"]
    refused("DependencyViolation", ec2.delete_subnet, SubnetId=subnet)
    ec2.terminate_instances(InstanceIds=[instance])
    ec2.delete_subnet(SubnetId=subnet)
