"""Why nodes do not come back: members that stay broken, deep health checks that fail, capacity that is not there."""

from __future__ import annotations

import re
import time
from collections import Counter
from datetime import datetime
from typing import Any

from activities.aws import AwsClients
from activities.errors import clean, fail
from activities.hyperpod.shortfall import event_text, reason_of
from activities.nodes.sight import Raw, Sight, message_of, status_of
from activities.polling import Memory
from contracts.nodes import NodeIdentity
from contracts.problem import ProblemCode

MAX_EVENTS = 50
KEEP_IDS = 200
MOST_FAILED_CHECKS = 2
"""HyperPod itself replaces a node that fails its check; when so many of one group have, hardware is not the reason."""
MOST_FAILED_NODES = 3
"""So many instances of a group that could not be brought up, for one reason: the next will not be either."""

_CHECK_FAILED = re.compile(r"deep health check.*(fail|unsuccessful)|fail.*deep health check", re.IGNORECASE)

Pair = tuple[NodeIdentity, Raw | None]
"""A node that is not back, and what stands in its place."""


class Failures:
    """Watches what goes wrong from look to look; what it saw travels in the wait's memory."""

    def __init__(self, aws: AwsClients, region: str, cluster: str, since: datetime, patience: float) -> None:
        self._aws, self._region, self._cluster = aws, region, cluster
        self._since, self._patience = since, patience

    def watch(self, sight: Sight, missing: list[Pair], memory: Memory) -> str:
        """In a few words what lasts; empty where nothing does. Raises the problem of what has lasted for too long."""
        automatic = sight.cluster.get("NodeRecovery", "Automatic") == "Automatic"
        self._broken(missing, memory, automatic)
        if sight.cluster.get("NodeProvisioningMode") != "Continuous":
            return ""
        # Only Continuous clusters tell of events. (SageMaker API: ListClusterEvents)
        groups = {before.instance_group for before, _ in missing}
        first_look = memory.polls == 0
        for event in self._new_events(memory):
            if event.get("InstanceGroupName") in groups:
                self._take(event, memory, first_look)
        return self._judge(missing, memory)

    def _broken(self, missing: list[Pair], memory: Memory, automatic: bool) -> None:
        """Members in status Failure. HyperPod replaces them itself where recovery is automatic, after a while."""
        since: dict[str, float] = memory.notes.setdefault("broken", {})
        broken = {
            str(member.get("InstanceId") or before.name): (before, member)
            for before, member in missing
            if member is not None and status_of(member) == "Failure"
        }
        for key in [*since]:
            if key not in broken:
                del since[key]
        for key, (before, member) in broken.items():
            first = since.setdefault(key, time.time())
            if time.time() - first >= self._patience:
                why = message_of(member) or "no reason given"
                remedy = (
                    "HyperPod has not replaced it by itself: replace it (replace-nodes), then retry."
                    if automatic
                    else "Look at the node; replace it (replace-nodes) with others if it stays so, then retry."
                )
                fail(
                    ProblemCode.NOT_READY,
                    f"Node {key} in place of {before.name} has failed: {clean(why, 300)}",
                    remedy,
                    retryable=True,
                    field="/nodes",
                )

    def _new_events(self, memory: Memory) -> list[Any]:
        known: list[str] = memory.notes.setdefault("events", [])
        events = self._aws.read.sagemaker(self._region).list_cluster_events(
            ClusterName=self._cluster,
            EventTimeAfter=self._since,
            SortBy="EventTime",
            SortOrder="Descending",
            MaxResults=MAX_EVENTS,
        )["Events"]
        fresh = [event for event in events if event["EventId"] not in known]
        known += [event["EventId"] for event in fresh]
        del known[:-KEEP_IDS]
        return fresh

    def _take(self, event: Any, memory: Memory, first_look: bool) -> None:
        group, text = event["InstanceGroupName"], str(event.get("Description") or "")
        if _CHECK_FAILED.search(text):
            if first_look:
                # A check lasts far longer than it takes from the request to the first look.
                return
            checks: dict[str, dict[str, str]] = memory.notes.setdefault("checks", {})
            instance = event.get("InstanceId") or event["EventId"]
            checks.setdefault(group, {})[instance] = clean(
                event_text(self._aws, self._region, self._cluster, event), 300
            )
        elif event.get("EventLevel") == "Error":
            full = clean(event_text(self._aws, self._region, self._cluster, event), 300)
            errors: dict[str, Any] = memory.notes.setdefault("errors", {})
            entry = errors.setdefault(f"{group}/{reason_of(full).name}", {"fresh": False, "since": None, "failed": []})
            entry["text"], entry["since"] = full, entry["since"] or time.time()
            # What happened before the first look may belong to what was done before.
            entry["fresh"] = entry["fresh"] or not first_look
            instance = event.get("InstanceId")
            if instance and not first_look and instance not in entry["failed"]:
                entry["failed"].append(instance)

    def _judge(self, missing: list[Pair], memory: Memory) -> str:
        checks: dict[str, dict[str, str]] = memory.notes.get("checks", {})
        for group, failed in checks.items():
            if len(failed) >= MOST_FAILED_CHECKS and any(before.instance_group == group for before, _ in missing):
                shown = "; ".join(f"{instance}: {text}" for instance, text in sorted(failed.items()))
                fail(
                    ProblemCode.NOT_READY,
                    f"{len(failed)} new nodes of instance group {group} failed their deep health check: {shown}",
                    "HyperPod goes on replacing them; retry to wait on, or ask AWS Support with the instances' IDs.",
                    retryable=True,
                    field="/nodes",
                )
        coming = Counter(before.instance_group for before, member in missing if _coming(member))
        wanted = Counter(before.instance_group for before, _ in missing)
        errors: dict[str, Any] = memory.notes.get("errors", {})
        parts = [f"{instance} failed its deep health check" for failed in checks.values() for instance in failed]
        for key, entry in errors.items():
            group = key.split("/", 1)[0]
            if coming[group] >= wanted[group]:
                entry["since"] = None
                continue
            lasts = entry["since"] is not None and time.time() - entry["since"] >= self._patience
            if entry["fresh"] and (lasts or len(entry["failed"]) >= MOST_FAILED_NODES):
                reason = reason_of(entry["text"])
                fail(
                    reason.code,
                    f"Instance group {group} does not get its new nodes: {entry['text']}",
                    reason.remedy,
                    retryable=True,
                    field="/nodes",
                )
            parts.append(f"{key.split('/', 1)[1]} of {group}")
        return f"; {', '.join(parts[:3])}" if parts else ""


def _coming(member: Raw | None) -> bool:
    return member is not None and bool(member.get("InstanceId")) and status_of(member) != "Failure"
