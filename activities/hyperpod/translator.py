"""From a group as DescribeCluster shows it to the same group as UpdateCluster takes it.

UpdateCluster replaces each group that it names as a whole, and a member that is left out falls back to its default
(ThreadsPerCore, for one). So a group that exists is always sent as it was described, with only the difference changed.
The two shapes differ: counts, labels, taints, types and images have other names. Every member of both stands in one of
the tables below, and a test compares the tables with botocore's model, so that no new member is lost unseen.
(SageMaker API: ClusterInstanceGroupDetails, ClusterInstanceGroupSpecification and their restricted counterparts)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.type_defs import (
        ClusterInstanceGroupDetailsTypeDef,
        ClusterInstanceGroupSpecificationTypeDef,
        ClusterRestrictedInstanceGroupDetailsTypeDef,
        ClusterRestrictedInstanceGroupSpecificationTypeDef,
    )

SAME = (
    "InstanceGroupName",
    "InstanceType",
    "LifeCycleConfig",
    "ExecutionRole",
    "ThreadsPerCore",
    "InstanceStorageConfigs",
    "OnStartDeepHealthChecks",
    "TrainingPlanArn",
    "OverrideVpcConfig",
    "ScheduledUpdateConfig",
    "CapacityRequirements",
)
"""One name and one shape on both sides."""
TRANSLATED = {
    "TargetCount": "InstanceCount",
    "MinCount": "MinInstanceCount",
    "InstanceRequirements": "InstanceRequirements",
    "AutoPatchConfig": "AutoPatchConfig",
    "DesiredImageId": "ImageId",
    "KubernetesConfig": "KubernetesConfig",
    "SlurmConfig": "SlurmConfig",
    "NetworkInterface": "NetworkInterface",
}
"""Described under one name or shape, taken under another."""
STATE = {
    "CurrentCount": "what is there, not what is asked for",
    "InstanceTypeDetails": "counts of each type; only its threads per core stand in for the group's own",
    "Status": "a state",
    "TrainingPlanStatus": "a state of the plan",
    "CurrentImageId": "what runs; the desired image is the group's",
    "CurrentImageReleaseVersion": "what runs",
    "DesiredImageReleaseVersion": "UpdateClusterSoftware sets it, and the service by itself: see NEVER_SENT",
    "ImageVersionStatus": "a state",
    "ActiveOperations": "a state",
    "TargetStateCount": "a state of a software update",
    "SoftwareUpdateStatus": "a state of a software update",
    "ActiveSoftwareUpdateConfig": "how a software update goes on that UpdateClusterSoftware was asked for",
}
"""Described and not sent, with the reason."""
NEVER_SENT = {
    "ImageReleaseVersion": "for new groups; of one that exists the service keeps what UpdateClusterSoftware chose, and "
    "what is described may be the service's own choice, which sending it would pin",
}
"""Taken by UpdateCluster and never sent for a group that exists, with the reason."""

RESTRICTED_SAME = (
    "InstanceGroupName",
    "InstanceType",
    "ExecutionRole",
    "ThreadsPerCore",
    "InstanceStorageConfigs",
    "OnStartDeepHealthChecks",
    "TrainingPlanArn",
    "OverrideVpcConfig",
    "ScheduledUpdateConfig",
)
RESTRICTED_TRANSLATED = {"TargetCount": "InstanceCount", "EnvironmentConfig": "EnvironmentConfig"}
RESTRICTED_STATE = {
    "CurrentCount": "what is there, not what is asked for",
    "Status": "a state",
    "TrainingPlanStatus": "a state of the plan",
}

PARTS: dict[str, dict[str, str]] = {
    "InstanceRequirements": {"DesiredInstanceTypes": "InstanceTypes", "CurrentInstanceTypes": "InstanceTypes"},
    "KubernetesConfig": {
        "DesiredLabels": "Labels",
        "CurrentLabels": "Labels",
        "DesiredTaints": "Taints",
        "CurrentTaints": "Taints",
    },
    "AutoPatchConfig": {
        "PatchingStrategy": "PatchingStrategy",
        "DesiredPatchSchedule": "PatchSchedule",
        "CurrentPatchSchedule": "PatchSchedule",
        "DeploymentConfig": "DeploymentConfig",
        "IdleWaitWindowInSeconds": "IdleWaitWindowInSeconds",
        "DrainPolicy": "DrainPolicy",
    },
    "SlurmConfig": {"NodeType": "NodeType", "PartitionNames": "PartitionNames"},
    "NetworkInterface": {"InterfaceType": "InterfaceType"},
    "EnvironmentConfig": {"FSxLustreConfig": "FSxLustreConfig"},
}
"""Members of the parts that are translated themselves; the one that stands first wins."""
PART_STATE = {"EnvironmentConfig": {"S3OutputPath": "the service's own choice"}}
AT_LEAST_ONE = ("OnStartDeepHealthChecks",)
"""Lists that may be described as empty and must not be sent so."""


def specification_of(
    described: ClusterInstanceGroupDetailsTypeDef, own_images: Collection[str] = ()
) -> ClusterInstanceGroupSpecificationTypeDef:
    """The group with nothing changed.

    ``own_images``: images of the account. A desired image that is none of these was chosen by the service, which goes
    on choosing as long as nobody pins one; what was chosen must be sent, or new nodes would get another.
    """
    group = cast("Mapping[str, Any]", described)
    spec = _same(group, SAME)
    spec["InstanceCount"] = group.get("TargetCount", group.get("CurrentCount", 0))
    if group.get("MinCount") is not None:
        spec["MinInstanceCount"] = group["MinCount"]
    for name in ("InstanceRequirements", "KubernetesConfig", "AutoPatchConfig", "SlurmConfig", "NetworkInterface"):
        if part := _part(name, group.get(name)):
            spec[name] = part
    if "InstanceRequirements" in spec:
        # Exactly one of the two is taken.
        spec.pop("InstanceType", None)
    if "ThreadsPerCore" not in spec and (threads := _threads_of_types(group)) is not None:
        spec["ThreadsPerCore"] = threads
    if group.get("DesiredImageId") in own_images:
        spec["ImageId"] = group["DesiredImageId"]
    return cast("ClusterInstanceGroupSpecificationTypeDef", spec)


def restricted_specification_of(
    described: ClusterRestrictedInstanceGroupDetailsTypeDef,
) -> ClusterRestrictedInstanceGroupSpecificationTypeDef:
    """A restricted group with nothing changed."""
    group = cast("Mapping[str, Any]", described)
    spec = _same(group, RESTRICTED_SAME)
    spec["InstanceCount"] = group.get("TargetCount", group.get("CurrentCount", 0))
    if part := _part("EnvironmentConfig", group.get("EnvironmentConfig")):
        spec["EnvironmentConfig"] = part
    return cast("ClusterRestrictedInstanceGroupSpecificationTypeDef", spec)


def types_of(described: Mapping[str, Any]) -> list[str]:
    """The instance types of a described group, in order of preference."""
    part = _part("InstanceRequirements", described.get("InstanceRequirements"))
    return list(part["InstanceTypes"]) if part else [described["InstanceType"]] if described.get("InstanceType") else []


def _same(group: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {
        name: group[name]
        for name in names
        if group.get(name) is not None and not (name in AT_LEAST_ONE and not group[name])
    }


def _part(name: str, described: Mapping[str, Any] | None) -> dict[str, Any]:
    part: dict[str, Any] = {}
    for there, here in PARTS[name].items():
        if described and described.get(there) is not None:
            part.setdefault(here, described[there])
    return part


def _threads_of_types(group: Mapping[str, Any]) -> int | None:
    """A flexible group may show its threads per core only type by type."""
    threads = {each["ThreadsPerCore"] for each in group.get("InstanceTypeDetails") or () if each.get("ThreadsPerCore")}
    return threads.pop() if len(threads) == 1 else None
