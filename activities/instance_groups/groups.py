"""Groups added, changed and deleted, each by one UpdateCluster that names only the group at hand."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.errors import fail
from activities.hyperpod.cluster import as_cluster, describe
from activities.hyperpod.groups import (
    Specification,
    difference,
    group_of,
    groups_of,
    kubernetes_config,
    placement,
    specification,
    unchanged,
)
from activities.instance_groups.look import cluster_for, group_for, template_for, update
from activities.instance_groups.references import node_classes_of
from activities.kubernetes import KubernetesClients
from contracts.hyperpod import HyperPodCluster
from contracts.instance_groups import (
    ADD_GROUP,
    DELETE_GROUP,
    READ_GROUPS,
    UPDATE_GROUP,
    AddGroup,
    DeleteGroup,
    GroupDeleted,
    GroupEnsured,
    GroupUpdated,
    ReadGroups,
    UpdateGroup,
    UpdateInstanceGroupSpec,
)
from contracts.problem import ProblemCode
from contracts.words import number_of

LAST_GROUP = (
    "It is the last instance group of {cluster}: delete the HyperPod level of the cluster instead (delete-cluster with "
    "level hyperpod), or add another group first."
)
KARPENTER_GROUP = "Delete those node pools first (delete-node-pool), or take the group out of them; then delete it."


class InstanceGroupActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=READ_GROUPS.name)
    def read(self, request: ReadGroups) -> HyperPodCluster:
        """The cluster with its groups, as SageMaker describes it now. Raises NOT_FOUND."""
        found = describe(self._aws, request.scope.region, request.hyperpod_cluster)
        if found is None:
            remedy = "Create it first (create-hyperpod)."
            fail(ProblemCode.NOT_FOUND, f"There is no HyperPod cluster {request.hyperpod_cluster}", remedy)
        return as_cluster(found, changed=False)

    @activity.defn(name=ADD_GROUP.name)
    def add(self, request: AddGroup) -> GroupEnsured:
        """The cluster with the group as asked; does not wait for nodes. No other group is named.

        A group of the name that is elsewhere or of another type, and has no node, is deleted and named in
        ``cluster.replacing``: wait for it to go and call again. One that is alike gets the asked count, and, while it
        has no node, everything else that was asked.

        Raises CONFLICT for a group with nodes that differs, BUSY (retried) while the cluster is in transition,
        NOT_READY for a Failed one, CAPACITY or QUOTA as SageMaker says.
        """
        region, spec = request.scope.region, request.group.spec
        found = cluster_for(self._aws, region, request.hyperpod_cluster)
        current = group_of(found, spec.name)
        if current is not None and current.get("Status") == "Deleting":
            cluster = as_cluster(found, changed=False, replacing=[spec.name])
            return GroupEnsured(group=spec.name, cluster=cluster, changed=True)
        asked = specification(template_for(request, found), request.group)
        if current is None:
            self._update(region, found, InstanceGroups=[asked])
        elif shown := difference(placement(asked), placement(current)):
            if current.get("CurrentCount", 0):
                fail(
                    ProblemCode.CONFLICT,
                    f"Instance group {spec.name} has {number_of(current['CurrentCount'], 'node')} and differs: {shown}",
                    "Ask for what exists, or give the new group another name.",
                    field="/name",
                )
            self._update(region, found, InstanceGroupsToDelete=[spec.name])
            cluster = as_cluster(found, changed=True, replacing=[spec.name])
            return GroupEnsured(group=spec.name, cluster=cluster, changed=True)
        elif not current.get("CurrentCount", 0) and other_members(asked, unchanged(self._aws, region, current)):
            self._update(region, found, InstanceGroups=[asked])
        elif current.get("TargetCount") != spec.count:
            update(self._aws, region, found, current, {"InstanceCount": spec.count})
        else:
            return GroupEnsured(group=spec.name, cluster=as_cluster(found, changed=False), changed=False)
        after = describe(self._aws, region, request.hyperpod_cluster) or found
        return GroupEnsured(group=spec.name, cluster=as_cluster(after, changed=True), changed=True)

    @activity.defn(name=UPDATE_GROUP.name)
    def update(self, request: UpdateGroup) -> GroupUpdated:
        """Change the members of a group that are named, and nothing else of it.

        Raises NOT_FOUND, INVALID for a minimum above the group's target, BUSY (retried) and NOT_READY as ``add``.
        """
        found, group = group_for(self._aws, request)
        same = unchanged(self._aws, request.scope.region, group)
        changes = changed_members(same, request.changes)
        if not changes:
            return GroupUpdated(group=request.group, changed=False)
        update(self._aws, request.scope.region, found, group, changes)
        return GroupUpdated(group=request.group, changed_members=sorted(changes))

    @activity.defn(name=DELETE_GROUP.name)
    def delete(self, request: DeleteGroup) -> GroupDeleted:
        """Begin the deletion of a group with its nodes. One that is not there, or is going, is left alone.

        Raises CONFLICT for the last group of its cluster and for one that a HyperpodNodeClass names.
        """
        found = cluster_for(self._aws, request.scope.region, request.hyperpod_cluster)
        group = group_of(found, request.group)
        if group is None or group.get("Status") == "Deleting":
            return GroupDeleted(group=request.group, changed=False)
        if len(groups_of(found)) == 1:
            fail(
                ProblemCode.CONFLICT,
                f"{request.group} is the last instance group of {found['ClusterName']}",
                LAST_GROUP.format(cluster=found["ClusterName"]),
            )
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            classes = node_classes_of(api, request.group)
        if classes:
            fail(
                ProblemCode.CONFLICT,
                f"HyperpodNodeClass {', '.join(classes)} names the group {request.group}",
                KARPENTER_GROUP,
            )
        self._update(request.scope.region, found, InstanceGroupsToDelete=[request.group])
        return GroupDeleted(group=request.group)

    def _update(self, region: str, found: Specification, **what: Any) -> None:
        self._aws.act.sagemaker(region).update_cluster(ClusterName=found["ClusterName"], **what)


def other_members(asked: Specification, same: Specification) -> list[str]:
    """Members that are asked and that the group has otherwise; what was left out is the service's to choose."""
    return [name for name in asked if name != "InstanceCount" and _by_meaning(asked, name) != _by_meaning(same, name)]


def _by_meaning(group: Specification, member: str) -> Any:
    value = group.get(member)
    return _labels_and_taints(value or {}) if member == "KubernetesConfig" else value


def changed_members(same: Specification, changes: UpdateInstanceGroupSpec) -> Specification:
    """The members of a group's specification that ``changes`` make another, with their new values; None: left out."""
    wanted: Specification = {}
    if changes.min_count is not None and changes.min_count != same.get("MinInstanceCount", 0):
        wanted["MinInstanceCount"] = changes.min_count
    if changes.deep_health_checks is not None:
        wanted["OnStartDeepHealthChecks"] = list(changes.deep_health_checks) or None
    if changes.volume_gib is not None:
        wanted["InstanceStorageConfigs"] = _resized(same.get("InstanceStorageConfigs") or [], changes.volume_gib)
    before = same.get("KubernetesConfig") or {}
    config = {**before, **kubernetes_config(changes.labels, changes.taints)}
    if _labels_and_taints(config) != _labels_and_taints(before):
        wanted["KubernetesConfig"] = config
    return {name: value for name, value in wanted.items() if value != same.get(name)}


def _labels_and_taints(config: Specification) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """What a group gives its nodes, by meaning: one that gives none is described without the members, too."""
    taints = ((each["Key"], each.get("Value") or "", each["Effect"]) for each in config.get("Taints") or [])
    return dict(config.get("Labels") or {}), sorted(taints)


def _resized(configs: list[Any], gib: int) -> list[Any]:
    """The first volume beside the root volume with another size, or one more; everything else as it is."""
    resized, done = [], False
    for config in configs:
        volume = config.get("EbsVolumeConfig")
        if volume is not None and not volume.get("RootVolume") and not done:
            config, done = {"EbsVolumeConfig": {**volume, "VolumeSizeInGB": gib}}, True
        resized.append(config)
    return resized if done else [*resized, {"EbsVolumeConfig": {"VolumeSizeInGB": gib}}]
