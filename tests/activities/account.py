"""Everything that there is in an account of the sandbox, to compare one time with another."""

from __future__ import annotations

from typing import Any

import boto3

from activities.aws import pages

REGION = "us-west-2"

EC2 = {
    "describe_vpcs": ("Vpcs", "VpcId"),
    "describe_subnets": ("Subnets", "SubnetId"),
    "describe_route_tables": ("RouteTables", "RouteTableId"),
    "describe_internet_gateways": ("InternetGateways", "InternetGatewayId"),
    "describe_nat_gateways": ("NatGateways", "NatGatewayId"),
    "describe_network_interfaces": ("NetworkInterfaces", "NetworkInterfaceId"),
    "describe_security_groups": ("SecurityGroups", "GroupId"),
    "describe_vpc_endpoints": ("VpcEndpoints", "VpcEndpointId"),
    "describe_volumes": ("Volumes", "VolumeId"),
    "describe_launch_templates": ("LaunchTemplates", "LaunchTemplateId"),
    "describe_instances": ("Reservations", "ReservationId"),
}


def everything(session: boto3.Session) -> dict[str, list[str]]:
    """IDs of all resources of every service that clusters are made of, by kind. Deleted NAT gateways and terminated
    instances, which stay visible for an hour, are left out."""

    def client(service: str) -> Any:
        make: Any = session.client
        return make(service, region_name=REGION)

    ec2, iam, elb = client("ec2"), client("iam"), client("elbv2")
    found: dict[str, list[str]] = {}
    for operation, (member, key) in EC2.items():
        listed = [each for each in pages(ec2, operation, member) if not _ended(each)]
        found[member] = sorted(each[key] for each in listed)
    found["Addresses"] = sorted(each["AllocationId"] for each in ec2.describe_addresses()["Addresses"])
    found["EKS clusters"] = sorted(client("eks").list_clusters()["clusters"])
    listed_clusters = client("sagemaker").list_clusters()["ClusterSummaries"]
    found["HyperPod clusters"] = sorted(each["ClusterName"] for each in listed_clusters)
    found["Roles"] = sorted(
        each["Arn"] for each in pages(iam, "list_roles", "Roles") if "aws-service-role" not in each["Arn"]
    )
    found["Policies"] = sorted(each["Arn"] for each in pages(iam, "list_policies", "Policies", Scope="Local"))
    profiles = pages(iam, "list_instance_profiles", "InstanceProfiles")
    found["Instance profiles"] = sorted(each["Arn"] for each in profiles)
    providers = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    found["Identity providers"] = sorted(each["Arn"] for each in providers)
    found["Buckets"] = sorted(each["Name"] for each in client("s3").list_buckets()["Buckets"])
    balancers = pages(elb, "describe_load_balancers", "LoadBalancers")
    found["Load balancers"] = sorted(each["LoadBalancerName"] for each in balancers)
    found["Workspaces"] = sorted(each["workspaceId"] for each in client("amp").list_workspaces()["workspaces"])
    listed_file_systems = client("fsx").describe_file_systems()["FileSystems"]
    found["File systems"] = sorted(each["FileSystemId"] for each in listed_file_systems)
    return found


def _ended(found: Any) -> bool:
    if found.get("State") == "deleted":
        return True
    instances = found.get("Instances", [])
    return bool(instances) and all(each["State"]["Name"] == "terminated" for each in instances)
