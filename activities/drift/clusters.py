"""EKS cluster, HyperPod cluster, groups, file systems and tracking servers as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.drift.looking import looked
from activities.eks import describe as describe_eks
from activities.errors import is_absent
from activities.experiments import servers
from activities.hyperpod.cluster import describe
from activities.hyperpod.groups import Specification, as_group, groups_of
from activities.node_groups.observe import as_node_group, describe_all
from contracts.cluster import ClusterRecord
from contracts.drift import DriftKind, Member, Properties, Sight
from contracts.drift_look import LOOK_AT_CLUSTERS, LookForDrift
from contracts.drift_recorded import AVAILABLE, HEALTHY, member_of_group, member_of_node_group
from contracts.names import ClusterNames
from contracts.network import Scope

AUTOSCALED = "k8s.io/cluster-autoscaler/enabled"
"""The tag by which Kubernetes' Cluster Autoscaler finds node groups whose size it sets."""
WORKING = ("InService", "Creating", "Updating", "SystemUpdating", "RollingBack")


class ClusterLooks:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=LOOK_AT_CLUSTERS.name)
    def look_at_clusters(self, request: LookForDrift) -> Sight:
        """The control plane, the HyperPod cluster with its groups, EKS node groups, FSx file systems of claims, and the
        cluster's tracking servers."""
        record, scope = request.record, request.scope
        plane = record.control_plane
        hyperpod = (DriftKind.HYPERPOD, DriftKind.INSTANCE_GROUP)
        return looked(
            (
                ((DriftKind.CONTROL_PLANE,), lambda: self._control_plane(record, scope)),
                (hyperpod, lambda: self._hyperpod(record, scope)),
                ((DriftKind.NODE_GROUP,), lambda: self._node_groups(scope, plane.name) if plane else ()),
                ((DriftKind.FILE_SYSTEM,), lambda: self._file_systems(record, scope)),
                ((DriftKind.TRACKING_SERVER,), lambda: self._servers(scope)),
            )
        )

    def _control_plane(self, record: ClusterRecord, scope: Scope) -> Iterator[Member]:
        if record.control_plane is None:
            return
        found: Any = describe_eks(self._aws, scope.region, record.control_plane.name)
        if found is None or found["status"] == "DELETING":
            return
        place = found.get("resourcesVpcConfig", {})
        public = sorted(place.get("publicAccessCidrs", [])) if place.get("endpointPublicAccess") else []
        properties: Properties = {
            "kubernetes_version": found["version"],
            "vpc_id": place.get("vpcId"),
            "role_arn": found["roleArn"],
            "public_access": public,
        }
        yield Member(kind=DriftKind.CONTROL_PLANE, name=found["name"], properties=properties)

    def _hyperpod(self, record: ClusterRecord, scope: Scope) -> Iterator[Member]:
        recorded = record.hyperpod.name if record.hyperpod else ClusterNames(scope.cluster).hyperpod_cluster
        found = describe(self._aws, scope.region, recorded)
        if found is None or found["ClusterStatus"] == "Deleting":
            return
        status = found["ClusterStatus"]
        properties: Properties = {
            "state": HEALTHY if status in WORKING else status,
            "provisioning": found.get("NodeProvisioningMode") or "Classic",
            "node_recovery": found.get("NodeRecovery"),
            "autoscaling": (found.get("AutoScaling") or {}).get("Mode", "Disable"),
        }
        if record.hyperpod is None:
            tags = pages(self._aws.read.sagemaker(scope.region), "list_tags", "Tags", ResourceArn=found["ClusterArn"])
            owned = is_ours(tag_map(list(tags)), scope.cluster)
            told: Properties = {**properties, "arn": found["ClusterArn"], "status": status}
            yield Member(kind=DriftKind.HYPERPOD, name=recorded, properties=told, owned=owned)
            return
        yield Member(kind=DriftKind.HYPERPOD, name=recorded, properties=properties)
        for group in groups_of(found):
            if group.get("Status") != "Deleting":
                yield _group(group)

    def _node_groups(self, scope: Scope, cluster: str) -> Iterator[Member]:
        for found in describe_all(self._aws, scope.region, cluster):
            if found["status"] == "DELETING":
                continue
            member = member_of_node_group(as_node_group(found, scope.cluster))
            unknown = {"instance_types"} if not member.properties["instance_types"] else set()
            if found.get("tags", {}).get(AUTOSCALED) == "true":
                unknown.add("desired")
            told = {key: value for key, value in member.properties.items() if key not in unknown}
            yield member.model_copy(update={"properties": told})

    def _file_systems(self, record: ClusterRecord, scope: Scope) -> Iterator[Member]:
        fsx = self._aws.read.fsx(scope.region)
        for name in sorted({each.file_system for each in record.storage if each.file_system}):
            try:
                found = fsx.describe_file_systems(FileSystemIds=[name])["FileSystems"][0]
            except Exception as error:
                if not is_absent(error, "FileSystemNotFound"):
                    raise
                continue
            life = found.get("Lifecycle")
            if life == "DELETING":
                continue
            state = AVAILABLE if life in ("AVAILABLE", "UPDATING", "CREATING") else f"{life}".lower()
            yield Member(kind=DriftKind.FILE_SYSTEM, name=name, properties={"state": state}, owned=False)

    def _servers(self, scope: Scope) -> Iterator[Member]:
        for each in servers.listed(self._aws, scope.region):
            if each.cluster == scope.cluster and each.status not in ("Deleting", "Deleted"):
                properties: Properties = {"size": each.size, "artifacts": each.artifacts, "role": each.role_arn}
                yield Member(kind=DriftKind.TRACKING_SERVER, name=each.name, properties=properties)


def _group(group: Specification) -> Member:
    member = member_of_group(as_group(group))
    lifecycle = group.get("LifeCycleConfig") or {}
    more: Properties = {
        "execution_role": group.get("ExecutionRole"),
        "lifecycle": f"{lifecycle.get('SourceS3Uri', '')}/{lifecycle.get('OnCreate', '')}" if lifecycle else None,
        "security_groups": list((group.get("OverrideVpcConfig") or {}).get("SecurityGroupIds", [])),
    }
    return member.model_copy(update={"properties": {**member.properties, **more}})
