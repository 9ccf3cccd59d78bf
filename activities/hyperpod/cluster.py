"""The HyperPod cluster and its instance groups, as asked.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateCluster.html
"""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, pages, tag_list, tag_map, tags_of
from activities.errors import fail, is_absent
from activities.hyperpod.groups import (
    Specification,
    Template,
    as_group,
    difference,
    groups_of,
    lifecycle_of,
    placement,
    specification,
    unchanged,
)
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.hyperpod import (
    ENSURE_HYPERPOD,
    WAIT_FOR_GROUPS_GONE,
    EnsureHyperPod,
    GroupsGone,
    HyperPodCluster,
    WaitForGroupsGone,
)
from contracts.names import ClusterNames
from contracts.problem import ProblemCode
from contracts.words import number_of

EVERYTHING = "*"
"""In ``replacing``: the whole cluster goes and is made anew."""


class HyperPodActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._poll = aws, settings.poll_seconds

    @activity.defn(name=ENSURE_HYPERPOD.name)
    def ensure_cluster(self, request: EnsureHyperPod) -> HyperPodCluster:
        """The cluster with at least the given groups; does not wait for nodes. Groups that are not named are left
        alone.

        Missing groups are added and differing counts set by one UpdateCluster. A group whose type, subnet or capacity
        differs is deleted if no node of it runs, and named in ``replacing``: wait for it to go
        (``hyperpod.wait_for_groups_gone``) and call again. ``replacing`` is ``["*"]`` when a cluster of ours that
        Failed without a node was deleted; wait and call again likewise.

        Raises FOREIGN for a cluster that is not ours, CONFLICT for one on another EKS cluster or in another mode or
        for a group with running nodes elsewhere, BUSY (retried) while the cluster is in transition, NOT_READY for a
        Failed one.
        """
        scope, name = request.scope, ClusterNames(request.scope.cluster).hyperpod_cluster
        found = describe(self._aws, scope.region, name)
        if found is None:
            return self._create(request, name)
        self._refuse(request, found)
        status = found["ClusterStatus"]
        if status == "Deleting":
            return as_cluster(found, changed=True, replacing=[EVERYTHING])
        if status == "Failed":
            return self._restart(request, found)
        return self._converge(request, found)

    def _create(self, request: EnsureHyperPod, name: str) -> HyperPodCluster:
        scope = request.scope
        mode: Any = {"NodeProvisioningMode": "Continuous"} if request.spec.provisioning == "Continuous" else {}
        subnets = list(dict.fromkeys(group.subnet.subnet_id for group in request.groups))
        asked: list[Any] = [specification(_template(request), group) for group in request.groups]
        if not request.groups:
            fail(
                ProblemCode.INVALID, "A HyperPod cluster needs an instance group", "Give one.", field="/instance_groups"
            )
        made = self._aws.act.sagemaker(scope.region).create_cluster(
            ClusterName=name,
            InstanceGroups=asked,
            VpcConfig={"SecurityGroupIds": [request.security_group_id], "Subnets": subnets[:16]},
            Orchestrator={"Eks": {"ClusterArn": request.eks_cluster_arn}},
            NodeRecovery=request.spec.node_recovery,
            Tags=tag_list(tags_of(scope, "hyperpod-cluster")),
            **mode,
        )
        groups = [as_group({**group, "TargetCount": group["InstanceCount"], "Status": "Creating"}) for group in asked]
        return HyperPodCluster(name=name, arn=made["ClusterArn"], status="Creating", groups=groups)

    def _refuse(self, request: EnsureHyperPod, found: Specification) -> None:
        """Raise where the cluster that exists is not ours, or not what was asked in what cannot be changed."""
        scope, name = request.scope, found["ClusterName"]
        tags = pages(self._aws.read.sagemaker(scope.region), "list_tags", "Tags", ResourceArn=found["ClusterArn"])
        if not is_ours(tag_map(list(tags)), scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"A HyperPod cluster {name} exists and does not carry the tag instantstart:cluster={scope.cluster}",
                "Choose another tag for the cluster, or delete that HyperPod cluster.",
            )
        asked = {"EKS cluster": request.eks_cluster_arn, "provisioning": request.spec.provisioning}
        exists = {
            "EKS cluster": found.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn"),
            "provisioning": found.get("NodeProvisioningMode") or "Classic",
        }
        if shown := difference(asked, exists):
            fail(
                ProblemCode.CONFLICT,
                f"HyperPod cluster {name} exists and differs: {shown}",
                "Ask for what exists, or delete the HyperPod cluster first.",
            )

    def _restart(self, request: EnsureHyperPod, found: Specification) -> HyperPodCluster:
        """A Failed cluster can only be deleted. (SageMaker API: UpdateCluster refuses it)"""
        name = found["ClusterName"]
        nodes = sum(group.get("CurrentCount", 0) for group in found.get("InstanceGroups", []))
        if nodes:
            fail(
                ProblemCode.NOT_READY,
                f"HyperPod cluster {name} Failed with {number_of(nodes, 'node')}: "
                f"{found.get('FailureMessage', 'no reason given')}",
                "Save what is on its nodes, delete the cluster, and retry.",
            )
        self._aws.act.sagemaker(request.scope.region).delete_cluster(ClusterName=name)
        return as_cluster(found, changed=True, replacing=[EVERYTHING])

    def _converge(self, request: EnsureHyperPod, found: Specification) -> HyperPodCluster:
        described = {group["InstanceGroupName"]: group for group in found.get("InstanceGroups", [])}
        changed: list[Specification] = []
        replaced: list[str] = []
        going: list[str] = []
        for group in request.groups:
            asked, current = specification(_template(request), group), described.get(group.spec.name)
            if current is None:
                changed.append(asked)
            elif current.get("Status") == "Deleting":
                going.append(group.spec.name)
            elif shown := difference(placement(asked), placement(current)):
                if current.get("CurrentCount", 0):
                    fail(
                        ProblemCode.CONFLICT,
                        f"Instance group {group.spec.name} has {number_of(current['CurrentCount'], 'node')} and "
                        f"differs: {shown}",
                        "Ask for what exists, add a group of another name, or delete the group first.",
                    )
                replaced.append(group.spec.name)
            elif current.get("TargetCount") != group.spec.count:
                same = unchanged(self._aws, request.scope.region, current)
                changed.append({**same, "InstanceCount": group.spec.count})
        if not changed and not replaced:
            return as_cluster(found, changed=False, replacing=going)
        self._update(request, found, changed, replaced)
        after = describe(self._aws, request.scope.region, found["ClusterName"]) or found
        return as_cluster(after, changed=True, replacing=[*going, *replaced])

    def _update(
        self, request: EnsureHyperPod, found: Specification, changed: list[Specification], replaced: list[str]
    ) -> None:
        """One UpdateCluster for everything. It answers ConflictException while the cluster is in transition."""
        update: Any = {}
        if changed:
            update["InstanceGroups"] = changed
        if replaced:
            update["InstanceGroupsToDelete"] = replaced
        self._aws.act.sagemaker(request.scope.region).update_cluster(ClusterName=found["ClusterName"], **update)

    @activity.defn(name=WAIT_FOR_GROUPS_GONE.name)
    async def wait_for_groups_gone(self, request: WaitForGroupsGone) -> GroupsGone:
        """Until none of the groups is there any more; with ``["*"]``, until the whole cluster is gone."""

        def look(memory: Memory) -> Seen[GroupsGone]:
            found = describe(self._aws, request.scope.region, request.name)
            if found is None:
                return Seen(f"{request.name} is gone", GroupsGone(groups=request.groups))
            if EVERYTHING in request.groups:
                return Seen(f"{request.name} {found['ClusterStatus']}")
            left = [g for g in found.get("InstanceGroups", []) if g["InstanceGroupName"] in request.groups]
            if not left:
                return Seen("the groups are gone", GroupsGone(groups=request.groups))
            return Seen(
                ", ".join(
                    f"{g['InstanceGroupName']} {g.get('Status', '')} ({number_of(g['CurrentCount'], 'node')})"
                    for g in left
                )
            )

        limit = WAIT_FOR_GROUPS_GONE.limit
        return await wait_until(look, what="the end of the groups", limit=limit, poll_seconds=self._poll)


def _template(request: EnsureHyperPod) -> Template:
    return Template(
        execution_role=request.execution_role_arn,
        lifecycle=lifecycle_of(request.lifecycle_scripts_uri),
        security_groups=[request.security_group_id],
    )


def describe(aws: AwsClients, region: str, name: str) -> Specification | None:
    """The HyperPod cluster as it is; None only where SageMaker says that there is none."""
    try:
        return dict(aws.read.sagemaker(region).describe_cluster(ClusterName=name))
    except Exception as error:
        if is_absent(error, "ResourceNotFound"):
            return None
        raise


def as_cluster(found: Specification, changed: bool, replacing: list[str] | None = None) -> HyperPodCluster:
    return HyperPodCluster(
        name=found["ClusterName"],
        arn=found["ClusterArn"],
        status=found["ClusterStatus"],
        groups=[as_group(group) for group in groups_of(found)],
        failure=found.get("FailureMessage") or None,
        provisioning=found.get("NodeProvisioningMode") or "Classic",
        replacing=replacing or [],
        changed=changed,
    )
