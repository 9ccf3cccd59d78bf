"""Why nodes do not come: HyperPod's events, told apart and watched for how long they last.

With Continuous provisioning a shortage is no failure of the cluster; only events tell of it, again with every try. Each
try emits several events with different texts, so they are put together by reason.
(SageMaker API: ListClusterEvents; awslabs/awsome-distributed-ai, hyperpod-mental-model.md)
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activities.aws import AwsClients
from activities.errors import clean, fail
from activities.hyperpod.observe import GroupSight
from activities.polling import Memory
from contracts.problem import ProblemCode

MAX_EVENTS = 50
KEEP_IDS = 100


@dataclass(frozen=True)
class Reason:
    name: str
    pattern: re.Pattern[str]
    code: ProblemCode
    remedy: str


def _reason(name: str, pattern: str, code: ProblemCode, remedy: str) -> Reason:
    return Reason(name, re.compile(pattern, re.IGNORECASE), code, remedy)


REASONS = (
    _reason(
        "addresses",
        r"InsufficientFreeAddresses|not enough free|free (IP )?addresses|IP address(es)? (exhaust|unavailable)",
        ProblemCode.CAPACITY,
        "Retry with a larger or another compute subnet.",
    ),
    _reason(
        "quota",
        r"quota|limit exceeded|LimitExceeded|service limit|exceeds? (the|your) .*limit",
        ProblemCode.QUOTA,
        "Ask Service Quotas for more of 'ml.… for cluster usage', or retry with fewer nodes or another type.",
    ),
    _reason(
        "training plan",
        r"training plan \S+ is in \w+ status",
        ProblemCode.CAPACITY,
        "Retry when the training plan is Active, or with other capacity.",
    ),
    _reason(
        "zone",
        r"not supported in your requested Availability Zone|not offered in",
        ProblemCode.CAPACITY,
        "Retry with an Availability Zone that offers the type.",
    ),
    _reason(
        "capacity",
        r"capacity",
        ProblemCode.CAPACITY,
        "Retry with another Availability Zone, type or kind of capacity, or retry later; nothing was undone.",
    ),
    _reason(
        "efa",
        r"\bEFA\b",
        ProblemCode.NOT_READY,
        "Check that every security group of the group refers to itself for all traffic, in and out; then retry.",
    ),
    _reason(
        "lifecycle script",
        r"life ?cycle|LifecycleConfig|OnCreate|LCS",
        ProblemCode.NOT_READY,
        "Read the log stream LifecycleConfig/<group>/<instance> in /aws/sagemaker/Clusters/<name>/<id>; then retry.",
    ),
    _reason("error", r"", ProblemCode.NOT_READY, "Mend what the event names, then retry; nothing was undone."),
)


def reason_of(text: str) -> Reason:
    return next(reason for reason in REASONS if reason.pattern.search(text))


def watch(
    aws: AwsClients,
    region: str,
    cluster: str,
    groups: list[GroupSight],
    memory: Memory,
    since: datetime,
    patience: float,
) -> str:
    """Take in new Error events, and say in a few words what lasts; empty where nothing does.

    Raises the reason's problem when it has lasted for ``patience`` seconds of wall time, with an event since the first
    look, and without a node gained meanwhile.
    """
    lasting: dict[str, Any] = memory.notes.setdefault("lasting", {})
    known: list[str] = memory.notes.setdefault("events", [])
    first_look = memory.polls == 0
    short = {group.name: group for group in groups if not group.complete}
    for key in list(lasting):
        group = short.get(lasting[key]["group"])
        if group is None or group.working > lasting[key]["working"] or group.current > lasting[key]["current"]:
            del lasting[key]
    events = aws.read.sagemaker(region).list_cluster_events(
        ClusterName=cluster, EventTimeAfter=since, SortBy="EventTime", SortOrder="Descending", MaxResults=MAX_EVENTS
    )["Events"]
    for event in events:
        name = event.get("InstanceGroupName", "")
        if event["EventId"] in known:
            continue
        known.append(event["EventId"])
        if event.get("EventLevel") != "Error" or name not in short:
            continue
        text = event_text(aws, region, cluster, event)
        reason, group = reason_of(text), short[name]
        entry = lasting.setdefault(
            f"{name}/{reason.name}",
            {"group": name, "current": group.current, "working": group.working, "since": time.time(), "fresh": False},
        )
        entry["text"] = clean(text, 300)
        # What happened before the first look may be left from what a former try was asked.
        entry["fresh"] = entry["fresh"] or not first_look
    del known[:-KEEP_IDS]
    for entry in lasting.values():
        if entry["fresh"] and time.time() - entry["since"] >= patience:
            others = [each["text"] for each in lasting.values() if each["group"] == entry["group"] and each["fresh"]]
            _give_up(short[entry["group"]], entry["text"], others)
    parts = [
        f"{key.split('/', 1)[1]} of {each['group']} for {time.time() - each['since']:.0f} s"
        for key, each in lasting.items()
    ]
    return f"; short: {', '.join(parts)}" if parts else ""


def _give_up(group: GroupSight, text: str, texts: list[str]) -> None:
    """``text`` decides what kind of problem it is; ``texts`` are all that last, and all are told."""
    reason = reason_of(text)
    told = "; ".join(dict.fromkeys([text, *texts]))
    fail(
        reason.code,
        f"Instance group {group.name} has {group.current} of {group.target} {group.instance_type}: {told}",
        reason.remedy,
        retryable=True,
        field="/instance_groups",
    )


def event_text(aws: AwsClients, region: str, cluster: str, event: Any) -> str:
    """An event's description and, where it has one, the failure message that only DescribeClusterEvent shows."""
    described = aws.read.sagemaker(region).describe_cluster_event(ClusterName=cluster, EventId=event["EventId"])
    metadata: Any = described.get("EventDetails", {}).get("EventDetails", {}).get("EventMetadata", {})
    messages = [part.get("FailureMessage") for part in metadata.values() if isinstance(part, dict)]
    return " – ".join(dict.fromkeys(text for text in (event.get("Description"), *messages) if text))
