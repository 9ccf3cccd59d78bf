"""Nodes: listed, and waited for until they work."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

from temporalio import activity

from activities.aws import AwsClients
from activities.errors import fail
from activities.hyperpod.cluster import as_cluster, describe
from activities.hyperpod.groups import Specification, groups_of
from activities.hyperpod.observe import (
    GroupSight,
    facts_for,
    join,
    list_instances,
    sight,
)
from activities.hyperpod.shortfall import reason_of, watch
from activities.instance_types import InstanceFacts
from activities.kubernetes import Connection, KubernetesClients, api_client
from activities.nodes.sight import nodes_of
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.hyperpod import (
    LIST_NODES,
    WAIT_FOR_HYPERPOD,
    ListNodes,
    Node,
    Nodes,
    NodesReady,
    WaitForHyperPod,
    counted,
)
from contracts.problem import ProblemCode

VISIBLE_LOOKS = 3
"""So often may what was just made be missing from what is described."""
EVENT_MARGIN = timedelta(minutes=2)
LISTING_REST = 8
"""Times its own length that a listing serves the looks after it, where nothing can be complete yet."""
COUNTED_REST = 1
"""The same while Kubernetes alone lags behind: half of the time is left to those who have to answer."""
TARGET_LOOKS = 20
"""So often may a group's target be another than what was asked for: then somebody else has set it."""


class NodeActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=LIST_NODES.name)
    def list_nodes(self, request: ListNodes) -> Nodes:
        """The cluster's nodes that have joined Kubernetes. Raises NOT_FOUND where there is no such HyperPod cluster."""
        region = request.scope.region
        found = describe(self._aws, region, request.name)
        if found is None:
            _absent(request.name)
        instances = list_instances(self._aws, region, request.name)
        with self._kubernetes.connect(region, request.eks_cluster) as api:
            nodes = join(found, instances, nodes_of(api))
        names = [node.name for node in nodes if node.instance_group == request.names_of]
        return Nodes(cluster=as_cluster(found, changed=False), **counted(nodes), names=names)

    @activity.defn(name=WAIT_FOR_HYPERPOD.name)
    async def wait_for_nodes(self, request: WaitForHyperPod) -> NodesReady:
        """Until the cluster is InService, each group is at its target, and that many of its nodes are Ready with the
        accelerators of their type.

        Raises NOT_READY for a cluster that Failed, and CAPACITY, QUOTA or NOT_READY with the event's text when nodes do
        not come for one reason for ``shortfall_patience``: a problem that may pass, but that a person should decide on.
        """
        watcher = _Watcher(self._aws, self._kubernetes, self._settings, request)
        limit = WAIT_FOR_HYPERPOD.limit
        return await wait_until(
            watcher.look, what="every node Ready", limit=limit, poll_seconds=self._settings.poll_seconds
        )


Counts = dict[str, tuple[int, int]]
"""Instances that there are, and that there shall be, of each group."""


@dataclass(frozen=True)
class Listing:
    """SageMaker's instances, and Kubernetes' nodes with them."""

    instances: list[Any]
    nodes: list[Node]
    counts: Counts
    """What SageMaker counted then."""
    ended: float
    took: float
    """Seconds; ``ended`` by the monotonic clock."""

    def serves(self, counts: Counts) -> bool:
        """Whether it is good enough for a look that finds these counts. It was not complete, or there would be none."""
        complete = all(current == target for current, target in counts.values())
        if complete and counts != self.counts:
            return False
        return time.monotonic() < self.ended + (COUNTED_REST if complete else LISTING_REST) * self.took


class _Watcher:
    """Looks at one cluster, with what does not change between looks kept."""

    def __init__(
        self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings, request: WaitForHyperPod
    ) -> None:
        self._aws, self._kubernetes, self._settings, self._request = aws, kubernetes, settings, request
        self._since = activity.info().scheduled_time - EVENT_MARGIN
        self._facts: dict[str, InstanceFacts] | None = None
        self._connection: Connection | None = None
        self._listed: Listing | None = None

    def look(self, memory: Memory) -> Seen[NodesReady]:
        request, region = self._request, self._request.scope.region
        found = describe(self._aws, region, request.name)
        if found is None:
            memory.notes["absent"] = memory.notes.get("absent", 0) + 1
            if memory.notes["absent"] > VISIBLE_LOOKS:
                _absent(request.name)
            return Seen(f"{request.name} not visible yet")
        status = found["ClusterStatus"]
        if status in ("Failed", "Deleting"):
            _failed(found)
        listed = self._list(found)
        nodes = listed.nodes
        if self._facts is None:
            self._facts = facts_for(self._aws, region, found)
        groups = sight(found, request.groups, listed.instances, nodes, self._facts, request.targets)
        if missing := set(request.groups) - {group.name for group in groups}:
            memory.notes["missing"] = memory.notes.get("missing", 0) + 1
            if memory.notes["missing"] > VISIBLE_LOOKS:
                fail(
                    ProblemCode.NOT_READY,
                    f"HyperPod cluster {request.name} has no instance group {', '.join(sorted(missing))}",
                    "Retry the stage that makes the group.",
                    retryable=True,
                )
            return Seen(f"{request.name} {status}; groups not visible yet: {', '.join(sorted(missing))}")
        _check_targets(groups, memory)
        detail = summary(groups)
        if status == "InService" and all(group.complete for group in groups):
            return Seen(detail, NodesReady(cluster=as_cluster(found, changed=True), **counted(nodes)))
        if found.get("NodeProvisioningMode") == "Continuous":
            patience = self._settings.shortfall_patience
            detail += watch(self._aws, region, request.name, groups, memory, self._since, patience)
        elif status == "InService" and found.get("FailureMessage"):
            # Classic provisioning takes an update back as a whole when a part of it fails.
            _failed(found)
        return Seen(detail if status == "InService" else f"{detail}; cluster {status}")

    def _list(self, found: Specification) -> Listing:
        """Both lists, or those of an earlier look that still serve: a thousand nodes are many pages, and need not be
        read again and again to know that it is not over."""
        counts = self._counts(found)
        if self._listed is not None and self._listed.serves(counts):
            return self._listed
        request, began = self._request, time.monotonic()
        instances = list_instances(self._aws, request.scope.region, request.name)
        if self._connection is None:
            self._connection = self._kubernetes.connection(request.scope.region, request.eks_cluster)
        with api_client(self._connection) as api:
            nodes = join(found, instances, nodes_of(api))
        ended = time.monotonic()
        self._listed = Listing(instances, nodes, counts, ended, ended - began)
        return self._listed

    def _counts(self, found: Specification) -> Counts:
        """Of the groups that are waited for."""
        asked = self._request.groups
        groups = [each for each in groups_of(found) if not asked or each["InstanceGroupName"] in asked]
        return {each["InstanceGroupName"]: (each.get("CurrentCount", 0), each.get("TargetCount", 0)) for each in groups}


def summary(groups: list[GroupSight]) -> str:
    """``2 of 4 nodes Ready; 1 DeepHealthCheckInProgress``."""
    working, target = sum(group.working for group in groups), sum(group.target for group in groups)
    statuses: Counter[str] = sum((group.statuses for group in groups), Counter())
    parts = [f"{count} {status}" for status, count in sorted(statuses.items()) if status != "Running"]
    if unready := sum(group.unready for group in groups):
        parts.append(f"{unready} joined but not Ready in Kubernetes")
    parts += [lack for group in groups for lack in group.lacking][:3]
    return "; ".join([f"{working} of {target} nodes Ready", *parts])


def _check_targets(groups: list[GroupSight], memory: Memory) -> None:
    """Raise CONFLICT where a target does not become, or stay, what was asked for."""
    other = [group for group in groups if group.asked is not None and group.target != group.asked]
    memory.notes["other targets"] = memory.notes.get("other targets", 0) + 1 if other else 0
    if memory.notes["other targets"] > TARGET_LOOKS:
        group = other[0]
        fail(
            ProblemCode.CONFLICT,
            f"Instance group {group.name} has the target {group.target}, asked was {group.asked}",
            "Something else sets it (autoscaling, or a minimum that was not reached); stop that, then retry.",
        )


def _failed(found: Specification) -> NoReturn:
    message = found.get("FailureMessage") or "no reason given"
    reason = reason_of(message)
    fail(
        reason.code,
        f"HyperPod cluster {found['ClusterName']} is {found['ClusterStatus']}: {message}",
        reason.remedy,
        retryable=True,
    )


def _absent(name: str) -> NoReturn:
    fail(ProblemCode.NOT_FOUND, f"There is no HyperPod cluster {name}", "Create it first (create-hyperpod).")
