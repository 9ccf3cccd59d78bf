"""HyperPod's software updates: batches, waits, what is described meanwhile, and the way back."""

from __future__ import annotations

import pytest
from aws_support import code
from botocore.exceptions import ClientError
from hyperpod_support import HyperPodCluster

OLD, NEW = "1.0.3", "1.0.4"


def one_by_one(**more: object) -> dict[str, object]:
    return {"RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1}}, **more}


def releases(hyperpod: HyperPodCluster) -> list[str]:
    return sorted(n["CurrentImageReleaseVersion"] for n in hyperpod.nodes())


def test_an_update_goes_through_a_group_in_batches(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(ImageReleaseVersion=OLD), hyperpod.group("other", 1, ImageReleaseVersion=OLD))
    assert hyperpod.described()["ImageVersionStatus"] == "UpdateAvailable"
    instances = {n["InstanceId"] for n in hyperpod.nodes()}
    config = one_by_one(WaitIntervalInSeconds=100, AutoRollbackConfiguration=[{"AlarmName": "errors"}])
    hyperpod.sagemaker.update_cluster_software(
        ClusterName="hp", InstanceGroups=[{"InstanceGroupName": "workers"}], DeploymentConfig=config
    )
    group = hyperpod.described()
    assert (group["SoftwareUpdateStatus"], group["Status"]) == ("Pending", "SystemUpdating")
    assert group["ActiveSoftwareUpdateConfig"] == config
    assert (group["CurrentImageReleaseVersion"], group["DesiredImageReleaseVersion"]) == (OLD, NEW)
    assert hyperpod.describe()["ClusterStatus"] == "SystemUpdating"
    with pytest.raises(ClientError) as error:
        hyperpod.sagemaker.update_cluster_software(ClusterName="hp")
    assert code(error) == "ConflictException"
    hyperpod.api.advance(31)
    assert hyperpod.described()["SoftwareUpdateStatus"] == "InProgress"
    assert hyperpod.statuses() == ["Running", "Running", "SystemUpdating"]
    hyperpod.api.advance(605)
    assert (hyperpod.statuses(), releases(hyperpod)) == (["Running"] * 3, [OLD, OLD, NEW])
    assert hyperpod.described()["TargetStateCount"] == 1
    hyperpod.api.advance(100)
    assert hyperpod.statuses() == ["Running", "Running", "SystemUpdating"]
    hyperpod.api.advance(800)
    group = hyperpod.described()
    assert (group["SoftwareUpdateStatus"], group["Status"]) == ("Succeeded", "InService")
    assert (group["CurrentImageReleaseVersion"], group["ImageVersionStatus"]) == (NEW, "UpToDate")
    assert "SoftwareUpdateStatus" not in hyperpod.described("other")
    assert hyperpod.describe()["ClusterStatus"] == "InService"
    assert {n["InstanceId"] for n in hyperpod.nodes()} == instances
    assert sum("LastSoftwareUpdateTime" in n for n in hyperpod.nodes()) == 2


def test_a_percentage_is_of_the_groups_nodes(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(count=4))
    policy = {"RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "CAPACITY_PERCENTAGE", "Value": 60}}}
    hyperpod.sagemaker.update_cluster_software(ClusterName="hp", DeploymentConfig=policy)
    hyperpod.api.advance(31)
    assert hyperpod.statuses() == ["Running"] + ["SystemUpdating"] * 3


def test_a_node_that_does_not_start_again_sends_its_group_back(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(count=3, ImageReleaseVersion=OLD))
    hyperpod.sagemaker.update_cluster_software(ClusterName="hp", DeploymentConfig=one_by_one())
    hyperpod.api.advance(32 + 600)
    hyperpod.api.admin("POST", "hyperpod", {"broken_software": {"workers": 1}})
    hyperpod.api.advance(600)
    group = hyperpod.described()
    assert group["SoftwareUpdateStatus"] == "RollbackInProgress"
    assert (group["CurrentImageReleaseVersion"], group["DesiredImageReleaseVersion"]) == (NEW, OLD)
    hyperpod.api.advance(1300)
    assert hyperpod.described()["SoftwareUpdateStatus"] == "RollbackComplete"
    assert (releases(hyperpod), hyperpod.statuses()) == ([OLD] * 3, ["Running"] * 3)
    assert hyperpod.described()["DesiredImageReleaseVersion"] == OLD
    assert hyperpod.describe()["ClusterStatus"] == "InService"
    assert hyperpod.failures() == ["The instance did not start with the new image."]


def test_a_way_back_that_fails_too_leaves_the_update_failed(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(ImageReleaseVersion=OLD))
    hyperpod.api.admin("POST", "hyperpod", {"broken_software": {"workers": 2}})
    hyperpod.sagemaker.update_cluster_software(ClusterName="hp", DeploymentConfig=one_by_one())
    hyperpod.api.advance(1300)
    group = hyperpod.described()
    assert (group["SoftwareUpdateStatus"], group["Status"]) == ("Failed", "Degraded")
    assert hyperpod.statuses() == ["Failure", "Running"]


def test_new_nodes_get_the_image_of_their_group(hyperpod: HyperPodCluster) -> None:
    hyperpod.create(hyperpod.group(count=1, ImageReleaseVersion=OLD), hyperpod.group("own", 1, ImageId="ami-01234567"))
    hyperpod.api.admin("POST", "hyperpod", {"release": "1.1.0"})
    with pytest.raises(ClientError) as error:
        hyperpod.sagemaker.update_cluster_software(ClusterName="hp")
    assert "ImageId is required" in str(error.value)
    own = [{"InstanceGroupName": "own"}]
    hyperpod.sagemaker.update_cluster_software(ClusterName="hp", InstanceGroups=own, ImageId="ami-89abcdef")
    hyperpod.api.advance(700)
    assert hyperpod.described("own")["CurrentImageId"] == "ami-89abcdef"
    workers = [{"InstanceGroupName": "workers", "ImageReleaseVersion": NEW}]
    hyperpod.sagemaker.update_cluster_software(ClusterName="hp", InstanceGroups=workers)
    hyperpod.api.advance(700)
    hyperpod.update(hyperpod.group(count=2))
    hyperpod.api.advance(500)
    assert [n["CurrentImageReleaseVersion"] for n in hyperpod.nodes("workers")] == [NEW, NEW]
    assert hyperpod.described()["ImageVersionStatus"] == "UpdateAvailable"
