"""What AWS shows, as entries of a timeline. Pure: from documents as the APIs give them.

(SageMaker API: ClusterEventSummary, ClusterNodeSummary, DescribeCluster; EKS API: Addon; EC2 API: Subnet,
SecurityGroup)
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from activities.diagnostics.lines import told
from contracts.diagnostics import Severity, Source, TimelineEntry

FEW_ADDRESSES = 20
"""Fewer free addresses than one node of most types takes."""
WELL = frozenset({"InService", "ACTIVE", "Running", "Creating", "Updating", "CREATING", "UPDATING", "SystemUpdating"})
LEVELS: dict[str, Severity] = {"Error": "error", "Warn": "warning"}

Raw = dict[str, Any]


def kubernetes_name(instance: str | None) -> str | None:
    """What the node of an instance is called in Kubernetes: HyperPod names it after the instance."""
    return f"hyperpod-{instance}" if instance else None


def of_event(event: Raw, text: str) -> TimelineEntry:
    """``text``: the event's description with its failure message (``activities.hyperpod.shortfall.event_text``)."""
    instance, group = event.get("InstanceId"), event.get("InstanceGroupName")
    about = f"instance {instance}" if instance else f"instance group {group}" if group else "HyperPod cluster"
    return TimelineEntry(
        at=event["EventTime"],
        source=Source.HYPERPOD_EVENT,
        severity=LEVELS.get(str(event.get("EventLevel")), "info"),
        subject=about,
        text=told(text),
        node=kubernetes_name(instance),
    )


def of_cluster(cluster: Raw) -> list[TimelineEntry]:
    """Status and failure message of a HyperPod cluster."""
    status, message = str(cluster.get("ClusterStatus")), cluster.get("FailureMessage")
    text = f"cluster status {status}" + (f": {message}" if message else "")
    severity: Severity = "info" if status in WELL and not message else "error"
    return [
        TimelineEntry(
            source=Source.CLUSTER,
            severity=severity,
            subject=f"HyperPod cluster {cluster['ClusterName']}",
            text=told(text),
        )
    ]


def of_control_plane(cluster: Raw) -> list[TimelineEntry]:
    """An EKS cluster that is not ACTIVE, and issues of its health."""
    name, status = cluster["name"], str(cluster.get("status"))
    issues = (cluster.get("health") or {}).get("issues") or []
    found = [f"{issue.get('code')}: {issue.get('message')}" for issue in issues]
    if status != "ACTIVE":
        found.insert(0, f"control plane is {status}")
    return [
        TimelineEntry(source=Source.CLUSTER, severity="error", subject=f"EKS cluster {name}", text=told(text))
        for text in found
    ]


def of_member(member: Raw) -> TimelineEntry | None:
    """A member of a HyperPod cluster that does not run; None for one that does."""
    state = member.get("InstanceStatus") or {}
    status, message = str(state.get("Status") or "Unknown"), state.get("Message")
    if status == "Running" and not message:
        return None
    instance = member.get("InstanceId")
    return TimelineEntry(
        source=Source.INSTANCE,
        severity="error" if status == "Failure" else "warning",
        subject=f"instance {instance or member.get('NodeLogicalId')}",
        text=told(f"{status} in group {member.get('InstanceGroupName')}" + (f": {message}" if message else "")),
        node=kubernetes_name(instance),
    )


def of_addon(addon: Raw) -> list[TimelineEntry]:
    """An EKS add-on that is not well."""
    name, status = addon["addonName"], str(addon.get("status"))
    issues = (addon.get("health") or {}).get("issues") or []
    if status in WELL and not issues:
        return []
    told_of = "; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in issues)
    text = f"{name} is {status}" + (f": {told_of}" if told_of else "")
    return [TimelineEntry(source=Source.ADDON, severity="error", subject=f"add-on {name}", text=told(text))]


def of_subnet(subnet: Raw) -> TimelineEntry | None:
    """A subnet that is nearly full; None for one that is not."""
    free = int(subnet.get("AvailableIpAddressCount") or 0)
    if free >= FEW_ADDRESSES:
        return None
    text = f"has {free} free addresses ({subnet.get('CidrBlock')} in {subnet.get('AvailabilityZone')})"
    return TimelineEntry(
        source=Source.NETWORK, severity="warning", subject=f"subnet {subnet['SubnetId']}", text=told(text)
    )


def of_security_group(group: Raw) -> list[TimelineEntry]:
    """A group that does not allow all traffic from and to itself, which EFA needs."""
    own = group["GroupId"]
    found = []
    if not _all_traffic(group.get("IpPermissions") or (), own):
        found.append("lets no traffic from itself in")
    if not _all_traffic(group.get("IpPermissionsEgress") or (), own):
        found.append("lets no traffic to itself out")
    return [
        TimelineEntry(source=Source.NETWORK, severity="warning", subject=f"security group {own}", text=text)
        for text in found
    ]


def _all_traffic(permissions: Iterable[Raw], own: str) -> bool:
    return any(
        permission.get("IpProtocol") == "-1"
        and any(pair.get("GroupId") == own for pair in permission.get("UserIdGroupPairs") or ())
        for permission in permissions
    )


def of_quota(name: str, value: float, wanted: int) -> TimelineEntry | None:
    """A quota that is lower than what is asked for; None for one that is not."""
    if value >= wanted:
        return None
    text = f"{name} is {value:g}: that is lower than the {wanted} that are asked for"
    return TimelineEntry(source=Source.QUOTA, severity="error", subject="service quota", text=told(text))


def moment(value: Any) -> datetime | None:
    """A time of an API that may be missing."""
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(str(value))
