"""Watching a node group until its nodes work, or until it is clear that they do not come."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NoReturn

from activities.aws import AwsClients
from activities.errors import fail
from activities.instance_types import InstanceFacts, describe_types
from activities.kubernetes import KubernetesClients
from activities.node_groups.observe import (
    LABEL_GROUP,
    LABEL_TYPE,
    NodesSeen,
    as_node_group,
    describe,
    issues_of,
    list_nodes,
    see,
)
from activities.polling import Memory, Seen
from activities.settings import Settings
from contracts.node_groups import NodeGroup, WaitForNodeGroup
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_eks.type_defs import NodegroupTypeDef

VISIBLE_LOOKS = 3

ISSUES: tuple[tuple[re.Pattern[str], ProblemCode, str], ...] = (
    (
        re.compile(r"VcpuLimitExceeded|InstanceLimitExceeded|MaxSpotInstanceCountExceeded|LimitExceeded"),
        ProblemCode.QUOTA,
        "Ask Service Quotas (EC2) for more, or retry with fewer nodes or another type.",
    ),
    (
        re.compile(r"InsufficientFreeAddresses"),
        ProblemCode.CAPACITY,
        "Retry with other or larger subnets, or with fewer nodes.",
    ),
    (
        re.compile(r"AsgInstanceLaunchFailures|UnfulfillableCapacity|Insufficient\w*Capacity"),
        ProblemCode.CAPACITY,
        "Retry with other instance types, zones or another kind of capacity, or retry later.",
    ),
    (re.compile(r"AccessDenied"), ProblemCode.DENIED, "Mend the access that the issue names, then retry."),
    (
        re.compile(r"NodeCreationFailure"),
        ProblemCode.NOT_READY,
        "Check that the subnets lead to a NAT gateway and that the node role has an access entry; then retry.",
    ),
)
"""EKS's health issues, told apart. (EKS API: Issue)"""


class Watcher:
    """Looks at one group, with what does not change between looks kept."""

    def __init__(
        self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings, request: WaitForNodeGroup
    ) -> None:
        self._aws, self._kubernetes, self._settings, self._request = aws, kubernetes, settings, request
        self._facts: dict[str, InstanceFacts] = {}

    def look(self, memory: Memory) -> Seen[NodeGroup]:
        request, region = self._request, self._request.scope.region
        found = describe(self._aws, region, request.eks_cluster, request.name)
        if found is None:
            memory.notes["absent"] = memory.notes.get("absent", 0) + 1
            if memory.notes["absent"] > VISIBLE_LOOKS:
                absent(request.name)
            return Seen(f"{request.name} not visible yet")
        status, desired = found["status"], found.get("scalingConfig", {}).get("desiredSize", 0)
        if status in ("CREATE_FAILED", "DELETING", "DELETE_FAILED"):
            give_up(found, f"is {status}")
        with self._kubernetes.connect(region, request.eks_cluster) as api:
            nodes = list_nodes(api, f"{LABEL_GROUP}={request.name}")
        types = {(node.metadata.labels or {}).get(LABEL_TYPE, "") for node in nodes} - {""}
        if new := types - self._facts.keys():
            self._facts |= describe_types(self._aws, region, new)
        seen = see(nodes, self._facts, request.efa)
        if status != "UPDATING" and desired != request.desired:
            self._rescaled(memory, desired)
        if status == "ACTIVE" and desired == request.desired == seen.working == seen.total:
            return Seen(f"{seen.ready} of {desired} nodes Ready", as_node_group(found, request.scope.cluster, seen))
        return Seen(summary(found, seen, request.desired) + self._lasting(memory, found, seen))

    def _rescaled(self, memory: Memory, desired: int) -> None:
        """An autoscaler, or a person, has set another number meanwhile."""
        memory.notes["rescaled"] = memory.notes.get("rescaled", 0) + 1
        if memory.notes["rescaled"] > VISIBLE_LOOKS:
            fail(
                ProblemCode.CONFLICT,
                f"Node group {self._request.name} was set to {desired} nodes by somebody else; "
                f"{self._request.desired} were asked for",
                "Retry to set it again, or abort to leave it so.",
                retryable=True,
            )

    def _lasting(self, memory: Memory, found: NodegroupTypeDef, seen: NodesSeen) -> str:
        """For how long the group has had issues without a node gained. Raises when that is too long."""
        if not (issues := issues_of(found)):
            memory.notes.pop("since", None)
            return ""
        if "since" not in memory.notes or seen.ready > memory.notes.get("ready", 0):
            memory.notes |= {"since": time.time(), "ready": seen.ready}
        lasted = time.time() - memory.notes["since"]
        if lasted >= self._settings.shortfall_patience:
            give_up(found, f"has {seen.ready} of {self._request.desired} nodes")
        return f"; {issues} (for {lasted:.0f} s)"


def summary(found: NodegroupTypeDef, seen: NodesSeen, desired: int) -> str:
    """``ng-1 CREATING: 1 of 2 nodes Ready``."""
    parts = [f"{found['nodegroupName']} {found['status']}: {seen.working} of {desired} nodes Ready"]
    if seen.total > desired:
        parts.append(f"{seen.total - desired} still to go")
    return "; ".join([*parts, *seen.lacking[:3]])


def give_up(found: NodegroupTypeDef, what: str) -> NoReturn:
    """Raise what EKS's issues mean, with its words."""
    issues = issues_of(found) or "EKS gives no reason"
    code, remedy = next(
        ((code, remedy) for pattern, code, remedy in ISSUES if pattern.search(issues)),
        (ProblemCode.NOT_READY, "Mend what the issue names, then retry; nothing was undone."),
    )
    fail(code, f"Node group {found['nodegroupName']} {what}: {issues}", remedy, retryable=True)


def absent(name: str) -> NoReturn:
    fail(ProblemCode.NOT_FOUND, f"There is no node group {name}", "List the node groups; create it first.")
