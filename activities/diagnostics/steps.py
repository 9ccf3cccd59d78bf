"""What to do next about a cause, along investigate, reboot, replace. Proposals: nothing is started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from activities.diagnostics.rules.rule import Rule
from contracts.diagnostics import Cause, NextStep, Repair, Source, Subject, TimelineEntry

TRIED_DAYS = 7
"""A reboot that is older says nothing of what a node needs now."""
MOST_NODES = 25
"""Nodes of one BatchRebootClusterNodes or BatchReplaceClusterNodes. (SageMaker API)"""
SUPPORT = "https://docs.aws.amazon.com/awssupport/latest/user/case-management.html"
ASKS_FOR_REPLACEMENT = ("UnschedulablePendingReplacement", "NvidiaErrorTerminate=True")
"""(SageMaker Developer Guide: resilience-related Kubernetes labels, health-monitoring agent)"""


def with_step(
    cause: Cause, rule: Rule, subject: Subject, repairs: Sequence[Repair], now: datetime | None = None
) -> Cause:
    """The cause with what to do about it."""
    return cause.model_copy(update={"next_step": _step(cause, rule, subject, repairs, now or datetime.now(UTC))})


def _step(cause: Cause, rule: Rule, subject: Subject, repairs: Sequence[Repair], now: datetime) -> NextStep:
    if cause.explained_by is not None:
        return NextStep(
            level="investigate", why=f"It looks like a consequence of {cause.explained_by}: see to that first."
        )
    if not rule.of_node:
        return NextStep(level=rule.level, why=rule.fix)
    nodes = nodes_of(cause, subject)
    if not nodes:
        return NextStep(level="investigate", why="The evidence names no node: find out which one it is. " + rule.fix)
    return _repair(cause, rule, nodes, [each for each in repairs if _may_be_for(each, cause, rule, nodes)], now)


def nodes_of(cause: Cause, subject: Subject) -> list[str]:
    """The nodes that the evidence is of: those of health monitoring, else those of the pods."""
    sure = [entry for entry in cause.evidence if entry.source is not Source.LOG]
    found = _named(sure) or _named(cause.evidence)
    return found or ([subject.name] if subject.kind == "node" else [])


def _named(entries: Iterable[TimelineEntry]) -> list[str]:
    return list(dict.fromkeys(entry.node for entry in entries if entry.node))[:MOST_NODES]


def _repair(cause: Cause, rule: Rule, nodes: list[str], repairs: Sequence[Repair], now: datetime) -> NextStep:
    recent = [each for each in repairs if now - each.at <= timedelta(days=TRIED_DAYS) and _is_about(each, nodes)]
    tried = max(recent, key=lambda each: each.at, default=None)
    names = ", ".join(nodes)
    last = max((entry.at for entry in cause.evidence if entry.at is not None), default=None)
    if tried is not None and tried.succeeded and last is not None and last < tried.at:
        done = "rebooted" if tried.action == "reboot" else "replaced"
        why = f"{names} was {done} on {_day(tried.at)}, after the last sign of the fault: see whether it comes again."
        return NextStep(level="wait", why=why)
    if tried is not None and tried.action == "replace" and tried.succeeded:
        again = "and the fault came again" if _was_for(tried, cause, rule, nodes) else "and there is this fault since"
        why = (
            f"{names} was replaced on {_day(tried.at)} {again}: it may not be the instance. Look at "
            f"what faulty nodes have in common, and ask AWS Support ({SUPPORT})."
        )
        return NextStep(level="support", why=why)
    spec: dict[str, JsonValue] = {"nodes": list[JsonValue](nodes)}
    asked = any(mark in entry.text for entry in cause.evidence for mark in ASKS_FOR_REPLACEMENT)
    if rule.level != "replace" and not asked and tried is None:
        why = (
            "It keeps the instance and its volumes, and resets the device. If the fault comes again, replace the node."
        )
        return NextStep(level="reboot", operation="reboot-nodes", spec=spec, why=why)
    why = "HyperPod marks it for replacement." if asked else "A reboot seldom mends this."
    if tried is not None and tried.action == "reboot":
        why = f"A reboot was tried on {_day(tried.at)}, and the fault is there again."
    why += " Everything on local volumes is lost; with automatic node recovery HyperPod may do it by itself."
    return NextStep(level="replace", operation="replace-nodes", spec=spec, why=why)


def _may_be_for(repair: Repair, cause: Cause, rule: Rule, nodes: Iterable[str]) -> bool:
    """Whether a repair may have been for this fault: it was seen before, or nobody noted what was. One that was for
    something else says nothing of what this fault needs, unless the fault has not been seen since."""
    last = max((entry.at for entry in cause.evidence if entry.at is not None), default=None)
    if last is not None and last < repair.at:
        return True
    return _was_for(repair, cause, rule, nodes) or _faults(repair, nodes) is None


def _was_for(repair: Repair, cause: Cause, rule: Rule, nodes: Iterable[str]) -> bool:
    """Whether the same fault was told of the node before it was repaired."""
    if any(entry.at is not None and entry.at < repair.at for entry in cause.evidence if entry.node in set(nodes)):
        return True
    told = [TimelineEntry(source=Source.NODE, subject="node", text=text) for text in _faults(repair, nodes) or ()]
    return any(rule.strength(entry) > 0 for entry in told)


def _faults(repair: Repair, nodes: Iterable[str]) -> list[str] | None:
    """What was told of the nodes before the repair; None where nobody noted it."""
    noted = {name.removeprefix("hyperpod-"): texts for name, texts in repair.faults.items()}
    found = [noted[short] for node in nodes if (short := node.removeprefix("hyperpod-")) in noted]
    return [text for texts in found for text in texts] if found else None


def _day(at: datetime) -> str:
    return f"{at:%d %B, %H:%M} UTC"


def _is_about(repair: Repair, nodes: Iterable[str]) -> bool:
    names = {name.removeprefix("hyperpod-") for name in (repair.target, *repair.nodes)}
    return any(node.removeprefix("hyperpod-") in names for node in nodes)
