"""A group brought to a count: by nodes that are added, by chosen nodes that are deleted, or by its target.

A decision is made once (``plan_scaling``) and stands in the workflow's history; the acts carry out exactly that, so
that a repeated act never adds or deletes more. With Continuous provisioning only: where it is not, the target is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from temporalio import activity

from activities.aws import AwsClients, token
from activities.errors import fail
from activities.hyperpod.groups import group_of
from activities.instance_groups.choice import candidates
from activities.instance_groups.look import cluster_for, group_for, update
from activities.kubernetes import KubernetesClients
from contracts.instance_groups import (
    ADD_NODES,
    PLAN_SCALING,
    REMOVE_NODES,
    SET_COUNT,
    AddNodes,
    PlanScaling,
    RemoveNodes,
    Road,
    Scaled,
    ScalingPlan,
    SetCount,
)
from contracts.problem import ProblemCode
from contracts.words import number_of

Item = TypeVar("Item")

MOST_ADDED = 50
"""Nodes of one BatchAddClusterNodes."""
MOST_DELETED = 50
"""Identifiers of one BatchDeleteClusterNodes, of both kinds together. (SageMaker API)"""
ALREADY_GOING = ("NodeIdNotFound", "InvalidNodeStatus")


class ScalingActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=PLAN_SCALING.name)
    def plan_scaling(self, request: PlanScaling) -> ScalingPlan:
        """How the group gets to ``count`` from what it is now. Changes nothing. Raises as ``look.group_for``."""
        region = request.scope.region
        found, group = group_for(self._aws, request)
        target, current = group.get("TargetCount", 0), group.get("CurrentCount", 0)
        if target == request.count:
            return ScalingPlan(road=Road.NONE, target=target, current=current)
        if found.get("NodeProvisioningMode") != "Continuous":
            return ScalingPlan(road=Road.UPDATE, target=target, current=current)
        if target < request.count:
            return ScalingPlan(road=Road.ADD, target=target, current=current)
        with self._kubernetes.connect(region, request.eks_cluster) as api:
            ordered = candidates(self._aws, region, request.hyperpod_cluster, request.group, api)
        if len(ordered) < target - request.count:
            # Nodes that are not even listed cannot be named.
            return ScalingPlan(road=Road.UPDATE, target=target, current=current)
        chosen = ordered[: target - request.count]
        return ScalingPlan(
            road=Road.REMOVE,
            target=target,
            current=current,
            nodes=[each.identifier for each in chosen],
            busy=[f"{each.identifier} ({number_of(each.user_pods, 'pod')})" for each in chosen if each.user_pods],
        )

    @activity.defn(name=ADD_NODES.name)
    def add_nodes(self, request: AddNodes) -> Scaled:
        """Add nodes until the target is ``base + count``.

        Each call's token is made of the targets before and after it: a repeated call with the same ones, whose first
        answer was lost, adds nothing (SageMaker keeps a token for 8 hours; later the target itself tells). Raises BUSY
        (retried) while the cluster or the group is in transition, QUOTA, INVALID as SageMaker says, and CONFLICT when
        somebody else has changed the target meanwhile.
        """
        aim = request.base + request.count
        reached = self._target(request)
        if reached != request.base and not request.base < reached <= aim:
            fail(
                ProblemCode.CONFLICT,
                f"Instance group {request.group} had the target {request.base}; it has {reached} now",
                "Somebody else scales it; retry to begin again from what it is now.",
                retryable=True,
            )
        changed = reached < aim
        while reached < aim:
            count = min(aim - reached, MOST_ADDED)
            answer = self._aws.act.sagemaker(request.scope.region).batch_add_cluster_nodes(
                ClusterName=request.hyperpod_cluster,
                ClientToken=token(f"{request.group}/{request.step}/{reached}-{reached + count}"),
                NodesToAdd=[{"InstanceGroupName": request.group, "IncrementTargetCountBy": count}],
            )
            if failed := answer.get("Failed"):
                _not_added(failed[0])
            reached += count
        return Scaled(group=request.group, target=reached, changed=changed)

    @activity.defn(name=REMOVE_NODES.name)
    def remove_nodes(self, request: RemoveNodes) -> Scaled:
        """Delete exactly these nodes; each lowers the target by one. Those that are gone, or going, are left alone.

        Raises BUSY (retried) while the cluster is in transition or a node is in use by another change.
        """
        region = request.scope.region
        cluster_for(self._aws, region, request.hyperpod_cluster)
        act, changed = self._aws.act.sagemaker(region), False
        for chunk in _chunks(request.nodes, MOST_DELETED):
            instances = [each for each in chunk if each.startswith("i-")]
            logical = [each for each in chunk if not each.startswith("i-")]
            kinds: dict[str, Any] = {"NodeIds": instances, "NodeLogicalIds": logical}
            answer: Any = act.batch_delete_cluster_nodes(
                ClusterName=request.hyperpod_cluster, **{kind: names for kind, names in kinds.items() if names}
            )
            failed = [*answer.get("Failed", []), *answer.get("FailedNodeLogicalIds", [])]
            changed = changed or bool(answer.get("Successful") or answer.get("SuccessfulNodeLogicalIds"))
            for each in failed:
                if each["Code"] not in ALREADY_GOING:
                    name = each.get("NodeId") or each.get("NodeLogicalId")
                    detail = f"Node {name} could not be deleted: {each['Code']}: {each.get('Message', '')}"
                    fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True)
        return Scaled(group=request.group, target=self._target(request), changed=changed)

    @activity.defn(name=SET_COUNT.name)
    def set_count(self, request: SetCount) -> Scaled:
        """Set the group's target by UpdateCluster; nothing else of it, and no other group, is touched."""
        found, group = group_for(self._aws, request)
        if group.get("TargetCount") == request.count:
            return Scaled(group=request.group, target=request.count, changed=False)
        update(self._aws, request.scope.region, found, group, {"InstanceCount": request.count})
        return Scaled(group=request.group, target=request.count)

    def _target(self, request: AddNodes | RemoveNodes) -> int:
        found = cluster_for(self._aws, request.scope.region, request.hyperpod_cluster)
        group = group_of(found, request.group) or {}
        return int(group.get("TargetCount", 0))


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _not_added(error: Any) -> NoReturn:
    """Why nodes were not added. (SageMaker API: BatchAddClusterNodesError)"""
    code = error["ErrorCode"]
    detail = f"not added: {number_of(error['FailedCount'], 'node')}: {error.get('Message', '')}"
    if code == "InvalidInstanceGroupStatus":
        fail(ProblemCode.BUSY, detail, "The platform tries again when the group is ready for it.", retry=True)
    if code == "InstanceGroupNotFound":
        fail(ProblemCode.NOT_FOUND, detail, "Add the group first.")
    fail(ProblemCode.INVALID, detail, "Ask for a type and a zone that the group allows.")
