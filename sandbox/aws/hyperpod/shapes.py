"""Clusters, groups, nodes and events in the shapes in which the API describes them.

These differ from those that created them: counts are renamed, labels come back as current and desired, and tags are
left out.
"""

from __future__ import annotations

from typing import Any

from sandbox.aws.hyperpod.base import Base
from sandbox.aws.hyperpod.state import DEFAULT_THREADS_PER_CORE, IMAGE_VERSION, STARTED, Cluster, Event, Group, Node

COPIED = (
    "InstanceGroupName",
    "InstanceType",
    "LifeCycleConfig",
    "ExecutionRole",
    "InstanceStorageConfigs",
    "OnStartDeepHealthChecks",
    "TrainingPlanArn",
    "OverrideVpcConfig",
    "ScheduledUpdateConfig",
    "CapacityRequirements",
    "SlurmConfig",
    "NetworkInterface",
)
SETTINGS = (
    "VpcConfig",
    "Orchestrator",
    "NodeRecovery",
    "NodeProvisioningMode",
    "ClusterRole",
    "TieredStorageConfig",
    "AutoScaling",
)


class Shapes(Base):
    """Describing what is held."""

    def describe(self, cluster: Cluster) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "ClusterArn": cluster.arn,
            "ClusterName": cluster.name,
            "ClusterStatus": cluster.status,
            "CreationTime": cluster.created,
            "InstanceGroups": [self.describe_group(cluster, g) for g in cluster.groups.values()],
        }
        if cluster.failure:
            shape["FailureMessage"] = cluster.failure
        shape |= {k: cluster.settings[k] for k in SETTINGS if k in cluster.settings}
        return shape

    def describe_group(self, cluster: Cluster, group: Group) -> dict[str, Any]:
        spec = group.spec
        current = cluster.current(group.name)
        shape = {k: spec[k] for k in COPIED if k in spec}
        shape |= {
            "CurrentCount": current,
            "TargetCount": group.target,
            "TargetStateCount": current,
            "Status": self.group_status(cluster, group),
            "ThreadsPerCore": spec.get("ThreadsPerCore", DEFAULT_THREADS_PER_CORE),
            "CurrentImageId": "default",
            "DesiredImageId": spec.get("ImageId", "default"),
            "CurrentImageReleaseVersion": IMAGE_VERSION,
            "DesiredImageReleaseVersion": group.desired_image,
            "ImageVersionStatus": "UpToDate",
            "ActiveOperations": {"Scaling": 1} if current != group.target and cluster.continuous else {},
        }
        if "MinInstanceCount" in spec:
            shape["MinCount"] = spec["MinInstanceCount"]
        if spec.get("TrainingPlanArn"):
            plan = self.plan(cluster.place, spec["TrainingPlanArn"])
            shape["TrainingPlanStatus"] = plan.status if plan else "Expired"
        if spec.get("InstanceRequirements"):
            members = cluster.members(group.name)
            present = [t for t in group.types if any(n.instance_type == t and n.status in STARTED for n in members)]
            shape["InstanceRequirements"] = {"CurrentInstanceTypes": present, "DesiredInstanceTypes": group.types}
            shape["InstanceTypeDetails"] = [
                {
                    "InstanceType": t,
                    "CurrentCount": sum(1 for n in members if n.instance_type == t and n.status in STARTED),
                    "ThreadsPerCore": spec.get("ThreadsPerCore", DEFAULT_THREADS_PER_CORE),
                }
                for t in group.types
            ]
        if patching := spec.get("AutoPatchConfig"):
            schedule = patching.get("PatchSchedule") or {}
            shape["AutoPatchConfig"] = {k: v for k, v in patching.items() if k != "PatchSchedule"} | {
                "CurrentPatchSchedule": schedule,
                "DesiredPatchSchedule": schedule,
            }
        if spec.get("KubernetesConfig"):
            shape["KubernetesConfig"] = _kubernetes_config(spec, cluster.members(group.name))
        if group.software_status:
            shape["SoftwareUpdateStatus"] = group.software_status
        return shape

    def group_status(self, cluster: Cluster, group: Group) -> str:
        if group.deleting or cluster.status == "Deleting":
            return "Deleting"
        if group.software_status == "InProgress":
            return "SystemUpdating"
        members = cluster.members(group.name)
        broken = any(n.status == "Failure" for n in members)
        if cluster.status == "Failed":
            return "Failed"
        if cluster.current(group.name) == group.target and not broken:
            return "InService" if cluster.status != "Creating" or group.target else "Creating"
        if cluster.status == "Creating":
            return "Creating"
        if broken or group.shortages:
            return "Degraded"
        return "InService" if cluster.continuous else "Updating"

    def summarize_node(self, node: Node) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "InstanceGroupName": node.group,
            "InstanceId": node.instance_id,
            "NodeLogicalId": node.logical_id,
            "InstanceType": node.instance_type,
            "LaunchTime": node.launched or node.created,
            "InstanceStatus": {"Status": node.status, "Message": node.message},
            "CurrentImageReleaseVersion": node.image,
            "ImageVersionStatus": "UpToDate",
        }
        if node.ip:
            shape["PrivateDnsHostname"] = f"ip-{node.ip.replace('.', '-')}.ec2.internal"
        if node.updated:
            shape["LastSoftwareUpdateTime"] = node.updated
        return shape

    def describe_node(self, cluster: Cluster, node: Node) -> dict[str, Any]:
        group = cluster.groups[node.group]
        spec = group.spec
        shape = self.summarize_node(node)
        shape |= {
            k: spec[k]
            for k in ("LifeCycleConfig", "OverrideVpcConfig", "InstanceStorageConfigs", "NetworkInterface")
            if k in spec
        }
        shape |= {
            "ThreadsPerCore": spec.get("ThreadsPerCore", DEFAULT_THREADS_PER_CORE),
            "CurrentImageId": "default",
            "DesiredImageId": spec.get("ImageId", "default"),
            "DesiredImageReleaseVersion": group.desired_image,
            "CapacityType": node.capacity_type,
        }
        if node.ip:
            shape["PrivatePrimaryIp"] = node.ip
        if node.zone:
            shape["Placement"] = {"AvailabilityZone": node.zone, "AvailabilityZoneId": node.zone_id}
        if spec.get("KubernetesConfig"):
            shape["KubernetesConfig"] = _kubernetes_config(spec, [node])
        return shape

    def summarize_event(self, cluster: Cluster, event: Event) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "EventId": event.id,
            "ClusterArn": cluster.arn,
            "ClusterName": cluster.name,
            "ResourceType": event.resource_type,
            "EventTime": event.time,
            "Description": event.description,
            "EventLevel": event.level,
        }
        optional = {
            "InstanceGroupName": event.group,
            "InstanceId": event.instance_id,
            "OperationId": event.operation,
        }
        return shape | {k: v for k, v in optional.items() if v}


def _kubernetes_config(spec: dict[str, Any], nodes: list[Node]) -> dict[str, Any]:
    """Desired is what the group says; current what its nodes have, once they have joined."""
    config = spec["KubernetesConfig"]
    labels, taints = config.get("Labels") or {}, config.get("Taints") or []
    joined = [n for n in nodes if n.joined]
    same = bool(joined) and all(n.labels == labels and n.taints == taints for n in joined)
    current_labels = labels if same else (joined[0].labels if joined else {})
    current_taints = taints if same else (joined[0].taints if joined else [])
    return {
        "CurrentLabels": current_labels,
        "DesiredLabels": labels,
        "CurrentTaints": current_taints,
        "DesiredTaints": taints,
    }
