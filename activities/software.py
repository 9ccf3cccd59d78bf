"""The software of instance groups: read, updated once, and watched to the end of the update or of its way back.

UpdateClusterSoftware takes no client token, and asked for twice makes the root volumes anew twice. So the groups are
compared first with what they were before: an update that shows was accepted, and is not asked for again.
API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateClusterSoftware.html
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.context import attempt
from activities.errors import clean, fail
from activities.hyperpod.cluster import as_cluster
from activities.hyperpod.groups import Specification, groups_of
from activities.hyperpod.shortfall import event_text
from activities.hyperpod.translator import types_of
from activities.kubernetes import KubernetesClients
from activities.nodes.back import Watcher, lack
from activities.nodes.sight import Raw, members, required
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.hyperpod import counted
from contracts.problem import ProblemCode
from contracts.software import (
    READ_SOFTWARE,
    UPDATE_SOFTWARE,
    WAIT_FOR_SOFTWARE,
    BatchSize,
    GroupSoftware,
    ReadSoftware,
    RollingUpdate,
    SoftwareRead,
    SoftwareUpdate,
    SoftwareUpdated,
    UpdateSoftware,
    UpdateSoftwareSpec,
    WaitForSoftware,
)

GOING = ("Pending", "InProgress", "RollbackInProgress")
UNDONE = ("Failed", "RollbackComplete")
DEFAULT_IMAGE = "default"
EVENT_MARGIN = timedelta(minutes=2)
MAX_EVENTS = 50
SHOWN = 3


class SoftwareActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=READ_SOFTWARE.name)
    def read_software(self, request: ReadSoftware) -> SoftwareRead:
        """Image, version and update of every group. Raises NOT_FOUND where there is no such HyperPod cluster."""
        found = required(self._aws, request.region, request.hyperpod)
        listed = members(self._aws, request.region, found)
        return SoftwareRead(
            cluster_status=found["ClusterStatus"], groups=software_of(found, listed), read_at=datetime.now(UTC)
        )

    @activity.defn(name=UPDATE_SOFTWARE.name)
    def update_software(self, request: UpdateSoftware) -> SoftwareUpdate:
        """Ask for the update of the groups that need it. Does not wait for it.

        Raises BUSY (retried) while the cluster is in transition.
        """
        region, spec = request.scope.region, request.spec
        if attempt() > 1:
            # What an earlier attempt did may take a moment to show.
            time.sleep(self._settings.settle_seconds)
        found = required(self._aws, region, request.name)
        now = {each.group: each for each in software_of(found, members(self._aws, region, found))}
        before = {each.group: each for each in request.before}
        todo = [name for name in asked_groups(spec, request.before) if name in now and needed(spec, before[name])]
        unchanged = [name for name in asked_groups(spec, request.before) if name not in todo]
        # The service takes all groups of a request or none.
        if any(_accepted(before[name], now[name]) for name in todo) or not todo:
            return SoftwareUpdate(groups=todo, unchanged=unchanged, changed=bool(todo))
        options: Any = {}
        if spec.image_id:
            options["ImageId"] = spec.image_id
        if spec.rolling:
            options["DeploymentConfig"] = deployment(spec.rolling)
        version = {"ImageReleaseVersion": spec.release_version} if spec.release_version else {}
        groups: Any = [{"InstanceGroupName": name, **version} for name in todo]
        self._aws.act.sagemaker(region).update_cluster_software(
            ClusterName=request.name, InstanceGroups=groups, **options
        )
        return SoftwareUpdate(groups=todo, unchanged=unchanged, changed=True)

    @activity.defn(name=WAIT_FOR_SOFTWARE.name)
    async def wait_for_software(self, request: WaitForSoftware) -> SoftwareUpdated:
        """Until every group's update has Succeeded and its nodes work again.

        Raises NOT_READY, when no group's update goes on any more, for groups whose update failed or was rolled back:
        their nodes run the former image.
        """
        watcher = Watcher(self._aws, self._kubernetes, self._settings, request.name, request.scope.region)
        since = activity.info().scheduled_time - EVENT_MARGIN
        before = {each.group: each for each in request.before}

        def look(memory: Memory) -> Seen[SoftwareUpdated]:
            sight = watcher.see(request.eks_cluster)
            groups = [each for each in software_of(sight.cluster, sight.members) if each.group in request.groups]
            begun: list[str] = memory.notes.setdefault("begun", [])
            begun += [
                each.group
                for each in groups
                if each.group not in begun and (each.group not in before or moved(before[each.group], each))
            ]
            ended = [each for each in groups if each.group in begun and each.update_status not in GOING]
            undone = [each for each in ended if each.update_status in UNDONE]
            if undone and len(ended) == len(groups):
                self._undone(request, sight.cluster, undone, since)
            lacks = [
                text
                for member in sight.members
                if member.get("InstanceGroupName") in request.groups
                and (text := lack(sight, member, watcher.facts(sight)))
            ]
            detail = "; ".join(map(progress, groups))
            settled = sight.cluster["ClusterStatus"] != "SystemUpdating"
            if len(ended) == len(request.groups) and settled and not lacks:
                cluster = as_cluster(sight.cluster, True)
                return Seen(detail, SoftwareUpdated(cluster=cluster, **counted(watcher.joined(sight)), groups=groups))
            waiting = [f"{number} {text}" for text, number in Counter(lacks).most_common(SHOWN)]
            return Seen("; ".join([detail, *waiting]))

        limit = WAIT_FOR_SOFTWARE.limit
        poll = self._settings.poll_seconds
        return await wait_until(look, what="the groups' new software", limit=limit, poll_seconds=poll)

    def _undone(
        self, request: WaitForSoftware, cluster: Specification, undone: list[GroupSoftware], since: datetime
    ) -> None:
        reasons = self._reasons(request, cluster, {each.group for each in undone}, since)
        said = []
        for each in undone:
            rolled = each.update_status == "RollbackComplete"
            what = "was rolled back" if rolled else "failed, and so did its way back"
            on = each.current_version or each.current_image or "its former image"
            said.append(f"the update of instance group {each.group} {what}: it is on {on}")
        fail(
            ProblemCode.NOT_READY,
            "; ".join([*said, *reasons[:SHOWN]]),
            "See the nodes and /aws/sagemaker/Clusters logs for why they did not start; mend that, and retry to update "
            "again, with other rolling settings or another version if need be.",
            retryable=True,
            field="/groups",
        )

    def _reasons(
        self, request: WaitForSoftware, cluster: Specification, groups: set[str], since: datetime
    ) -> list[str]:
        """What the events say; only Continuous clusters have any."""
        if cluster.get("NodeProvisioningMode") != "Continuous":
            return []
        region = request.scope.region
        events = self._aws.read.sagemaker(region).list_cluster_events(
            ClusterName=request.name,
            EventTimeAfter=since,
            SortBy="EventTime",
            SortOrder="Descending",
            MaxResults=MAX_EVENTS,
        )["Events"]
        errors = [
            each for each in events if each.get("EventLevel") == "Error" and each.get("InstanceGroupName") in groups
        ]
        texts = [clean(event_text(self._aws, region, request.name, each), 200) for each in errors[:SHOWN]]
        return list(dict.fromkeys(texts))


def software_of(found: Specification, listed: list[Raw]) -> list[GroupSoftware]:
    """The software of every group of a described cluster."""
    result = []
    for group in groups_of(found):
        name = group["InstanceGroupName"]
        nodes = [each for each in listed if each.get("InstanceGroupName") == name and each.get("InstanceId")]
        times = [each["LastSoftwareUpdateTime"] for each in nodes if each.get("LastSoftwareUpdateTime")]
        versions = Counter(
            each["CurrentImageReleaseVersion"] for each in nodes if each.get("CurrentImageReleaseVersion")
        )
        result.append(
            GroupSoftware(
                group=name,
                instance_type=" or ".join(types_of(group)),
                nodes=len(nodes),
                current_image=group.get("CurrentImageId"),
                desired_image=group.get("DesiredImageId"),
                current_version=group.get("CurrentImageReleaseVersion") or None,
                desired_version=group.get("DesiredImageReleaseVersion") or None,
                image_status=group.get("ImageVersionStatus"),
                update_status=group.get("SoftwareUpdateStatus"),
                on_desired=group.get("TargetStateCount") or 0,
                versions=dict(sorted(versions.items())),
                last_update_at=max(times, default=None),
            )
        )
    return result


def asked_groups(spec: UpdateSoftwareSpec, groups: list[GroupSoftware]) -> list[str]:
    return [each.group for each in groups if not spec.groups or each.group in spec.groups]


def needed(spec: UpdateSoftwareSpec, group: GroupSoftware) -> bool:
    """Whether the update would change the group, as far as the API tells."""
    wanted, current = spec.image_id or group.desired_image or DEFAULT_IMAGE, group.current_image or DEFAULT_IMAGE
    if wanted != current or (group.desired_image or DEFAULT_IMAGE) != current:
        return True
    if wanted != DEFAULT_IMAGE:
        return group.on_desired < group.nodes
    if spec.release_version:
        return not (set(group.versions) <= {spec.release_version} and group.current_version == spec.release_version)
    one = len(group.versions) <= 1 and group.current_version == group.desired_version
    return not (one and group.image_status == "UpToDate")


def moved(before: GroupSoftware, now: GroupSoftware) -> bool:
    """Whether an update of the group has begun, or ended, since it was looked at before."""
    if now.update_status != before.update_status or now.update_status in GOING:
        return True
    newer = now.last_update_at is not None and now.last_update_at != before.last_update_at
    return newer or (now.desired_version, now.desired_image) != (before.desired_version, before.desired_image)


def _accepted(before: GroupSoftware, now: GroupSoftware) -> bool:
    """An update that was under way before is somebody else's."""
    return before.update_status not in GOING and moved(before, now)


def progress(group: GroupSoftware) -> str:
    """``workers InProgress to 1.0.5, 2 of 8 nodes``."""
    wanted = group.desired_image if group.custom else group.desired_version
    status = group.update_status or "not begun"
    return (
        f"{group.group} {status}" + (f" to {wanted}" if wanted else "") + f", {group.on_desired} of {group.nodes} nodes"
    )


def deployment(rolling: RollingUpdate) -> dict[str, Any]:
    """The API's DeploymentConfiguration."""
    policy: dict[str, Any] = {"MaximumBatchSize": _size(rolling.maximum_batch)}
    if rolling.rollback_batch:
        policy["RollbackMaximumBatchSize"] = _size(rolling.rollback_batch)
    result: dict[str, Any] = {"RollingUpdatePolicy": policy, "WaitIntervalInSeconds": rolling.wait_seconds}
    if rolling.rollback_alarms:
        result["AutoRollbackConfiguration"] = [{"AlarmName": name} for name in rolling.rollback_alarms]
    return result


def _size(size: BatchSize) -> dict[str, Any]:
    return {"Type": size.type, "Value": size.value}
