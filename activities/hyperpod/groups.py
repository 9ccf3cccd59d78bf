"""Instance groups: what UpdateCluster must be sent, from what DescribeCluster shows and what is asked.

A group in UpdateCluster replaces the old one as a whole, and a member that is left out falls back to its default
(ThreadsPerCore, for one). So a group that exists is always sent back as it was described, with only the difference
changed. DescribeCluster's shape is another than CreateCluster's: counts, labels and taints have other names.
(SageMaker API: ClusterInstanceGroupDetails, ClusterInstanceGroupSpecification)
"""

from __future__ import annotations

from typing import Any

from contracts.hyperpod import EnsureHyperPod, InstanceGroup, PlacedGroup

Specification = dict[str, Any]

SAME_NAME = (
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
"""Members that are sent as they are described."""

ON_CREATE = "on_create.sh"


def specification_of(described: Specification) -> Specification:
    """A described group in the shape that UpdateCluster takes."""
    spec = {name: described[name] for name in SAME_NAME if described.get(name) not in (None, [])}
    spec["InstanceCount"] = described.get("TargetCount", described.get("CurrentCount", 0))
    if described.get("MinCount"):
        spec["MinInstanceCount"] = described["MinCount"]
    if requirements := described.get("InstanceRequirements"):
        types = requirements.get("DesiredInstanceTypes") or requirements.get("CurrentInstanceTypes") or []
        spec["InstanceRequirements"] = {"InstanceTypes": types}
        spec.pop("InstanceType", None)
    if kubernetes := described.get("KubernetesConfig"):
        config = {
            "Labels": kubernetes.get("DesiredLabels", kubernetes.get("CurrentLabels")),
            "Taints": kubernetes.get("DesiredTaints", kubernetes.get("CurrentTaints")),
        }
        spec["KubernetesConfig"] = {name: value for name, value in config.items() if value}
    if patching := described.get("AutoPatchConfig"):
        known = ("PatchingStrategy", "PatchSchedule", "DeploymentConfig", "IdleWaitWindowInSeconds", "DrainPolicy")
        spec["AutoPatchConfig"] = {name: patching[name] for name in known if name in patching}
    if interface := (described.get("NetworkInterface") or {}).get("InterfaceType"):
        spec["NetworkInterface"] = {"InterfaceType": interface}
    return spec


def specification(request: EnsureHyperPod, group: PlacedGroup) -> Specification:
    """A group as asked, in the shape that CreateCluster and UpdateCluster take."""
    spec = group.spec
    result: Specification = {
        "InstanceGroupName": spec.name,
        "InstanceType": spec.instance_type,
        "InstanceCount": spec.count,
        "LifeCycleConfig": {"SourceS3Uri": request.lifecycle_scripts_uri, "OnCreate": ON_CREATE},
        "ExecutionRole": request.execution_role_arn,
        "ThreadsPerCore": group.threads_per_core,
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": spec.volume_gib}}],
        "OverrideVpcConfig": {
            "SecurityGroupIds": [request.security_group_id],
            "Subnets": [group.subnet.subnet_id],
        },
    }
    if spec.deep_health_checks:
        result["OnStartDeepHealthChecks"] = list(spec.deep_health_checks)
    if group.training_plan_arn:
        result["TrainingPlanArn"] = group.training_plan_arn
    if spec.capacity.kind == "spot":
        result["CapacityRequirements"] = {"Spot": {}}
    kubernetes: dict[str, Any] = {}
    if spec.labels:
        kubernetes["Labels"] = spec.labels
    if spec.taints:
        kubernetes["Taints"] = [
            {"Key": taint.key, **({"Value": taint.value} if taint.value else {}), "Effect": taint.effect}
            for taint in spec.taints
        ]
    if kubernetes:
        result["KubernetesConfig"] = kubernetes
    return result


def placement(spec: Specification) -> dict[str, Any]:
    """What of a group cannot be changed while it has nodes: where it is, of what type, and how it is paid for."""
    requirements = spec.get("CapacityRequirements") or {}
    return {
        "instance type": spec.get("InstanceType"),
        "subnets": sorted((spec.get("OverrideVpcConfig") or {}).get("Subnets", [])),
        "training plan": spec.get("TrainingPlanArn"),
        "capacity": "spot" if "Spot" in requirements else "on-demand",
    }


def difference(asked: dict[str, Any], exists: dict[str, Any]) -> str:
    """In words; empty where there is none."""
    return "; ".join(f"{key} is {exists[key]}, asked was {asked[key]}" for key in asked if asked[key] != exists[key])


def as_group(described: Specification) -> InstanceGroup:
    return InstanceGroup(
        name=described["InstanceGroupName"],
        instance_type=described.get("InstanceType", ""),
        current=described.get("CurrentCount", 0),
        target=described.get("TargetCount", 0),
        status=described.get("Status", "Unknown"),
    )
