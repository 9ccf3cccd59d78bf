"""HyperPod's instance groups: what is said of them is described, and what an update replaces, resets and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_support import Api, code
from botocore.exceptions import ClientError
from botocore.session import get_session
from hyperpod_support import HyperPodCluster

MODEL = get_session().get_service_model("sagemaker")
KARPENTER = {"Mode": "Enable", "AutoScalerType": "Karpenter"}
ROLLING = {
    "RollingUpdatePolicy": {
        "MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1},
        "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENTAGE", "Value": 50},
    },
    "WaitIntervalInSeconds": 60,
    "AutoRollbackConfiguration": [{"AlarmName": "errors"}],
}
TAINTS = [{"Key": "k", "Value": "v", "Effect": "NoSchedule"}]
SAID: dict[str, Any] = {
    "InstanceCount": 2,
    "MinInstanceCount": 1,
    "InstanceType": "ml.g5.8xlarge",
    "InstanceRequirements": {"InstanceTypes": ["ml.g6.8xlarge", "ml.g5.8xlarge"]},
    "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/lcs", "OnInitComplete": "after.sh"},
    "ThreadsPerCore": 2,
    "InstanceStorageConfigs": [
        {"EbsVolumeConfig": {"VolumeSizeInGB": 500}},
        {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": "alias/root"}},
        {
            "FsxLustreConfig": {
                "DnsName": "fs-01234567.fsx.example.com",
                "MountName": "m",
                "MountPath": "/f",
            }
        },
        {"FsxOpenZfsConfig": {"DnsName": "fs-01234568.fsx.example.com", "MountPath": "/z"}},
    ],
    "OnStartDeepHealthChecks": ["InstanceStress", "InstanceConnectivity"],
    "ScheduledUpdateConfig": {"ScheduleExpression": "cron(0 0 1 * ? *)", "DeploymentConfig": ROLLING},
    "ImageId": "ami-0123456789abcdef0",
    "ImageReleaseVersion": "1.0.3",
    "AutoPatchConfig": {
        "PatchingStrategy": "DrainFirst",
        "DeploymentConfig": ROLLING,
        "IdleWaitWindowInSeconds": 3600,
        "DrainPolicy": {"DrainTimeoutInSeconds": 60, "OnDrainTimeout": "Skip"},
    },
    "KubernetesConfig": {"Labels": {"team": "a"}, "Taints": TAINTS},
    "SlurmConfig": {"NodeType": "Compute", "PartitionNames": ["p"]},
    "CapacityRequirements": {"Spot": {}},
    "NetworkInterface": {"InterfaceType": "efa-only"},
}
ELSEWHERE = {"InstanceGroupName", "ExecutionRole", "OverrideVpcConfig", "TrainingPlanArn"}
"""Members whose values are known only when the test runs."""


def expected(member: str, value: Any) -> dict[str, Any]:
    """What DescribeCluster says, before there is a node, of a group that was created with this."""
    if member == "KubernetesConfig":
        wanted = {"DesiredLabels": value["Labels"], "DesiredTaints": value["Taints"]}
        return {"KubernetesConfig": {"CurrentLabels": {}, "CurrentTaints": [], **wanted}}
    if member == "InstanceRequirements":
        types = value["InstanceTypes"]
        return {
            "InstanceRequirements": {"CurrentInstanceTypes": [], "DesiredInstanceTypes": types},
            "InstanceTypeDetails": [{"InstanceType": t, "CurrentCount": 0, "ThreadsPerCore": 1} for t in types],
        }
    if member == "AutoPatchConfig":
        return {"AutoPatchConfig": {**value, "CurrentPatchSchedule": {}, "DesiredPatchSchedule": {}}}
    if member in ("ImageId", "ImageReleaseVersion"):
        return {f"{when}{member}": value for when in ("Current", "Desired")}
    return {{"InstanceCount": "TargetCount", "MinInstanceCount": "MinCount"}.get(member, member): value}


def test_every_member_of_a_group_is_described(hyperpod: HyperPodCluster, api: Api) -> None:
    members = set(MODEL.shape_for("ClusterInstanceGroupSpecification").members)
    assert members == {*SAID, *ELSEWHERE}
    api.admin("PUT", "quotas", {"ml.g5.8xlarge": 100})
    plan = {"name": "plan", "instance_type": "ml.p5.48xlarge", "zone": "us-west-2b", "count": 2}
    said = {
        **SAID,
        "ExecutionRole": hyperpod.execution_role,
        "OverrideVpcConfig": {**hyperpod.network.vpc_config, "Subnets": hyperpod.network.subnets[:1]},
        "TrainingPlanArn": api.admin("POST", "training-plans", plan)["arn"],
    }
    groups = {}
    for member, value in said.items():
        change: dict[str, Any] = {member: value}
        if member == "InstanceRequirements":
            change["InstanceType"] = None
        if member == "TrainingPlanArn":
            change["InstanceType"] = "ml.p5.48xlarge"
        groups[member] = hyperpod.group(member, **change)
    hyperpod.create(*groups.values(), wait=0)
    for member, value in said.items():
        group = hyperpod.described(member)
        for name, wanted in expected(member, value).items():
            assert group[name] == wanted, name


def test_every_member_of_a_restricted_group_is_described(hyperpod: HyperPodCluster) -> None:
    members = set(MODEL.shape_for("ClusterRestrictedInstanceGroupSpecification").members)
    file_system = {"SizeInGiB": 1200, "PerUnitStorageThroughput": 125}
    spec = hyperpod.group(
        "nova",
        OverrideVpcConfig=hyperpod.network.vpc_config,
        EnvironmentConfig={"FSxLustreConfig": file_system},
        **{m: SAID[m] for m in members & SAID.keys() - {"InstanceCount", "InstanceType"}},
    )
    assert members - spec.keys() == {"TrainingPlanArn"}
    shared = {"FSxLustreDeletionPolicy": "DeleteWithCluster", "FSxLustreConfig": file_system}
    policies = MODEL.shape_for("ClusterFSxLustreDeletionPolicy").enum
    shared["FSxLustreDeletionPolicy"] = policies[0]
    hyperpod.create(
        InstanceGroups=None,
        RestrictedInstanceGroups=[spec],
        RestrictedInstanceGroupsConfig={"SharedEnvironmentConfig": shared},
    )
    described = hyperpod.describe()
    (group,) = described["RestrictedInstanceGroups"]
    assert {**group, "InstanceCount": group["TargetCount"]}.items() >= spec.items()
    assert group["CurrentCount"] == 2
    config = described["RestrictedInstanceGroupsConfig"]["SharedEnvironmentConfig"]
    assert config["DesiredFSxLustreConfig"] == config["CurrentFSxLustreConfig"] == file_system
    hyperpod.api.advance(2000)
    hyperpod.update(InstanceGroupsToDelete=["nova"])
    hyperpod.api.advance(60)
    assert "RestrictedInstanceGroups" not in hyperpod.describe()


def test_an_update_replaces_the_whole_specification(hyperpod: HyperPodCluster) -> None:
    labelled, efa = {"Labels": {"team": "a", "tier": "b"}, "Taints": TAINTS}, {"InterfaceType": "efa"}
    hyperpod.create(hyperpod.group(KubernetesConfig=labelled, ThreadsPerCore=2, NetworkInterface=efa))
    config = hyperpod.described()["KubernetesConfig"]
    assert (config["CurrentLabels"], config["CurrentTaints"]) == (labelled["Labels"], TAINTS)
    hyperpod.update(hyperpod.group(KubernetesConfig={"Labels": {"team": "c"}}))
    group = hyperpod.described()
    assert group["ThreadsPerCore"] == 1
    assert "NetworkInterface" not in group
    assert group["KubernetesConfig"]["DesiredLabels"] == {"team": "c"}
    assert group["KubernetesConfig"]["CurrentLabels"] == labelled["Labels"]
    hyperpod.api.advance(31)
    config = hyperpod.described()["KubernetesConfig"]
    assert (config["CurrentLabels"], config["CurrentTaints"]) == ({"team": "c"}, [])


def test_an_update_adds_scales_and_deletes_groups_and_leaves_the_others(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group("a"), hyperpod.group("b", ThreadsPerCore=2))
    hyperpod.update(hyperpod.group("a", 1), hyperpod.group("c", 1), InstanceGroupsToDelete=["b"])
    assert hyperpod.described("b")["Status"] == "Deleting"
    hyperpod.api.advance(500)
    assert [g["InstanceGroupName"] for g in hyperpod.describe()["InstanceGroups"]] == ["a", "c"]
    assert (hyperpod.counts("a"), hyperpod.counts("c")) == ((1, 1), (1, 1))
    refused: list[dict[str, Any]] = [
        {"InstanceGroupsToDelete": ["b"]},
        {"InstanceGroups": [hyperpod.group("a")], "InstanceGroupsToDelete": ["a"]},
        {"InstanceGroups": [hyperpod.group("a", InstanceType="ml.g6.8xlarge")]},
    ]
    for members in refused:
        with pytest.raises(ClientError) as error:
            hyperpod.update(**members)
        assert code(error) == "ValidationException"


def test_a_newer_scaling_supersedes_the_older(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group())
    hyperpod.update(hyperpod.group(count=4))
    hyperpod.update(hyperpod.group(count=3))
    assert hyperpod.operations() == [("Scaling", "InProgress"), ("Scaling", "Superseded"), ("Scaling", "Done")]
    hyperpod.api.advance(500)
    assert hyperpod.operations()[0] == ("Scaling", "Done")
    assert hyperpod.counts() == (3, 3)


def test_a_classic_cluster_refuses_a_second_update(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(), NodeProvisioningMode=None)
    hyperpod.update(hyperpod.group(count=3))
    assert hyperpod.describe()["ClusterStatus"] == "Updating"
    with pytest.raises(ClientError) as error:
        hyperpod.update(hyperpod.group(count=1))
    assert code(error) == "ConflictException"
    with pytest.raises(ClientError) as error:
        hyperpod.sagemaker.delete_cluster(ClusterName="hp")
    assert code(error) == "ConflictException"
    hyperpod.api.advance(500)
    assert hyperpod.describe()["ClusterStatus"] == "InService"


def test_a_failed_cluster_can_only_be_deleted(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group())
    hyperpod.api.admin("POST", "hyperpod", {"fail_cluster": {"cluster": "hp", "message": "broken"}})
    assert (hyperpod.describe()["ClusterStatus"], hyperpod.describe()["FailureMessage"]) == ("Failed", "broken")
    with pytest.raises(ClientError) as error:
        hyperpod.update(hyperpod.group(count=1))
    assert code(error) == "ConflictException"
    hyperpod.sagemaker.delete_cluster(ClusterName="hp")
    hyperpod.api.advance(300)
    assert hyperpod.sagemaker.list_clusters()["ClusterSummaries"] == []


def test_autoscaling_needs_a_role_and_comes_and_goes(hyperpod: HyperPodCluster, role: Callable[..., str]) -> None:
    good, other = role("scaler", "hyperpod.sagemaker.amazonaws.com"), role("other", "hyperpod.sagemaker.amazonaws.com")
    hyperpod.create(hyperpod.group(), NodeRecovery="None")
    for refused in (
        {"ClusterRole": good},
        {"NodeRecovery": "Automatic"},
        {"ClusterRole": hyperpod.execution_role, "NodeRecovery": "Automatic"},
    ):
        with pytest.raises(ClientError) as error:
            hyperpod.update(AutoScaling=KARPENTER, **refused)
        assert code(error) == "ValidationException"
    hyperpod.update(AutoScaling=KARPENTER, ClusterRole=good, NodeRecovery="Automatic")
    assert hyperpod.describe()["AutoScaling"] == {**KARPENTER, "Status": "Creating"}
    hyperpod.api.advance(61)
    assert hyperpod.describe()["AutoScaling"]["Status"] == "InService"
    for refused in ({"ClusterRole": other}, {"NodeRecovery": "None"}):
        with pytest.raises(ClientError) as error:
            hyperpod.update(**refused)
        assert code(error) == "ValidationException"
    hyperpod.update(AutoScaling={"Mode": "Disable"})
    assert hyperpod.describe()["AutoScaling"]["Status"] == "Deleting"
    hyperpod.api.advance(61)
    assert "AutoScaling" not in hyperpod.describe()
    assert hyperpod.describe()["ClusterRole"] == good


def test_settings_that_are_not_sent_stay(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(), TieredStorageConfig={"Mode": "Enable", "InstanceMemoryAllocationPercentage": 30})
    hyperpod.update(NodeRecovery="None")
    hyperpod.update(TieredStorageConfig={"Mode": "Disable"})
    described = hyperpod.describe()
    assert described["TieredStorageConfig"] == {"Mode": "Disable", "InstanceMemoryAllocationPercentage": 30}
    assert (described["NodeRecovery"], described["NodeProvisioningMode"]) == ("None", "Continuous")
    assert hyperpod.counts() == (2, 2)


def test_spot_needs_a_continuous_cluster(hyperpod: HyperPodCluster) -> None:
    spot = hyperpod.group("spot", CapacityRequirements={"Spot": {}})
    hyperpod.create(hyperpod.group(), NodeProvisioningMode=None)
    with pytest.raises(ClientError) as error:
        hyperpod.update(spot)
    assert "Spot capacity requires" in str(error.value)
    hyperpod.update(spot, NodeProvisioningMode="Continuous")
    assert hyperpod.described("spot")["CapacityRequirements"] == {"Spot": {}}


def test_a_new_group_below_its_minimum_goes_back_to_nothing(hyperpod: HyperPodCluster) -> None:
    hyperpod.api.admin("PUT", "capacity", {"*": {"ml.g5.8xlarge": 1}})
    hyperpod.create(hyperpod.group(count=3, MinInstanceCount=2))
    assert (hyperpod.counts(), hyperpod.described()["Status"]) == ((1, 3), "Creating")
    hyperpod.api.advance(3 * 3600)
    assert (hyperpod.counts(), hyperpod.described()["Status"]) == ((0, 0), "Failed")
    assert any("MinInstanceCount" in message for message in hyperpod.failures())


def test_a_group_that_misses_its_minimum_returns_to_what_it_was(hyperpod: HyperPodCluster) -> None:
    hyperpod.api.admin("PUT", "capacity", {"*": {"ml.g5.8xlarge": 3}})
    hyperpod.create(hyperpod.group(count=2, MinInstanceCount=2))
    assert hyperpod.described()["Status"] == "InService"
    hyperpod.update(hyperpod.group(count=5, MinInstanceCount=4))
    hyperpod.api.advance(600)
    assert (hyperpod.counts(), hyperpod.described()["Status"]) == ((3, 5), "Updating")
    hyperpod.api.advance(3 * 3600)
    group = hyperpod.described()
    assert (group["CurrentCount"], group["TargetCount"], group["MinCount"], group["Status"]) == (2, 2, 2, "InService")
