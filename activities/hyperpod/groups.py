"""Instance groups as asked, in the shape that CreateCluster and UpdateCluster take, and compared with what exists.

What exists is brought into that shape by ``activities/hyperpod/translator.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from activities.aws import AwsClients, pages
from activities.hyperpod.translator import specification_of, types_of
from contracts.hyperpod import InstanceGroup, PlacedGroup

Specification = dict[str, Any]

ON_CREATE = "on_create.sh"
NO_SUBNETS: list[str] = []


@dataclass(frozen=True)
class Template:
    """What every group of a cluster has alike. ``lifecycle`` may be None: a group needs no scripts."""

    execution_role: str
    lifecycle: Specification | None
    security_groups: list[str]


def lifecycle_of(uri: str) -> Specification:
    return {"SourceS3Uri": uri, "OnCreate": ON_CREATE}


def specification(template: Template, group: PlacedGroup) -> Specification:
    """A group as asked; all its choices in one."""
    spec = group.spec
    result: Specification = {
        "InstanceGroupName": spec.name,
        "InstanceCount": spec.count,
        "ExecutionRole": template.execution_role,
        "ThreadsPerCore": group.threads_per_core,
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": spec.volume_gib}}],
        "OverrideVpcConfig": {
            "SecurityGroupIds": template.security_groups,
            "Subnets": [group.subnet.subnet_id],
        },
    }
    if spec.alternative_types:
        result["InstanceRequirements"] = {"InstanceTypes": spec.instance_types}
    else:
        result["InstanceType"] = spec.instance_type
    if template.lifecycle:
        result["LifeCycleConfig"] = template.lifecycle
    if spec.min_count is not None:
        result["MinInstanceCount"] = spec.min_count
    if spec.network_interface:
        result["NetworkInterface"] = {"InterfaceType": spec.network_interface}
    if spec.deep_health_checks:
        result["OnStartDeepHealthChecks"] = list(spec.deep_health_checks)
    if group.training_plan_arn:
        result["TrainingPlanArn"] = group.training_plan_arn
    if spec.capacity.kind == "spot":
        result["CapacityRequirements"] = {"Spot": {}}
    if kubernetes := kubernetes_config(spec.labels or None, spec.taints or None):
        result["KubernetesConfig"] = kubernetes
    return result


def kubernetes_config(labels: dict[str, str] | None, taints: Iterable[Any] | None) -> Specification:
    """Labels and taints for the nodes; None leaves out, an empty one asks for none."""
    config: Specification = {}
    if labels is not None:
        config["Labels"] = labels
    if taints is not None:
        config["Taints"] = [
            {"Key": taint.key, **({"Value": taint.value} if taint.value else {}), "Effect": taint.effect}
            for taint in taints
        ]
    return config


def placement(spec: Specification) -> dict[str, Any]:
    """What of a group cannot be changed while it has nodes: where it is, of what type, and how it is paid for.

    Takes a specification as well as a described group.
    """
    requirements = spec.get("CapacityRequirements") or {}
    types = (spec.get("InstanceRequirements") or {}).get("InstanceTypes") or types_of(spec)
    return {
        "instance type": " or ".join(types),
        "subnets": sorted((spec.get("OverrideVpcConfig") or {}).get("Subnets", NO_SUBNETS)),
        "training plan": spec.get("TrainingPlanArn"),
        "capacity": "spot" if "Spot" in requirements else "on-demand",
    }


def difference(asked: dict[str, Any], exists: dict[str, Any]) -> str:
    """In words; empty where there is none."""
    return "; ".join(f"{key} is {exists[key]}, asked was {asked[key]}" for key in asked if asked[key] != exists[key])


def groups_of(found: Specification) -> list[Specification]:
    """Every group of a described cluster, restricted ones too."""
    return [*found.get("InstanceGroups", []), *found.get("RestrictedInstanceGroups", [])]


def group_of(found: Specification, name: str) -> Specification | None:
    return next((group for group in groups_of(found) if group["InstanceGroupName"] == name), None)


def is_restricted(found: Specification, name: str) -> bool:
    return any(group["InstanceGroupName"] == name for group in found.get("RestrictedInstanceGroups", []))


def unchanged(aws: AwsClients, region: str, described: Specification) -> Specification:
    """A described group as UpdateCluster takes it, with its own image where the account has chosen one."""
    image = described.get("DesiredImageId")
    group: Any = described
    return dict(specification_of(group, own_images(aws, region, [image] if image else [])))


def own_images(aws: AwsClients, region: str, images: Iterable[str]) -> set[str]:
    """Which of the images are the account's own. Asked by filter: one that is not visible is no error."""
    wanted: Any = [{"Name": "image-id", "Values": sorted({image for image in images if image.startswith("ami-")})}]
    if not wanted[0]["Values"]:
        return set()
    found = pages(aws.read.ec2(region), "describe_images", "Images", Owners=["self"], Filters=wanted)
    return {image["ImageId"] for image in found}


def capacity_of(described: Specification) -> str:
    """How a described group's instances are bought."""
    if described.get("TrainingPlanArn"):
        return "training-plan"
    return "spot" if "Spot" in (described.get("CapacityRequirements") or {}) else "on-demand"


def as_group(described: Specification) -> InstanceGroup:
    kubernetes = described.get("KubernetesConfig") or {}
    types = types_of(described) or (described.get("InstanceRequirements") or {}).get("InstanceTypes") or []
    return InstanceGroup(
        name=described["InstanceGroupName"],
        instance_type=next(iter(types), ""),
        alternative_types=types[1:],
        current=described.get("CurrentCount", 0),
        target=described.get("TargetCount", 0),
        status=described.get("Status", "Unknown"),
        min_count=described.get("MinCount"),
        capacity=capacity_of(described),
        training_plan_arn=described.get("TrainingPlanArn"),
        network_interface=(described.get("NetworkInterface") or {}).get("InterfaceType"),
        threads_per_core=described.get("ThreadsPerCore"),
        subnet_ids=(described.get("OverrideVpcConfig") or {}).get("Subnets", []),
        deep_health_checks=described.get("OnStartDeepHealthChecks") or [],
        labels=kubernetes.get("DesiredLabels", kubernetes.get("CurrentLabels")) or {},
        taints=[
            {"key": taint["Key"], "value": taint.get("Value", ""), "effect": taint["Effect"]}
            for taint in kubernetes.get("DesiredTaints", kubernetes.get("CurrentTaints")) or []
        ],
    )
