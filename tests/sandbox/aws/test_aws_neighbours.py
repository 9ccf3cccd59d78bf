"""Prices, tags, and workspaces of Prometheus and Grafana."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_support import REGION, Api, Network, code
from botocore.exceptions import ClientError

TAG = {"Key": "instantstart:cluster", "Value": "demo"}
GRAFANA: dict[str, Any] = {
    "accountAccessType": "CURRENT_ACCOUNT",
    "authenticationProviders": ["AWS_SSO"],
    "permissionType": "SERVICE_MANAGED",
}


def prices(api: Api, service: str, **attributes: str) -> list[tuple[str, float]]:
    """(unit, USD) of each product that has these attributes."""
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in attributes.items()]
    listed = api.client("pricing", "us-east-1").get_products(ServiceCode=service, Filters=filters)["PriceList"]
    products = [json.loads(text) for text in listed]
    assert {p["version"] for p in products} <= {"sandbox-sample"}, "samples say that they are"
    return [
        (dimension["unit"], float(dimension["pricePerUnit"]["USD"]))
        for product in products
        for term in product["terms"]["OnDemand"].values()
        for dimension in term["priceDimensions"].values()
    ]


def test_prices_are_found_as_in_awss_lists(api: Api) -> None:
    place = {"regionCode": REGION}
    cluster = {**place, "component": "Cluster"}
    (sage,) = prices(api, "AmazonSageMaker", **cluster, instanceType="ml.g5.8xlarge-Cluster")
    assert sage == ("Hrs", 3.0)
    assert prices(api, "AmazonSageMaker", **place, usagetype="USW2-Cluster:ml.g5.8xlarge") == [sage]
    assert prices(api, "AmazonSageMaker", **place, usagetype="USW2-Cluster:VolumeUsage.gp3")[0][0] == "GB-Mo"
    linux = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    assert len(prices(api, "AmazonEC2", **place, **linux, instanceType="m5.xlarge")) == 1
    assert len(prices(api, "AmazonEKS", **place, usagetype="USW2-AmazonEKS-Hours:perCluster")) == 1
    units = [unit for unit, _ in prices(api, "AmazonEC2", **place, productFamily="NAT Gateway")]
    assert sorted(units) == ["GB", "Hrs"]
    assert [u for u, _ in prices(api, "AmazonEC2", **place, volumeApiName="gp3")] == ["GB-Mo"]
    assert prices(api, "AmazonFSx", **place, fileSystemType="Lustre", throughputCapacity="250")
    assert "Hrs" in [u for u, _ in prices(api, "AWSELB", **place, productFamily="Load Balancer-Network")]


def test_some_types_and_regions_have_no_price(api: Api) -> None:
    assert prices(api, "AmazonSageMaker", regionCode=REGION, instanceType="ml.p6e-gb200.36xlarge-Cluster") == []
    assert prices(api, "AmazonEKS", regionCode="sa-east-1") == []


def test_the_price_list_api_is_in_few_regions_and_pages(api: Api) -> None:
    with pytest.raises(ClientError):
        api.client("pricing").describe_services()
    pricing = api.client("pricing", "us-east-1")
    codes = {s["ServiceCode"] for s in pricing.describe_services()["Services"]}
    assert {"AmazonSageMaker", "AmazonEC2", "AmazonEKS", "AmazonFSx", "AWSELB"} == codes
    values = pricing.get_attribute_values(ServiceCode="AmazonEKS", AttributeName="regionCode")["AttributeValues"]
    assert {"Value": REGION} in values
    pages = list(pricing.get_paginator("get_products").paginate(ServiceCode="AmazonSageMaker"))
    assert len(pages) > 1
    assert len({text for page in pages for text in page["PriceList"]}) == sum(len(p["PriceList"]) for p in pages)


def test_a_sweep_by_tag_finds_what_the_services_hold(api: Api, network: Network, eks_cluster: str) -> None:
    ec2, eks = api.client("ec2"), api.client("eks")

    def specification(kind: str) -> list[dict[str, Any]]:
        return [{"ResourceType": kind, "Tags": [TAG]}]

    address = ec2.allocate_address(Domain="vpc", TagSpecifications=specification("elastic-ip"))["AllocationId"]
    nat = ec2.create_nat_gateway(
        SubnetId=network.subnets[0], AllocationId=address, TagSpecifications=specification("natgateway")
    )["NatGateway"]["NatGatewayId"]
    endpoint = ec2.create_vpc_endpoint(
        VpcId=network.vpc, ServiceName=f"com.amazonaws.{REGION}.s3", TagSpecifications=specification("vpc-endpoint")
    )["VpcEndpoint"]["VpcEndpointId"]
    volume = ec2.create_volume(
        AvailabilityZone=f"{REGION}b", Size=1, VolumeType="gp3", TagSpecifications=specification("volume")
    )["VolumeId"]
    ec2.create_tags(Resources=[network.vpc, network.group, *network.subnets], Tags=[TAG])
    eks.tag_resource(resourceArn=eks_cluster, tags={TAG["Key"]: TAG["Value"]})
    addon = eks.create_addon(clusterName="demo", addonName="coredns", tags={TAG["Key"]: TAG["Value"]})["addon"]
    bucket = api.client("s3")
    bucket.create_bucket(Bucket="swept", CreateBucketConfiguration={"LocationConstraint": REGION})
    bucket.put_bucket_tagging(Bucket="swept", Tagging={"TagSet": [TAG]})
    workspace = api.client("amp").create_workspace(alias="demo", tags={TAG["Key"]: TAG["Value"]})["arn"]
    balancer = api.client("elbv2").create_load_balancer(Name="lb", Type="network", Subnets=network.subnets, Tags=[TAG])
    balancer_arn = balancer["LoadBalancers"][0]["LoadBalancerArn"]

    tagging = api.client("resourcegroupstaggingapi")
    pages = tagging.get_paginator("get_resources").paginate(
        TagFilters=[{"Key": TAG["Key"], "Values": ["demo"]}], ResourcesPerPage=5
    )
    found = [m["ResourceARN"] for page in pages for m in page["ResourceTagMappingList"]]
    assert len(set(found)) == len(found)
    named = {arn.rsplit("/", 1)[-1].rsplit(":", 1)[-1] for arn in found}
    assert named >= {address, nat, endpoint, volume, network.vpc, network.group, *network.subnets, "swept"}
    assert {eks_cluster, addon["addonArn"], workspace, balancer_arn} <= set(found)
    only = tagging.get_resources(ResourceTypeFilters=["eks:cluster"], TagFilters=[{"Key": TAG["Key"]}])
    assert [m["ResourceARN"] for m in only["ResourceTagMappingList"]] == [eks_cluster]
    elsewhere = api.client("resourcegroupstaggingapi", "us-east-1").get_resources(TagFilters=[{"Key": TAG["Key"]}])
    assert elsewhere["ResourceTagMappingList"] == []
    tagging.untag_resources(ResourceARNList=[eks_cluster, balancer_arn], TagKeys=[TAG["Key"]])
    left = tagging.get_resources(TagFilters=[{"Key": TAG["Key"]}], ResourcesPerPage=100)["ResourceTagMappingList"]
    assert len(left) == len(found) - 2
    for kind, plural in (
        ("NatGateways", "nat_gateways"),
        ("Addresses", "addresses"),
        ("VpcEndpoints", "vpc_endpoints"),
    ):
        key = "Filter" if plural == "nat_gateways" else "Filters"
        matched = getattr(ec2, f"describe_{plural}")(**{key: [{"Name": f"tag:{TAG['Key']}", "Values": ["demo"]}]})
        assert len(matched[kind]) == 1


def test_a_list_of_objects_does_not_go_on_from_a_token_that_nobody_gave(api: Api) -> None:
    s3 = api.client("s3")
    s3.create_bucket(Bucket="listed", CreateBucketConfiguration={"LocationConstraint": REGION})
    for number in range(3):
        s3.put_object(Bucket="listed", Key=f"{number}")
    first = s3.list_objects_v2(Bucket="listed", MaxKeys=2)
    rest = s3.list_objects_v2(Bucket="listed", ContinuationToken=first["NextContinuationToken"])
    assert [each["Key"] for each in first["Contents"] + rest["Contents"]] == ["0", "1", "2"]
    with pytest.raises(ClientError) as caught:
        s3.list_objects_v2(Bucket="listed", ContinuationToken="made up")
    assert code(caught) == "InvalidArgument"


def test_prometheus_workspaces_take_their_time(api: Api) -> None:
    amp = api.client("amp")
    made = amp.create_workspace(alias="demo", clientToken="t", tags={"a": "b"})
    assert made["status"]["statusCode"] == "CREATING"
    assert amp.create_workspace(alias="demo", clientToken="t", tags={"a": "b"})["workspaceId"] == made["workspaceId"]
    with pytest.raises(ClientError) as error:
        amp.create_workspace(alias="other", clientToken="t")
    assert code(error) == "ConflictException"
    api.advance(60)
    described = amp.describe_workspace(workspaceId=made["workspaceId"])["workspace"]
    assert (described["status"]["statusCode"], described["alias"]) == ("ACTIVE", "demo")
    assert made["workspaceId"] in described["prometheusEndpoint"]
    assert [w["tags"] for w in amp.list_workspaces(alias="demo")["workspaces"]] == [{"a": "b"}]
    amp.delete_workspace(workspaceId=made["workspaceId"])
    assert amp.describe_workspace(workspaceId=made["workspaceId"])["workspace"]["status"]["statusCode"] == "DELETING"
    api.advance(60)
    with pytest.raises(ClientError) as error:
        amp.describe_workspace(workspaceId=made["workspaceId"])
    assert code(error) == "ResourceNotFoundException"


def test_grafana_workspaces_take_their_time(api: Api) -> None:
    grafana = api.client("grafana")
    made = grafana.create_workspace(workspaceName="demo", clientToken="t", tags={"a": "b"}, **GRAFANA)["workspace"]
    again = grafana.create_workspace(workspaceName="demo", clientToken="t", tags={"a": "b"}, **GRAFANA)["workspace"]
    assert (made["status"], again["id"]) == ("CREATING", made["id"])
    with pytest.raises(ClientError) as error:
        grafana.delete_workspace(workspaceId=made["id"])
    assert code(error) == "ConflictException"
    api.advance(200)
    described = grafana.describe_workspace(workspaceId=made["id"])["workspace"]
    assert (described["status"], described["permissionType"]) == ("ACTIVE", "SERVICE_MANAGED")
    assert [w["name"] for w in grafana.list_workspaces()["workspaces"]] == ["demo"]
    grafana.delete_workspace(workspaceId=made["id"])
    api.advance(60)
    assert grafana.list_workspaces()["workspaces"] == []


def test_there_are_no_capacity_reservations(api: Api) -> None:
    assert api.client("ec2").describe_capacity_reservations()["CapacityReservations"] == []
