"""HyperPod's nodes: added, deleted, rebooted, replaced, checked, listed, and how Kubernetes sees them meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from aws_support import Api, Network, code, kubernetes
from botocore.exceptions import ClientError
from hyperpod_support import HyperPodCluster
from kubernetes import client

from sandbox.kubernetes.dataplane import KubernetesDataPlane


def core(api: Api) -> Any:
    return client.CoreV1Api(kubernetes(api, "demo"))


def test_adding_nodes_fails_in_part(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group("a"), hyperpod.group("b"))
    wishes = [
        {"InstanceGroupName": "a", "IncrementTargetCountBy": 1, "AvailabilityZones": ["us-west-2c"]},
        {"InstanceGroupName": "a", "IncrementTargetCountBy": 1, "AvailabilityZones": ["us-west-2a"]},
        {"InstanceGroupName": "b", "IncrementTargetCountBy": 2, "InstanceTypes": ["ml.g6.8xlarge"]},
        {"InstanceGroupName": "c", "IncrementTargetCountBy": 1},
    ]
    answer = hyperpod.sagemaker.batch_add_cluster_nodes(ClusterName="hp", NodesToAdd=wishes)
    assert [f["ErrorCode"] for f in answer["Failed"]] == [
        "IncompatibleAvailabilityZones",
        "IncompatibleInstanceTypes",
        "InstanceGroupNotFound",
    ]
    (added,) = answer["Successful"]
    assert added["AvailabilityZones"] == ["us-west-2c"]
    hyperpod.api.advance(500)
    assert (hyperpod.counts("a"), hyperpod.counts("b")) == ((3, 3), (2, 2))
    node = hyperpod.sagemaker.describe_cluster_node(ClusterName="hp", NodeLogicalId=added["NodeLogicalId"])
    assert node["NodeDetails"]["Placement"]["AvailabilityZone"] == "us-west-2c"


@pytest.mark.parametrize("counts", [[51], [20, 20, 11], [1, 1, 1, 1, 1, 1]])
def test_adding_too_many_nodes_is_refused(hyperpod: HyperPodCluster, counts: list[int]) -> None:
    hyperpod.create(hyperpod.group())
    wishes = [{"InstanceGroupName": "workers", "IncrementTargetCountBy": n} for n in counts]
    with pytest.raises(ClientError) as error:
        hyperpod.sagemaker.batch_add_cluster_nodes(ClusterName="hp", NodesToAdd=wishes)
    assert code(error) == "ValidationException"
    assert hyperpod.counts() == (2, 2)


def test_a_token_answers_with_the_latest_status_for_eight_hours(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group())
    wish = {
        "ClusterName": "hp",
        "ClientToken": "t",
        "NodesToAdd": [{"InstanceGroupName": "workers", "IncrementTargetCountBy": 1}],
    }
    assert hyperpod.sagemaker.batch_add_cluster_nodes(**wish)["Successful"][0]["Status"] == "Pending"
    hyperpod.api.advance(600)
    assert hyperpod.sagemaker.batch_add_cluster_nodes(**wish)["Successful"][0]["Status"] == "Running"
    assert hyperpod.counts() == (3, 3)
    hyperpod.api.advance(8 * 3600)
    hyperpod.sagemaker.batch_add_cluster_nodes(**wish)
    assert hyperpod.counts() == (3, 4)


def test_nodes_are_deleted_by_instance_and_by_logical_id(hyperpod: HyperPodCluster) -> None:
    hyperpod.api.admin("PUT", "capacity", {"*": {"ml.g5.8xlarge": 2}})
    hyperpod.create(hyperpod.group(count=3))
    one, two, waiting = hyperpod.nodes()
    assert waiting["InstanceId"] == ""
    ids = {"NodeIds": [one["InstanceId"]], "NodeLogicalIds": [waiting["NodeLogicalId"], two["InstanceId"]]}
    answer = hyperpod.sagemaker.batch_delete_cluster_nodes(ClusterName="hp", **ids)
    assert answer["Successful"] == [one["InstanceId"]]
    assert answer["SuccessfulNodeLogicalIds"] == [waiting["NodeLogicalId"]]
    assert answer["FailedNodeLogicalIds"][0]["Code"] == "NodeIdNotFound"
    assert hyperpod.counts() == (1, 1)
    again = hyperpod.sagemaker.batch_delete_cluster_nodes(ClusterName="hp", NodeIds=[one["InstanceId"]])
    assert again["Failed"][0]["Code"] == "InvalidNodeStatus"
    hyperpod.api.advance(60)
    assert [n["InstanceId"] for n in hyperpod.nodes()] == [two["InstanceId"]]
    with pytest.raises(ClientError) as error:
        hyperpod.sagemaker.describe_cluster_node(ClusterName="hp", NodeId=one["InstanceId"])
    assert code(error) == "ResourceNotFound"
    for too_many in (
        {"NodeIds": [f"i-{n:017x}" for n in range(100)]},
        {"NodeIds": [f"i-{n:017x}" for n in range(50)], "NodeLogicalIds": ["workers-1"]},
    ):
        with pytest.raises(ClientError) as error:
            hyperpod.sagemaker.batch_delete_cluster_nodes(ClusterName="hp", **too_many)
        assert code(error) == "ValidationException"


def test_a_rebooted_node_is_not_ready_until_it_has_booted_again(
    behind: KubernetesDataPlane, api: Api, hyperpod: HyperPodCluster
) -> None:
    api.client("eks").create_addon(clusterName="demo", addonName="vpc-cni")
    hyperpod.create(hyperpod.group(count=1, KubernetesConfig={"Labels": {"team": "a"}}), wait=600)
    (node,) = hyperpod.nodes()
    name = f"hyperpod-{node['InstanceId']}"

    def seen() -> tuple[str, str]:
        found = core(api).read_node(name)
        ready = next(c.status for c in found.status.conditions if c.type == "Ready")
        return ready, found.status.node_info.boot_id

    ready, boot = seen()
    assert ready == "True"
    answer = hyperpod.sagemaker.batch_reboot_cluster_nodes(ClusterName="hp", NodeIds=[node["InstanceId"], "i-01234567"])
    assert answer["Successful"] == [node["InstanceId"]]
    assert answer["Failed"][0]["ErrorCode"] == "InstanceIdNotFound"
    api.advance(1)
    assert (seen(), hyperpod.statuses()) == (("Unknown", boot), ["SystemUpdating"])
    again = hyperpod.sagemaker.batch_reboot_cluster_nodes(ClusterName="hp", NodeIds=[node["InstanceId"]])
    assert again["Failed"][0]["ErrorCode"] == "InstanceIdInUse"
    api.advance(150)
    ready, later = seen()
    assert (ready, hyperpod.statuses()) == ("True", ["Running"])
    assert later != boot
    assert hyperpod.nodes()[0]["LaunchTime"] == node["LaunchTime"]


def test_labels_and_taints_reach_kubernetes_a_little_later(
    behind: KubernetesDataPlane, api: Api, hyperpod: HyperPodCluster
) -> None:
    taint = {"Key": "team", "Value": "a", "Effect": "NoSchedule"}
    hyperpod.create(hyperpod.group(count=1, KubernetesConfig={"Labels": {"team": "a"}, "Taints": [taint]}))
    name = f"hyperpod-{hyperpod.nodes()[0]['InstanceId']}"

    def seen() -> tuple[str | None, list[str]]:
        found = core(api).read_node(name)
        return found.metadata.labels.get("team"), [t.key for t in found.spec.taints or [] if t.key == "team"]

    assert seen() == ("a", ["team"])
    hyperpod.update(hyperpod.group(count=1))
    assert seen() == ("a", ["team"])
    api.advance(31)
    assert seen() == (None, [])
    assert "KubernetesConfig" not in hyperpod.described()


def test_a_replaced_node_has_another_instance_and_name(
    behind: KubernetesDataPlane, api: Api, hyperpod: HyperPodCluster
) -> None:
    hyperpod.create(hyperpod.group(count=1))
    (old,) = hyperpod.nodes()
    hyperpod.sagemaker.batch_replace_cluster_nodes(ClusterName="hp", NodeLogicalIds=[old["NodeLogicalId"]])
    assert hyperpod.statuses() == ["SystemUpdating"]
    api.advance(46)
    assert hyperpod.statuses() == ["Pending"]
    api.advance(400)
    (new,) = hyperpod.nodes()
    assert (new["NodeLogicalId"], hyperpod.statuses()) == (old["NodeLogicalId"], ["Running"])
    assert [n.metadata.name for n in core(api).list_node().items] == [f"hyperpod-{new['InstanceId']}"]
    assert hyperpod.counts() == (1, 1)
    with pytest.raises(ClientError) as error:
        hyperpod.sagemaker.batch_replace_cluster_nodes(ClusterName="hp", NodeIds=[f"i-{n:017x}" for n in range(26)])
    assert code(error) == "ValidationException"


def test_a_health_check_is_an_operation_that_ends_with_its_last_node(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(count=3))
    hyperpod.api.admin("POST", "hyperpod", {"sick": {"workers": 1}})
    before = {n["InstanceId"] for n in hyperpod.nodes()}
    wish = {"InstanceGroupName": "workers", "DeepHealthChecks": ["InstanceStress"]}
    some = {**wish, "InstanceIds": [n["InstanceId"] for n in hyperpod.nodes()[:2]]}
    for unknown in ({**wish, "InstanceGroupName": "other"}, {**wish, "InstanceIds": ["i-01234567"]}):
        with pytest.raises(ClientError) as error:
            hyperpod.sagemaker.start_cluster_health_check(ClusterName="hp", DeepHealthCheckConfigurations=[unknown])
        assert code(error) == "ValidationException"
    hyperpod.sagemaker.start_cluster_health_check(ClusterName="hp", DeepHealthCheckConfigurations=[some])
    assert hyperpod.statuses() == ["DeepHealthCheckInProgress"] * 2 + ["Running"]
    assert hyperpod.operations()[0] == ("DeepHealthCheck", "InProgress")
    with pytest.raises(ClientError) as error:
        hyperpod.update(hyperpod.group(count=4))
    assert code(error) == "ConflictException"
    hyperpod.api.advance(1801)
    assert hyperpod.statuses() == ["Pending", "Running", "Running"]
    assert hyperpod.operations()[0] == ("DeepHealthCheck", "Done")
    operation = hyperpod.sagemaker.list_cluster_operations(ClusterName="hp", Type="DeepHealthCheck")
    identifier = operation["ClusterOperationSummaries"][0]["OperationId"]
    detail = hyperpod.sagemaker.describe_cluster_operation(ClusterName="hp", OperationId=identifier)
    assert detail["DeepHealthCheckDetails"] == [some]
    hyperpod.api.advance(500)
    assert hyperpod.statuses() == ["Running"] * 3
    assert len(before & {n["InstanceId"] for n in hyperpod.nodes()}) == 2


def test_nodes_are_listed_in_pages_and_logical_ids_on_request(hyperpod: HyperPodCluster) -> None:
    hyperpod.api.admin("PUT", "capacity", {"*": {"ml.g5.8xlarge": 3}})
    hyperpod.create(hyperpod.group("a"), hyperpod.group("b", count=3))
    plain = hyperpod.sagemaker.list_cluster_nodes(ClusterName="hp", MaxResults=2)
    rest = hyperpod.sagemaker.list_cluster_nodes(ClusterName="hp", MaxResults=2, NextToken=plain["NextToken"])
    found = plain["ClusterNodeSummaries"] + rest["ClusterNodeSummaries"]
    assert (len(plain["ClusterNodeSummaries"]), len(found)) == (2, 3)
    assert all("NodeLogicalId" not in n and n["InstanceId"] for n in found)
    assert len(hyperpod.nodes()) == 5
    assert [n["InstanceGroupName"] for n in hyperpod.nodes("b")] == ["b"] * 3


def test_subnets_and_security_groups_of_nodes_cannot_be_deleted(
    hyperpod: HyperPodCluster, api: Api, network: Network
) -> None:
    ec2 = api.client("ec2")
    subnet = ec2.create_subnet(VpcId=network.vpc, CidrBlock="10.0.128.0/24", AvailabilityZone="us-west-2b")["Subnet"]
    group = ec2.create_security_group(GroupName="override", Description="x", VpcId=network.vpc)["GroupId"]
    override = {"Subnets": [subnet["SubnetId"]], "SecurityGroupIds": [group]}
    hyperpod.create(hyperpod.group(OverrideVpcConfig=override), wait=100)
    for delete in (
        lambda: ec2.delete_subnet(SubnetId=subnet["SubnetId"]),
        lambda: ec2.delete_security_group(GroupId=group),
    ):
        with pytest.raises(ClientError) as error:
            delete()
        assert code(error) == "DependencyViolation"
    described = ec2.describe_subnets(SubnetIds=[subnet["SubnetId"]])["Subnets"][0]
    assert described["AvailableIpAddressCount"] == 251 - 2 * 15
    hyperpod.sagemaker.delete_cluster(ClusterName="hp")
    api.advance(300)
    ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    ec2.delete_security_group(GroupId=group)
