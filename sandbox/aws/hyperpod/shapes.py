"""Clusters, groups, nodes and events in the shapes in which the API describes them.

These differ from those that created them: counts are renamed, labels come back as current and desired, and tags are
left out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from sandbox.aws.hyperpod.base import Base
from sandbox.aws.hyperpod.state import DEFAULT_THREADS_PER_CORE, STARTED, Cluster, Event, Group, Image, Node

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
    "EnvironmentConfig",
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
OF_NODES = ("LifeCycleConfig", "OverrideVpcConfig", "InstanceStorageConfigs", "NetworkInterface")


class Shapes(Base):
    """Describing what is held."""

    def describe(self, cluster: Cluster) -> dict[str, Any]:
        groups = list(cluster.groups.values())
        shape: dict[str, Any] = {
            "ClusterArn": cluster.arn,
            "ClusterName": cluster.name,
            "ClusterStatus": cluster.status,
            "CreationTime": cluster.created,
            "InstanceGroups": [self.describe_group(cluster, g) for g in groups if not g.restricted],
        }
        if restricted := [self.describe_restricted(cluster, g) for g in groups if g.restricted]:
            shape["RestrictedInstanceGroups"] = restricted
        if shared := (cluster.settings.get("RestrictedInstanceGroupsConfig") or {}).get("SharedEnvironmentConfig"):
            twice = {f"{when}{member}": value for member, value in shared.items() for when in ("Current", "Desired")}
            shape["RestrictedInstanceGroupsConfig"] = {"SharedEnvironmentConfig": twice}
        if cluster.failure:
            shape["FailureMessage"] = cluster.failure
        return shape | {k: cluster.settings[k] for k in SETTINGS if k in cluster.settings}

    def describe_restricted(self, cluster: Cluster, group: Group) -> dict[str, Any]:
        spec = group.spec
        shape = {k: spec[k] for k in COPIED if k in spec} | {
            "CurrentCount": cluster.current(group.name),
            "TargetCount": group.target,
            "Status": self.group_status(cluster, group),
            "ThreadsPerCore": _threads(spec),
        }
        if spec.get("TrainingPlanArn"):
            shape["TrainingPlanStatus"] = self._plan_status(cluster, spec)
        return shape

    def describe_group(self, cluster: Cluster, group: Group) -> dict[str, Any]:
        spec, members = group.spec, cluster.members(group.name)
        current = cluster.current(group.name)
        shape = self.describe_restricted(cluster, group) | {
            "TargetStateCount": sum(n.status in STARTED and n.image == group.image for n in members),
            "ActiveOperations": {"Scaling": 1} if current != group.target and cluster.continuous else {},
            **self._images(group.current_image, group.image),
        }
        if "MinInstanceCount" in spec:
            shape["MinCount"] = spec["MinInstanceCount"]
        if spec.get("InstanceRequirements"):
            shape |= _several_types(group, members)
        if patching := spec.get("AutoPatchConfig"):
            schedule = patching.get("PatchSchedule") or {}
            shape["AutoPatchConfig"] = {k: v for k, v in patching.items() if k != "PatchSchedule"} | {
                "CurrentPatchSchedule": schedule,
                "DesiredPatchSchedule": schedule,
            }
        if config := _kubernetes_config(group, members):
            shape["KubernetesConfig"] = config
        if group.software_status:
            shape["SoftwareUpdateStatus"] = group.software_status
        if group.rollout is not None and group.rollout.config:
            shape["ActiveSoftwareUpdateConfig"] = group.rollout.config
        return shape

    def group_status(self, cluster: Cluster, group: Group) -> str:
        if group.deleting or cluster.status == "Deleting":
            return "Deleting"
        if group.rollout is not None:
            return "SystemUpdating"
        if cluster.status == "Failed" or group.failed:
            return "Failed"
        if cluster.status == "Creating":
            return "Creating"
        if not group.established and cluster.continuous:
            return "Creating" if group.before is None else "Updating"
        broken = any(n.status == "Failure" for n in cluster.members(group.name))
        if cluster.current(group.name) == group.target and not broken:
            return "InService"
        if broken or group.shortages:
            return "Degraded"
        return "InService" if cluster.continuous or cluster.status == "InService" else "Updating"

    def summarize_node(self, node: Node, logical: bool = False) -> dict[str, Any]:
        """``logical``: with the node's logical id, which AWS lists only where it is asked for."""
        shape: dict[str, Any] = {
            "InstanceGroupName": node.group,
            "InstanceId": node.instance_id,
            "InstanceType": node.instance_type,
            "LaunchTime": node.launched or node.created,
            "InstanceStatus": {"Status": node.status, "Message": node.message},
        }
        if logical:
            shape["NodeLogicalId"] = node.logical_id
        if node.image.release:
            shape["CurrentImageReleaseVersion"] = node.image.release
            shape["ImageVersionStatus"] = self._version_status(node.image)
        if node.ip:
            shape["PrivateDnsHostname"] = f"ip-{node.ip.replace('.', '-')}.ec2.internal"
        if node.updated:
            shape["LastSoftwareUpdateTime"] = node.updated
        return shape

    def describe_node(self, cluster: Cluster, node: Node) -> dict[str, Any]:
        group = cluster.groups[node.group]
        spec = node.spec or group.spec
        shape = self.summarize_node(node, logical=True)
        shape |= {k: spec[k] for k in OF_NODES if k in spec}
        shape |= {"ThreadsPerCore": _threads(spec), "CapacityType": node.capacity_type}
        shape |= self._images(node.image, group.image)
        if node.ip:
            shape["PrivatePrimaryIp"] = node.ip
        if node.zone:
            shape["Placement"] = {"AvailabilityZone": node.zone, "AvailabilityZoneId": node.zone_id}
        if config := _kubernetes_config(group, [node]):
            shape["KubernetesConfig"] = config
        return shape

    def _images(self, current: Image, desired: Image) -> dict[str, Any]:
        shape = {"CurrentImageId": current.id, "DesiredImageId": desired.id}
        if current.release:
            shape["CurrentImageReleaseVersion"] = current.release
            shape["ImageVersionStatus"] = self._version_status(current)
        if desired.release:
            shape["DesiredImageReleaseVersion"] = desired.release
        return shape

    def _version_status(self, image: Image) -> str:
        newer = _version(image.release) < _version(self.state.release)
        return "UpdateAvailable" if newer else "UpToDate"

    def _plan_status(self, cluster: Cluster, spec: dict[str, Any]) -> str:
        plan = self.plan(cluster.place, spec["TrainingPlanArn"])
        return plan.status if plan else "Expired"

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


def _threads(spec: dict[str, Any]) -> int:
    return int(spec.get("ThreadsPerCore") or DEFAULT_THREADS_PER_CORE)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _several_types(group: Group, members: list[Node]) -> dict[str, Any]:
    counts = Counter(n.instance_type for n in members if n.status in STARTED)
    return {
        "InstanceRequirements": {
            "CurrentInstanceTypes": [t for t in group.types if counts[t]],
            "DesiredInstanceTypes": group.types,
        },
        "InstanceTypeDetails": [
            {"InstanceType": t, "CurrentCount": counts[t], "ThreadsPerCore": _threads(group.spec)} for t in group.types
        ],
    }


def _kubernetes_config(group: Group, nodes: list[Node]) -> dict[str, Any]:
    """Desired is what the group says; current what its nodes have, or what they would get if there are none."""
    labels, taints = group.wanted_labels, group.wanted_taints
    differing = next((n for n in nodes if n.joined and (n.labels, n.taints) != (labels, taints)), None)
    if differing is not None:
        current = (differing.labels, differing.taints)
    elif any(n.joined for n in nodes):
        current = (labels, taints)
    else:
        current = ({}, []) if nodes else (group.labels, group.taints)
    if not (labels or taints or current[0] or current[1]):
        return {}
    return {
        "CurrentLabels": current[0],
        "DesiredLabels": labels,
        "CurrentTaints": current[1],
        "DesiredTaints": taints,
    }
