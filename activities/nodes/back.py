"""Nodes that were rebooted or replaced are waited for until they work again, and deleted ones until they are gone."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.errors import clean, fail
from activities.hyperpod.cluster import as_cluster
from activities.hyperpod.observe import facts_for, join
from activities.instance_types import EFA, InstanceFacts
from activities.kubernetes import Connection, KubernetesClients, api_client
from activities.nodes.failures import Failures
from activities.nodes.sight import (
    Raw,
    Sight,
    boot_id,
    by_instance,
    count,
    is_ready,
    members,
    message_of,
    nodes_of,
    required,
    status_of,
)
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.hyperpod import Node, counted
from contracts.nodes import (
    WAIT_FOR_NODES_BACK,
    WAIT_FOR_NODES_GONE,
    NodeIdentity,
    NodeOutcome,
    NodesBack,
    WaitForNodesBack,
    WaitForNodesGone,
)
from contracts.problem import ProblemCode
from contracts.words import number_of

EVENT_MARGIN = timedelta(minutes=2)
SHOWN = 4


@dataclass(frozen=True)
class State:
    """How far a node is. ``member`` is what stands in its place now; ``lack`` is empty once it works."""

    before: NodeIdentity
    member: Raw | None
    lack: str


class NodeWaits:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=WAIT_FOR_NODES_BACK.name)
    async def wait_for_nodes_back(self, request: WaitForNodesBack) -> NodesBack:
        """Until each node has booted anew (reboot) or has a successor (replace) that is Ready with its accelerators.

        A node that HyperPod itself replaces meanwhile is followed to its successor. Raises NOT_READY or CAPACITY with
        the reasons when nodes stay broken, or none come for one reason, for ``shortfall_patience``.
        """
        watcher = Watcher(self._aws, self._kubernetes, self._settings, request.name, request.scope.region)
        since = activity.info().scheduled_time - EVENT_MARGIN
        failures = Failures(self._aws, request.scope.region, request.name, since, self._settings.shortfall_patience)

        def look(memory: Memory) -> Seen[NodesBack]:
            sight = watcher.see(request.eks_cluster)
            states = assess(sight, request, watcher.facts(sight))
            open_ = [each for each in states if each.lack]
            detail = summary(states)
            if not open_:
                found = counted(watcher.joined(sight))
                outcomes = [_outcome(sight, each) for each in states]
                return Seen(detail, NodesBack(cluster=as_cluster(sight.cluster, True), **found, outcomes=outcomes))
            _alive(sight)
            return Seen(detail + failures.watch(sight, [(each.before, each.member) for each in open_], memory))

        limit = WAIT_FOR_NODES_BACK.limit
        return await wait_until(look, what="the nodes' return", limit=limit, poll_seconds=self._settings.poll_seconds)

    @activity.defn(name=WAIT_FOR_NODES_GONE.name)
    async def wait_for_nodes_gone(self, request: WaitForNodesGone) -> NodesBack:
        """Until the nodes are gone from both sides. Raises NOT_READY when HyperPod may not end them, for as long as
        ``shortfall_patience``: their execution role was changed or deleted."""
        watcher = Watcher(self._aws, self._kubernetes, self._settings, request.name, request.scope.region)

        def look(memory: Memory) -> Seen[NodesBack]:
            sight = watcher.see(request.eks_cluster)
            left = [each for each in request.nodes if sight.member(each) or (each.instance_id or "") in sight.nodes]
            gone = len(request.nodes) - len(left)
            if not left:
                outcomes = [
                    NodeOutcome(before=each.name, instance_group=each.instance_group, instance_before=each.instance_id)
                    for each in request.nodes
                ]
                cluster = as_cluster(sight.cluster, True)
                return Seen(
                    f"{number_of(gone, 'node')} gone",
                    NodesBack(cluster=cluster, **counted(watcher.joined(sight)), outcomes=outcomes),
                )
            messages = {text for each in left if (text := message_of(sight.member(each) or {}))}
            self._refused(messages, memory)
            statuses = Counter(
                status_of(member) if (member := sight.member(each)) else "still in Kubernetes" for each in left
            )
            parts = [f"{number} {status}" for status, number in sorted(statuses.items())]
            return Seen("; ".join([f"{gone} of {len(request.nodes)} gone", *parts, *sorted(messages)[:1]]))

        limit = WAIT_FOR_NODES_GONE.limit
        return await wait_until(look, what="the nodes' end", limit=limit, poll_seconds=self._settings.poll_seconds)

    def _refused(self, messages: set[str], memory: Memory) -> None:
        """HyperPod waits for ever for a role that it may not use any more to detach an instance."""
        text = next((each for each in sorted(messages) if "does not have permission" in each), None)
        if text is None:
            memory.notes.pop("refused", None)
            return
        since = memory.notes.setdefault("refused", time.time())
        if time.time() - since >= self._settings.shortfall_patience:
            fail(
                ProblemCode.NOT_READY,
                f"HyperPod cannot end the nodes: {clean(text, 300)}",
                "Restore the instance group's execution role with its permissions; then retry.",
                retryable=True,
            )


class Watcher:
    """Looks at one cluster, with what does not change between looks kept."""

    def __init__(
        self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings, name: str, region: str
    ) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings
        self._name, self._region = name, region
        self._connection: Connection | None = None
        self._facts: dict[str, InstanceFacts] | None = None

    def see(self, eks_cluster: str) -> Sight:
        found = required(self._aws, self._region, self._name)
        listed = members(self._aws, self._region, found)
        if self._connection is None:
            self._connection = self._kubernetes.connection(self._region, eks_cluster)
        with api_client(self._connection) as api:
            return Sight(found, listed, by_instance(nodes_of(api)))

    def facts(self, sight: Sight) -> dict[str, InstanceFacts]:
        if self._facts is None:
            self._facts = facts_for(self._aws, self._region, sight.cluster)
        return self._facts

    def joined(self, sight: Sight) -> list[Node]:
        assert self._connection is not None
        with api_client(self._connection) as api:
            return join(sight.cluster, sight.members, nodes_of(api))


def assess(sight: Sight, request: WaitForNodesBack, facts: dict[str, InstanceFacts]) -> list[State]:
    """How far each node is. A successor without a common logical ID is any new instance of the same group."""
    known = {*request.others, *(each.instance_id for each in request.nodes)}
    fresh: dict[str, list[Raw]] = {}
    taken = {each.get("InstanceId") for before in request.nodes if (each := sight.successor(before))}
    for member in sight.members:
        instance = member.get("InstanceId")
        if instance and instance not in known and instance not in taken:
            fresh.setdefault(member.get("InstanceGroupName") or "", []).append(member)
    states = []
    for before in request.nodes:
        place = sight.member(before)
        if place is None:
            waiting = fresh.get(before.instance_group) or []
            place = sight.successor(before) or (waiting.pop(0) if waiting else None)
            missing = lack(sight, place, facts) if place is not None else "no successor yet"
        elif before.instance_id:
            missing = _unchanged(sight, before, place, request.action) or lack(sight, place, facts)
        else:
            missing = lack(sight, place, facts)
        states.append(State(before, place, missing))
    return states


def _unchanged(sight: Sight, before: NodeIdentity, member: Raw, action: str) -> str:
    """Why a node that still has its instance has not been through what was asked."""
    if action == "replace":
        launched = member.get("LaunchTime")
        newer = bool(before.launched_at and launched and launched > before.launched_at)
        return "" if newer else f"{status_of(member)}, not replaced yet"
    now = boot_id(sight.node(member))
    if before.boot_id is None or (now is not None and now != before.boot_id):
        return ""
    return f"{status_of(member)}, not booted anew yet"


def lack(sight: Sight, member: Raw, facts: dict[str, InstanceFacts]) -> str:
    """What a node needs to work; empty where nothing."""
    status = status_of(member)
    if status != "Running":
        return status
    node = sight.node(member)
    if node is None:
        return "not in Kubernetes yet"
    if not is_ready(node):
        return "not Ready in Kubernetes"
    return lacking(node, facts.get(str(member.get("InstanceType") or "").removeprefix("ml.")))


def lacking(node: Raw, facts: InstanceFacts | None) -> str:
    """Devices of its type that a node does not offer. Of EFA interfaces one is enough: how many it gets is HyperPod's
    choice."""
    if facts is None or not facts.accelerator_resource:
        return ""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    offered = count(allocatable, facts.accelerator_resource)
    if offered != facts.accelerators:
        return f"{facts.accelerator_resource} {offered} of {facts.accelerators}"
    if facts.efa_interfaces and not count(allocatable, EFA):
        return f"{EFA} 0 of {facts.efa_interfaces}"
    return ""


def summary(states: list[State]) -> str:
    """``3 of 8 back; 2 SystemUpdating, not booted anew yet; hyperpod-i-1: nvidia.com/gpu 0 of 8``."""
    back = sum(not each.lack for each in states)
    lacks = Counter(each.lack for each in states if each.lack)
    parts = []
    for lack, number in lacks.most_common(SHOWN):
        first = next(each for each in states if each.lack == lack)
        parts.append(f"{number} {lack}" if number > 1 else f"{first.before.name} {lack}")
    return "; ".join([f"{back} of {len(states)} back", *parts])


def _outcome(sight: Sight, state: State) -> NodeOutcome:
    member: Any = state.member or {}
    node = sight.node(member)
    return NodeOutcome(
        before=state.before.name,
        now=node["metadata"]["name"] if node is not None else member.get("InstanceId"),
        instance_group=state.before.instance_group,
        instance_before=state.before.instance_id,
        instance_now=member.get("InstanceId"),
        faults=state.before.faults,
    )


def _alive(sight: Sight) -> None:
    status = sight.cluster["ClusterStatus"]
    if status in ("Failed", "Deleting"):
        message = sight.cluster.get("FailureMessage") or "no reason given"
        fail(
            ProblemCode.NOT_READY,
            f"HyperPod cluster {sight.cluster['ClusterName']} is {status}: {message}",
            "A cluster that Failed cannot be mended; save what is on its nodes, and delete it.",
        )
