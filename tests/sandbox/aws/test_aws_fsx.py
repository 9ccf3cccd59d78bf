"""File systems of FSx for Lustre: made once, there after a while, held by their interfaces, and refused as AWS does."""

from __future__ import annotations

from typing import Any

import pytest
from aws_support import Api, Network, code
from botocore.exceptions import ClientError

TAG = {"Key": "instantstart:cluster", "Value": "demo"}


def wish(network: Network, **more: Any) -> dict[str, Any]:
    return {
        "ClientRequestToken": "one",
        "FileSystemType": "LUSTRE",
        "StorageCapacity": 1200,
        "SubnetIds": network.subnets[:1],
        "SecurityGroupIds": [network.group],
        "Tags": [TAG],
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
        **more,
    }


def lifecycle(api: Api, name: str) -> str:
    found: str = api.client("fsx").describe_file_systems(FileSystemIds=[name])["FileSystems"][0]["Lifecycle"]
    return found


def test_equal_requests_with_one_token_make_one_file_system(api: Api, network: Network) -> None:
    fsx = api.client("fsx")
    made = fsx.create_file_system(**wish(network))["FileSystem"]
    assert made["Lifecycle"] == "CREATING"
    assert made["DNSName"] == f"{made['FileSystemId']}.fsx.us-west-2.amazonaws.com"
    assert made["LustreConfiguration"]["MountName"]
    assert fsx.create_file_system(**wish(network))["FileSystem"]["FileSystemId"] == made["FileSystemId"]
    with pytest.raises(ClientError) as caught:
        fsx.create_file_system(**wish(network, StorageCapacity=2400))
    assert code(caught) == "IncompatibleParameterError"
    assert len(fsx.describe_file_systems()["FileSystems"]) == 1
    api.advance(601)
    assert lifecycle(api, made["FileSystemId"]) == "AVAILABLE"


def test_a_file_system_holds_its_subnet_until_it_is_gone(api: Api, network: Network) -> None:
    fsx, ec2 = api.client("fsx"), api.client("ec2")
    made = fsx.create_file_system(**wish(network))["FileSystem"]
    name = made["FileSystemId"]
    with pytest.raises(ClientError) as caught:
        fsx.delete_file_system(FileSystemId=name)
    assert code(caught) == "BadRequest"
    api.advance(601)
    (interface,) = ec2.describe_network_interfaces(NetworkInterfaceIds=made["NetworkInterfaceIds"])["NetworkInterfaces"]
    assert (interface["SubnetId"], interface["Status"]) == (network.subnets[0], "in-use")
    with pytest.raises(ClientError) as caught:
        ec2.delete_subnet(SubnetId=network.subnets[0])
    assert code(caught) == "DependencyViolation"
    assert fsx.delete_file_system(FileSystemId=name)["Lifecycle"] == "DELETING"
    assert fsx.delete_file_system(FileSystemId=name)["Lifecycle"] == "DELETING"
    api.advance(181)
    with pytest.raises(ClientError) as caught:
        lifecycle(api, name)
    assert code(caught) == "FileSystemNotFound"
    ec2.delete_subnet(SubnetId=network.subnets[0])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"StorageCapacity": 1300}, "BadRequest"),
        ({"LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 50}},
         "InvalidPerUnitStorageThroughput"),
        ({"LustreConfiguration": {"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": 125}}, "BadRequest"),
        ({"SubnetIds": ["subnet-0123456789abcdef0"]}, "InvalidNetworkSettings"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidNetworkSettings"),
        ({"FileSystemType": "WINDOWS"}, "BadRequest"),
    ],
)  # fmt: skip
def test_what_fsx_would_refuse_is_refused(api: Api, network: Network, changed: dict[str, Any], expected: str) -> None:
    with pytest.raises(ClientError) as caught:
        api.client("fsx").create_file_system(**wish(network, **changed))
    assert code(caught) == expected


def test_a_security_group_that_shuts_lustre_out_is_refused(api: Api, network: Network) -> None:
    closed = api.client("ec2").create_security_group(GroupName="closed", Description="x", VpcId=network.vpc)["GroupId"]
    with pytest.raises(ClientError) as caught:
        api.client("fsx").create_file_system(**wish(network, SecurityGroupIds=[closed]))
    assert "do not permit Lustre LNET network traffic on port 988" in str(caught.value)
    opened = [{"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}]
    api.client("ec2").authorize_security_group_ingress(GroupId=closed, IpPermissions=opened)
    assert api.client("fsx").create_file_system(**wish(network, SecurityGroupIds=[closed]))


def test_the_next_ones_fail_as_told(api: Api, network: Network) -> None:
    api.admin("PUT", "file-systems", {"failing": ["no capacity in the zone"]})
    name = api.client("fsx").create_file_system(**wish(network))["FileSystem"]["FileSystemId"]
    api.advance(601)
    found = api.client("fsx").describe_file_systems(FileSystemIds=[name])["FileSystems"][0]
    assert (found["Lifecycle"], found["FailureDetails"]["Message"]) == ("FAILED", "no capacity in the zone")
    assert api.admin("GET", "file-systems") == {"failing": []}


def test_tags_and_pages(api: Api, network: Network) -> None:
    fsx = api.client("fsx")
    arns = [
        fsx.create_file_system(**wish(network, ClientRequestToken=str(number)))["FileSystem"]["ResourceARN"]
        for number in range(5)
    ]
    pages = list(fsx.get_paginator("describe_file_systems").paginate(PaginationConfig={"PageSize": 2}))
    assert [len(page["FileSystems"]) for page in pages] == [2, 2, 1]
    fsx.tag_resource(ResourceARN=arns[0], Tags=[{"Key": "more", "Value": "1"}])
    fsx.untag_resource(ResourceARN=arns[0], TagKeys=[TAG["Key"]])
    assert fsx.list_tags_for_resource(ResourceARN=arns[0])["Tags"] == [{"Key": "more", "Value": "1"}]
    wanted = [{"Key": TAG["Key"], "Values": [TAG["Value"]]}]
    listed = api.client("resourcegroupstaggingapi").get_resources(TagFilters=wanted)["ResourceTagMappingList"]
    assert sorted(each["ResourceARN"] for each in listed) == sorted(arns[1:])
    api.advance(601)
    grown = fsx.update_file_system(FileSystemId=arns[0].rpartition("/")[2], StorageCapacity=2400)["FileSystem"]
    assert grown["StorageCapacity"] == 2400
