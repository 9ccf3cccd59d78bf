"""Reboot, replace and delete nodes: one batch call each, after a look at what an earlier attempt may have done.

None of the three calls takes a client token, and a reboot or a replacement that is asked for twice happens twice. So
every node is compared first with what it was before (:class:`NodeIdentity`): one that has changed in the way that the
call would change it was accepted already, and is not named again.
API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchReplaceClusterNodes.html and its neighbours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.context import attempt
from activities.diagnostics import kubernetes_entries
from activities.errors import fail
from activities.kubernetes import KubernetesClients
from activities.nodes.sight import Raw, Sight, boot_id, find_member, identity, look, status_of
from activities.settings import Settings
from contracts.nodes import (
    DELETE_NODES,
    OBSERVE_NODES,
    REBOOT_NODES,
    REPLACE_NODES,
    ActOnNodes,
    NodeFailure,
    NodeIdentity,
    NodesAccepted,
    ObservedNodes,
    ObserveNodes,
)
from contracts.problem import ProblemCode

REBOOTING = ("SystemUpdating",)
"""UNVERIFIED that SageMaker shows it while a node reboots; another boot ID is the sure sign."""
ENDING = ("ShuttingDown", "DetachInProgress")
REPLACING = (*REBOOTING, *ENDING)
IN_USE = "InstanceIdInUse"
"""Another operation is under way on this node: one of ours, or HyperPod's own recovery."""
BAD_STATUS = ("InvalidInstanceStatus", "InvalidNodeStatus", "NodeIdInUse")
"""The same where the node's status shows the very operation under way, and else that it cannot be done now."""
TRANSIENT = "InternalServerError"
MOST_FAULTS, LONGEST_FAULT = 5, 300
"""Of one node, and characters of each: they stay in the operation's result."""


@dataclass(frozen=True)
class Kind:
    """One of the three calls. ``going``: statuses that show it under way."""

    operation: Callable[[Any], Any]
    """Of a SageMaker client."""
    going: tuple[str, ...]
    done: Callable[[Sight, NodeIdentity], bool]
    """Whether the node is past it."""

    def accepted(self, sight: Sight, before: NodeIdentity) -> bool:
        """Whether the node has changed since as the call changes it."""
        return self.done(sight, before) or (self.under_way(sight, before) and before.status not in self.going)

    def under_way(self, sight: Sight, before: NodeIdentity) -> bool:
        member = sight.member(before)
        return member is not None and status_of(member) in self.going


class NodeActs:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=OBSERVE_NODES.name)
    def observe_nodes(self, request: ObserveNodes) -> ObservedNodes:
        """The nodes as they are, by any of their names. Raises NOT_FOUND with the names that no node has."""
        sight = look(self._aws, self._kubernetes, request.scope.region, request.name, request.eks_cluster)
        found: dict[str, NodeIdentity] = {}
        unknown = []
        for asked in request.nodes:
            member = find_member(sight, asked)
            if member is None:
                unknown.append(asked)
            else:
                found.setdefault(_key(member), _as_it_is(sight, asked, member))
        if unknown:
            fail(
                ProblemCode.NOT_FOUND,
                f"HyperPod cluster {request.name} has no node {', '.join(unknown)}",
                "List the nodes: some may have been replaced meanwhile. Retry with those that exist.",
                field="/nodes",
            )
        groups = {each.instance_group for each in found.values()}
        others = [
            member["InstanceId"]
            for member in sight.members
            if member.get("InstanceId") and member.get("InstanceGroupName") in groups and _key(member) not in found
        ]
        return ObservedNodes(nodes=list(found.values()), others=others)

    @activity.defn(name=REBOOT_NODES.name)
    def reboot_nodes(self, request: ActOnNodes) -> NodesAccepted:
        """Restart the operating systems. Does not wait for them."""
        return self._act(request, REBOOT)

    @activity.defn(name=REPLACE_NODES.name)
    def replace_nodes(self, request: ActOnNodes) -> NodesAccepted:
        """Have the instances ended and others started in their place. Does not wait for them."""
        return self._act(request, REPLACE)

    @activity.defn(name=DELETE_NODES.name)
    def delete_nodes(self, request: ActOnNodes) -> NodesAccepted:
        """Have the instances ended and their groups' targets lowered. Does not wait for their end."""
        return self._act(request, DELETE)

    def _act(self, request: ActOnNodes, kind: Kind) -> NodesAccepted:
        """Raises UNAVAILABLE (retried) where the service had an internal fault with a node."""
        region = request.scope.region
        if attempt() > 1:
            # What an earlier attempt did may take a moment to show.
            time.sleep(self._settings.settle_seconds)
        sight = look(self._aws, self._kubernetes, region, request.name, request.eks_cluster)
        before = [each.asked for each in request.nodes if kind.accepted(sight, each)]
        todo = [each for each in request.nodes if each.asked not in before]
        failures: list[NodeFailure] = []
        under_way: list[str] = []
        if todo:
            call = kind.operation(self._aws.act.sagemaker(region))
            answer = call(ClusterName=request.name, **_identifiers(todo))
            for failed in [*answer.get("Failed", ()), *answer.get("FailedNodeLogicalIds", ())]:
                each = _named(todo, failed)
                code = str(failed.get("ErrorCode") or failed.get("Code") or "")
                if code == TRANSIENT:
                    fail(
                        ProblemCode.UNAVAILABLE,
                        f"SageMaker had an internal fault with node {each.name}: {failed.get('Message', '')}",
                        "The platform tries again; nodes that were accepted are not named once more.",
                        retry=True,
                    )
                if code == IN_USE or (code in BAD_STATUS and kind.under_way(sight, each)):
                    under_way.append(each.asked)
                else:
                    failures.append(NodeFailure(node=each.asked, code=code, message=str(failed.get("Message") or "")))
        refused = {failure.node for failure in failures}
        taken = [each for each in request.nodes if each.asked not in refused]
        return NodesAccepted(
            changed=len(taken) > len(before) + len(under_way),
            summary=", ".join(each.name for each in taken[:5]) + (" …" if len(taken) > 5 else ""),
            accepted=[each.asked for each in taken],
            # What a repeated attempt finds done was this request's own doing.
            already=[*(before if attempt() == 1 else []), *under_way],
            failed=failures,
        )


def _as_it_is(sight: Sight, asked: str, member: Raw) -> NodeIdentity:
    """A node with what Kubernetes tells of its faults."""
    node = sight.node(member)
    told = [entry.text[:LONGEST_FAULT] for entry in kubernetes_entries.of_node(node)] if node is not None else []
    return identity(sight, asked, member).model_copy(update={"faults": told[:MOST_FAULTS]})


def _key(member: Raw) -> str:
    return str(member.get("InstanceId") or member.get("NodeLogicalId"))


def _identifiers(nodes: list[NodeIdentity]) -> dict[str, list[str]]:
    """By instance, and by logical ID only those that have no instance."""
    instances = [each.instance_id for each in nodes if each.instance_id]
    logical = [each.logical_id or each.asked for each in nodes if not each.instance_id]
    named: dict[str, list[str]] = {"NodeIds": instances, "NodeLogicalIds": logical}
    return {member: names for member, names in named.items() if names}


def _named(nodes: list[NodeIdentity], failed: Raw) -> NodeIdentity:
    instance, logical = failed.get("NodeId"), failed.get("NodeLogicalId")
    return next(
        each
        for each in nodes
        if (instance and each.instance_id == instance) or (logical and each.logical_id == logical)
    )


def _rebooted(sight: Sight, before: NodeIdentity) -> bool:
    """It has booted anew; or HyperPod has replaced it, which is more."""
    member = sight.member(before)
    if member is None:
        return sight.successor(before) is not None
    now = boot_id(sight.node(member))
    return bool(before.boot_id and now and now != before.boot_id)


def _replaced(sight: Sight, before: NodeIdentity) -> bool:
    member = sight.member(before)
    if member is None:
        return True
    launched = member.get("LaunchTime")
    return bool(before.launched_at and launched and launched > before.launched_at)


def _deleted(sight: Sight, before: NodeIdentity) -> bool:
    """A node that HyperPod has replaced meanwhile was not deleted: its successor would stay."""
    return sight.member(before) is None and sight.successor(before) is None


REBOOT = Kind(lambda client: client.batch_reboot_cluster_nodes, REBOOTING, _rebooted)
REPLACE = Kind(lambda client: client.batch_replace_cluster_nodes, REPLACING, _replaced)
DELETE = Kind(lambda client: client.batch_delete_cluster_nodes, ENDING, _deleted)
