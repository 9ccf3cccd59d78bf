"""HyperPod: lifecycle, capacity, quotas, batches, events, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from aws_support import Api, Network, code
from botocore.exceptions import ClientError


def status(api: Api, name: str = "hp") -> tuple[str, int, int]:
    cluster = api.client("sagemaker").describe_cluster(ClusterName=name)
    group = cluster["InstanceGroups"][0]
    return cluster["ClusterStatus"], group["CurrentCount"], group["TargetCount"]


def nodes(api: Api, name: str = "hp", **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.client("sagemaker").list_cluster_nodes(ClusterName=name, **options)[
        "ClusterNodeSummaries"
    ]
    return found


def errors(api: Api, name: str = "hp") -> list[dict[str, Any]]:
    sagemaker = api.client("sagemaker")
    events = sagemaker.list_cluster_events(ClusterName=name, MaxResults=100)["Events"]
    return [
        sagemaker.describe_cluster_event(ClusterName=name, EventId=e["EventId"])["EventDetails"]
        for e in events
        if e["EventLevel"] == "Error"
    ]


def test_continuous_cluster_is_in_service_before_its_nodes(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod()
    assert status(api) == ("Creating", 0, 2)
    api.advance(61)
    assert status(api) == ("InService", 0, 2)
    assert [n["InstanceStatus"]["Status"] for n in nodes(api)] == ["Pending", "Pending"]
    api.advance(400)
    assert status(api) == ("InService", 2, 2)
    node = api.client("sagemaker").describe_cluster_node(ClusterName="hp", NodeId=nodes(api)[0]["InstanceId"])[
        "NodeDetails"
    ]
    assert node["InstanceStatus"]["Status"] == "Running"
    assert node["Placement"]["AvailabilityZone"] in ("us-west-2b", "us-west-2c")
    operations = api.client("sagemaker").list_cluster_operations(ClusterName="hp")["ClusterOperationSummaries"]
    assert [o["Status"] for o in operations] == ["Done"]


def test_classic_cluster_is_in_service_when_its_nodes_are(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod(continuous=False)
    api.advance(300)
    assert status(api)[0] == "Creating"
    api.advance(150)
    assert status(api) == ("InService", 2, 2)
    with pytest.raises(ClientError) as error:
        api.client("sagemaker").list_cluster_events(ClusterName="hp")
    assert code(error) == "ValidationException"


def test_one_jump_gives_what_waiting_gives(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod()
    api.advance(3600)
    assert status(api) == ("InService", 2, 2)


def test_nodes_take_addresses_and_give_them_back(api: Api, network: Network, make_hyperpod: Any) -> None:
    def free() -> int:
        subnets = api.client("ec2").describe_subnets(SubnetIds=network.subnets)["Subnets"]
        return sum(s["AvailableIpAddressCount"] for s in subnets)

    make_hyperpod()
    before = free()
    api.advance(1000)
    assert free() == before - 2 * 15
    api.client("sagemaker").delete_cluster(ClusterName="hp")
    api.advance(300)
    assert free() == before
    with pytest.raises(ClientError) as error:
        status(api)
    assert code(error) == "ResourceNotFound"


def test_capacity_shortage_is_told_in_events_and_retried(api: Api, make_hyperpod: Any) -> None:
    api.admin("PUT", "capacity", {"us-west-2b": {"ml.g5.8xlarge": 1}, "us-west-2c": {"ml.g5.8xlarge": 0}})
    make_hyperpod(count=3)
    api.advance(600)
    assert status(api) == ("InService", 1, 3)
    assert len(nodes(api)) == 1
    assert len(nodes(api, IncludeNodeLogicalIds=True)) == 3
    failure = errors(api)[0]["EventDetails"]["EventMetadata"]["InstanceGroupScaling"]
    assert "do not have sufficient capacity" in failure["FailureMessage"]
    api.admin("PUT", "capacity", {})
    api.advance(3600)
    assert status(api) == ("InService", 3, 3)


def test_classic_cluster_without_capacity_fails(api: Api, make_hyperpod: Any) -> None:
    api.admin("PUT", "capacity", {"*": {"ml.g5.8xlarge": 1}})
    make_hyperpod(continuous=False)
    api.advance(3600)
    described = api.client("sagemaker").describe_cluster(ClusterName="hp")
    assert described["ClusterStatus"] == "Failed"
    assert "sufficient capacity" in described["FailureMessage"]
    assert api.admin("GET", "capacity") == {"*": {"ml.g5.8xlarge": 1}}


def test_quota(api: Api, make_hyperpod: Any) -> None:
    api.admin("PUT", "quotas", {"ml.g5.8xlarge": 2})
    with pytest.raises(ClientError) as error:
        make_hyperpod(count=3)
    assert code(error) == "ResourceLimitExceeded"
    assert "'ml.g5.8xlarge for cluster usage' is 2 Instances" in str(error.value)
    make_hyperpod(count=2)


def test_batch_add_is_idempotent_by_token(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod()
    api.advance(500)
    sagemaker = api.client("sagemaker")
    wish = [{"InstanceGroupName": "workers", "IncrementTargetCountBy": 1}]
    first = sagemaker.batch_add_cluster_nodes(ClusterName="hp", ClientToken="t1", NodesToAdd=wish)
    again = sagemaker.batch_add_cluster_nodes(ClusterName="hp", ClientToken="t1", NodesToAdd=wish)
    assert [n["NodeLogicalId"] for n in first["Successful"]] == [n["NodeLogicalId"] for n in again["Successful"]]
    assert status(api) == ("InService", 2, 3)
    wish[0]["IncrementTargetCountBy"] = 2
    with pytest.raises(ClientError) as error:
        sagemaker.batch_add_cluster_nodes(ClusterName="hp", ClientToken="t1", NodesToAdd=wish)
    assert code(error) == "ValidationException"


def test_batch_delete_lowers_the_target(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod()
    api.advance(500)
    sagemaker, one = api.client("sagemaker"), nodes(api)[0]["InstanceId"]
    answer = sagemaker.batch_delete_cluster_nodes(ClusterName="hp", NodeIds=[one, "i-0123456789abcdef0"])
    assert answer["Successful"] == [one]
    assert answer["Failed"][0]["Code"] == "NodeIdNotFound"
    api.advance(60)
    assert status(api) == ("InService", 1, 1)


def test_replace_keeps_the_logical_id(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod(count=1)
    api.advance(500)
    old = nodes(api, IncludeNodeLogicalIds=True)[0]
    api.client("sagemaker").batch_replace_cluster_nodes(ClusterName="hp", NodeIds=[old["InstanceId"]])
    assert nodes(api)[0]["InstanceStatus"]["Status"] == "SystemUpdating"
    api.advance(500)
    new = nodes(api, IncludeNodeLogicalIds=True)[0]
    assert new["NodeLogicalId"] == old["NodeLogicalId"]
    assert new["InstanceId"] != old["InstanceId"]
    assert new["InstanceStatus"]["Status"] == "Running"


def test_sick_node_is_replaced_after_its_deep_health_check(api: Api, make_hyperpod: Any) -> None:
    api.admin("POST", "hyperpod", {"sick": {"workers": 1}})
    make_hyperpod(count=1, OnStartDeepHealthChecks=["InstanceStress"])
    api.advance(500)
    assert nodes(api)[0]["InstanceStatus"]["Status"] == "DeepHealthCheckInProgress"
    with pytest.raises(ClientError) as error:
        api.client("sagemaker").update_cluster(ClusterName="hp", NodeRecovery="None")
    assert code(error) == "ConflictException"
    first = nodes(api)[0]["InstanceId"]
    api.advance(1800)
    assert nodes(api)[0]["InstanceStatus"]["Status"] == "Pending"
    api.advance(3600)
    assert nodes(api)[0]["InstanceStatus"]["Status"] == "Running"
    assert nodes(api)[0]["InstanceId"] != first


def test_broken_node_is_replaced(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod(count=1)
    api.advance(500)
    broken = nodes(api)[0]["InstanceId"]
    api.admin("POST", "hyperpod", {"fail_node": {"cluster": "hp", "node": broken}})
    assert nodes(api)[0]["InstanceStatus"]["Status"] == "Failure"
    api.advance(1000)
    assert nodes(api)[0]["InstanceId"] != broken
    assert status(api) == ("InService", 1, 1)


def test_lifecycle_script_that_is_missing_fails_nodes_until_it_is_there(api: Api, make_hyperpod: Any) -> None:
    api.client("s3").delete_object(Bucket="sagemaker-scripts", Key="lcs/on_create.sh")
    make_hyperpod(count=1)
    api.advance(500)
    assert nodes(api)[0]["InstanceStatus"]["Status"] == "Failure"
    detail = errors(api)[0]["EventDetails"]["EventMetadata"]["Instance"]
    assert detail["FailureMessage"].startswith("Lifecycle scripts did not run successfully")
    assert len(errors(api)) == 2
    api.client("s3").put_object(Bucket="sagemaker-scripts", Key="lcs/on_create.sh", Body=b"#!/bin/bash\n")
    api.advance(2000)
    assert status(api) == ("InService", 1, 1)


def test_efa_needs_a_group_that_is_open_to_itself(api: Api, network: Network, make_hyperpod: Any) -> None:
    closed = api.client("ec2").create_security_group(GroupName="closed", Description="x", VpcId=network.vpc)["GroupId"]
    override = {"SecurityGroupIds": [closed], "Subnets": network.subnets}
    make_hyperpod(count=1, InstanceType="ml.p5.48xlarge", OverrideVpcConfig=override)
    api.advance(400)
    assert (
        "EFA health checks did not run" in errors(api)[0]["EventDetails"]["EventMetadata"]["Instance"]["FailureMessage"]
    )


def test_training_plan_in_another_zone_and_in_the_right_one(api: Api, network: Network, make_hyperpod: Any) -> None:
    plan = {"name": "plan-in-d", "instance_type": "ml.p5.48xlarge", "zone": "us-west-2d", "count": 1}
    arn = api.admin("POST", "training-plans", plan)["arn"]
    make_hyperpod(count=1, InstanceType="ml.p5.48xlarge", TrainingPlanArn=arn)
    api.advance(600)
    failure = errors(api)[0]["EventDetails"]["EventMetadata"]["InstanceGroupScaling"]["FailureMessage"]
    assert "training plan" in failure
    api.client("sagemaker").delete_cluster(ClusterName="hp")
    api.advance(600)
    arn = api.admin("POST", "training-plans", {**plan, "name": "plan-in-b", "zone": "us-west-2b"})["arn"]
    make_hyperpod(count=1, InstanceType="ml.p5.48xlarge", TrainingPlanArn=arn)
    api.advance(600)
    assert status(api) == ("InService", 1, 1)
    described = api.client("sagemaker").describe_training_plan(TrainingPlanName="plan-in-b")
    assert (described["AvailableInstanceCount"], described["InUseInstanceCount"]) == (0, 1)


def test_buying_a_training_plan(api: Api) -> None:
    sagemaker = api.client("sagemaker")
    offers = sagemaker.search_training_plan_offerings(
        InstanceType="ml.p5.48xlarge", InstanceCount=2, DurationHours=48, TargetResources=["hyperpod-cluster"]
    )["TrainingPlanOfferings"]
    assert "us-west-2a" not in {o["ReservedCapacityOfferings"][0]["AvailabilityZone"] for o in offers}
    offer = offers[0]["TrainingPlanOfferingId"]
    sagemaker.create_training_plan(TrainingPlanName="bought", TrainingPlanOfferingId=offer)
    with pytest.raises(ClientError) as error:
        sagemaker.create_training_plan(TrainingPlanName="bought", TrainingPlanOfferingId=offer)
    assert code(error) == "ResourceInUse"
    api.advance(60)
    assert sagemaker.list_training_plans()["TrainingPlanSummaries"][0]["Status"] == "Active"
    api.advance(49 * 3600)
    assert sagemaker.describe_training_plan(TrainingPlanName="bought")["Status"] == "Expired"


def test_an_extended_training_plan_keeps_its_instances_longer(api: Api, make_hyperpod: Any) -> None:
    plan = {"name": "plan", "instance_type": "ml.p5.48xlarge", "zone": "us-west-2b", "count": 1, "end": 3600}
    arn = api.admin("POST", "training-plans", plan)["arn"]
    make_hyperpod(count=1, InstanceType="ml.p5.48xlarge", TrainingPlanArn=arn)
    sagemaker = api.client("sagemaker")
    offers = sagemaker.search_training_plan_offerings(TrainingPlanArn=arn, DurationHours=2)
    (offer,) = offers["TrainingPlanExtensionOfferings"]
    bought = sagemaker.extend_training_plan(TrainingPlanExtensionOfferingId=offer["TrainingPlanExtensionOfferingId"])[
        "TrainingPlanExtensions"
    ]
    assert (bought[0]["StartDate"], bought[0]["EndDate"]) == (offer["StartDate"], offer["EndDate"])
    history = sagemaker.describe_training_plan_extension_history(TrainingPlanArn=arn)["TrainingPlanExtensions"]
    assert [e["Status"] for e in history] == ["Scheduled"]
    api.advance(2 * 3600)
    assert status(api) == ("InService", 1, 1)
    described = sagemaker.describe_training_plan(TrainingPlanName="plan")
    capacity = described["ReservedCapacitySummaries"][0]["ReservedCapacityArn"]
    assert sagemaker.describe_reserved_capacity(ReservedCapacityArn=capacity)["InUseInstanceCount"] == 1
    api.advance(3600 + 60)
    assert sagemaker.describe_training_plan(TrainingPlanName="plan")["Status"] == "Expired"
    assert status(api) == ("InService", 0, 1)
    assert api.client("sagemaker").describe_cluster(ClusterName="hp")["InstanceGroups"][0]["TrainingPlanStatus"] == (
        "Expired"
    )


def test_update_replaces_the_group_and_conflicts_while_creating(api: Api, make_hyperpod: Any) -> None:
    spec, _ = make_hyperpod(KubernetesConfig={"Labels": {"team": "a"}})
    sagemaker = api.client("sagemaker")
    with pytest.raises(ClientError) as error:
        sagemaker.update_cluster(ClusterName="hp", InstanceGroups=[spec])
    assert code(error) == "ConflictException"
    api.advance(500)
    shorter = {k: v for k, v in spec.items() if k != "KubernetesConfig"} | {"InstanceCount": 1}
    sagemaker.update_cluster(ClusterName="hp", InstanceGroups=[shorter])
    api.advance(60)
    assert status(api) == ("InService", 1, 1)
    assert "KubernetesConfig" not in sagemaker.describe_cluster(ClusterName="hp")["InstanceGroups"][0]


def test_refusals(api: Api, make_hyperpod: Any) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": "a_b"}, "regular expression pattern"),
        ({"InstanceType": "ml.nothing"}, "enum value set"),
        ({"ExecutionRole": "arn:aws:iam::123456789012:role/none"}, "cannot assume the execution role"),
        ({"LifeCycleConfig": {"SourceS3Uri": "s3://mine/x", "OnCreate": "a.sh"}}, "must start with s3://sagemaker-"),
        ({"InstanceRequirements": {"InstanceTypes": ["ml.g5.8xlarge"]}}, "Exactly one of InstanceType"),
    ]
    for change, wording in cases:
        with pytest.raises(ClientError) as error:
            make_hyperpod(**change)
        assert code(error) == "ValidationException"
        assert wording in str(error.value)
    make_hyperpod()
    with pytest.raises(ClientError) as error:
        make_hyperpod()
    assert code(error) in ("ResourceInUse", "ValidationException")


def test_fresh_role_cannot_be_assumed_yet(api: Api, make_hyperpod: Any, role: Any) -> None:
    fresh = role("fresh", "sagemaker.amazonaws.com", wait=1)
    with pytest.raises(ClientError) as error:
        make_hyperpod(ExecutionRole=fresh)
    assert "cannot assume the execution role" in str(error.value)
    api.advance(10)
    make_hyperpod(ExecutionRole=fresh)


def test_several_types_in_order_of_priority(api: Api, make_hyperpod: Any) -> None:
    api.admin("PUT", "capacity", {"*": {"ml.g5.8xlarge": 1}})
    make_hyperpod(InstanceType=None, InstanceRequirements={"InstanceTypes": ["ml.g5.8xlarge", "ml.g6.8xlarge"]})
    api.advance(600)
    assert sorted(n["InstanceType"] for n in nodes(api)) == ["ml.g5.8xlarge", "ml.g6.8xlarge"]
    group = api.client("sagemaker").describe_cluster(ClusterName="hp")["InstanceGroups"][0]
    assert group["InstanceRequirements"]["CurrentInstanceTypes"] == ["ml.g5.8xlarge", "ml.g6.8xlarge"]


def test_reclaimed_spot_node_is_replaced(api: Api, make_hyperpod: Any) -> None:
    make_hyperpod(count=1, CapacityRequirements={"Spot": {}})
    api.advance(500)
    node = api.client("sagemaker").describe_cluster_node(ClusterName="hp", NodeId=nodes(api)[0]["InstanceId"])
    assert node["NodeDetails"]["CapacityType"] == "Spot"
    gone = nodes(api)[0]["InstanceId"]
    api.admin("POST", "hyperpod", {"reclaim_node": {"cluster": "hp", "node": gone}})
    api.advance(130)
    assert nodes(api)[0]["InstanceId"] != gone
    assert status(api) == ("InService", 0, 1)
    api.advance(400)
    assert status(api) == ("InService", 1, 1)


def test_deletion_waits_for_a_deleted_execution_role(api: Api, make_hyperpod: Any, role: Any) -> None:
    role_arn = role("passing", "sagemaker.amazonaws.com")
    make_hyperpod(count=1, ExecutionRole=role_arn)
    api.advance(500)
    api.client("iam").delete_role(RoleName="passing")
    api.client("sagemaker").delete_cluster(ClusterName="hp")
    api.advance(3600)
    assert status(api)[0] == "Deleting"
    assert "does not have permission to perform" in nodes(api)[0]["InstanceStatus"]["Message"]
    role("passing", "sagemaker.amazonaws.com")
    api.advance(200)
    assert api.client("sagemaker").list_clusters()["ClusterSummaries"] == []


def test_tags_and_software(api: Api, make_hyperpod: Any) -> None:
    _, response = make_hyperpod(continuous=False)
    sagemaker, arn = api.client("sagemaker"), response["ClusterArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "b"}]
    api.advance(500)
    sagemaker.update_cluster_software(ClusterName=arn)
    assert status(api)[0] == "SystemUpdating"
    api.advance(631)
    assert status(api) == ("InService", 2, 2)
    group = sagemaker.describe_cluster(ClusterName="hp")["InstanceGroups"][0]
    assert group["SoftwareUpdateStatus"] == "Succeeded"
    node = nodes(api)[0]["InstanceId"]
    sagemaker.batch_reboot_cluster_nodes(ClusterName="hp", NodeIds=[node])
    assert {n["InstanceStatus"]["Status"] for n in nodes(api)} == {"Running", "SystemUpdating"}
    api.advance(121)
    assert {n["InstanceStatus"]["Status"] for n in nodes(api)} == {"Running"}


def test_whatever_a_group_says_is_described(api: Api, network: Network, make_hyperpod: Any) -> None:
    said: dict[str, Any] = {
        "MinInstanceCount": 1,
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}],
        "OnStartDeepHealthChecks": ["InstanceStress"],
        "OverrideVpcConfig": network.vpc_config,
        "ScheduledUpdateConfig": {"ScheduleExpression": "cron(0 0 1 * ? *)"},
        "KubernetesConfig": {
            "Labels": {"team": "a"},
            "Taints": [{"Key": "k", "Value": "v", "Effect": "NoSchedule"}],
        },
        "CapacityRequirements": {"Spot": {}},
        "NetworkInterface": {"InterfaceType": "efa"},
        "AutoPatchConfig": {"PatchingStrategy": "WhenIdle"},
        "ThreadsPerCore": 2,
    }
    spec, _ = make_hyperpod(**said)
    group = api.client("sagemaker").describe_cluster(ClusterName="hp")["InstanceGroups"][0]
    renamed = {"InstanceCount": "TargetCount", "MinInstanceCount": "MinCount"}
    reshaped = {"KubernetesConfig", "AutoPatchConfig"}
    for member, value in spec.items():
        found = group[renamed.get(member, member)]
        assert found == value or member in reshaped, member
    assert group["KubernetesConfig"]["DesiredLabels"] == {"team": "a"}
    assert group["KubernetesConfig"]["CurrentLabels"] == {}
    api.advance(600)
    group = api.client("sagemaker").describe_cluster(ClusterName="hp")["InstanceGroups"][0]
    assert group["KubernetesConfig"]["CurrentLabels"] == {"team": "a"}
    assert group["KubernetesConfig"]["CurrentTaints"] == said["KubernetesConfig"]["Taints"]
