"""From a timeline to causes: pure functions of the evidence, whatever order it comes in.

**Confidence.** An entry is as telling of a rule as the strongest sign of the rule that it meets, less where it is far
from the failure in time. Of every source the most telling entry counts; the strongest source counts wholly, each other
one closes half as much of what is missing to certainty. So more entries never make a cause less probable, and entries
that meet no sign (noise) change nothing.

**Cause before consequence.** A rule names the rules whose evidence follows from its cause. Where both are found, and
the cause was seen first (as far as clocks tell), the consequence counts ``EXPLAINED`` of its confidence (and never as
much as its cause), and the cause a little more.

**Unknown stays unknown.** What is below ``CLAIMED`` by its own evidence is not told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from activities.diagnostics.rules import RULES, Rule
from activities.diagnostics.rules.rule import quotes_log
from contracts.diagnostics import MOST_CAUSES, MOST_EVIDENCE, Cause, Source, TimelineEntry

CLAIMED = 0.4
"""A cause is told from here on."""
CERTAIN = 0.97
"""No evidence makes more of a cause."""
EXPLAINED = 0.6
"""What is left of a cause that another one explains."""
OTHERS = 0.5
"""How much of a further source counts."""
EXPLAINS = 0.2
"""What a cause that explains others gains of what is missing to certainty."""
TOLERANCE = timedelta(minutes=5)
"""Clocks of logs, of Kubernetes and of AWS, and health monitoring that looks every so often."""
BEFORE, AFTER = timedelta(minutes=45), timedelta(minutes=15)
"""Evidence within this of the failure counts wholly: a collective operation may wait for half an hour."""
ELSEWHERE = 0.8
"""What is wrong with a node that has none of the subject's pods may still keep them from running."""
LATER = 0.9
"""What is seen after the failure may still be its cause, seen again."""

_DECAY = ((timedelta(hours=2), 0.9), (timedelta(hours=6), 0.75))
_LONG_AGO = 0.5
_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Found:
    """A rule with the evidence for it."""

    rule: Rule
    evidence: tuple[tuple[float, TimelineEntry], ...]
    """Each with how telling it is."""
    alone: float
    """Its confidence without regard to other causes."""

    @property
    def first_at(self) -> datetime | None:
        return min((entry.at for _, entry in self.evidence if entry.at is not None), default=None)

    def explains(self, other: Found) -> bool:
        """Whether ``other`` is a consequence: by its kind, and because it was not there clearly before."""
        if other.rule.id == self.rule.id or other.rule.id not in self.rule.leads_to or self.alone < CLAIMED:
            return False
        mine, others = self.first_at, other.first_at
        return mine is None or others is None or mine <= others + TOLERANCE


def find(
    entries: Iterable[TimelineEntry],
    failed_at: datetime | None = None,
    rules: Sequence[Rule] = RULES,
    near: frozenset[str] | None = None,
) -> list[Found]:
    """Every rule that has evidence, in no particular order. ``near``: the nodes that the subject's pods are on; null:
    all nodes count alike."""
    by_rule: dict[str, list[tuple[float, TimelineEntry]]] = defaultdict(list)
    named = {rule.id: rule for rule in rules}
    for entry in entries:
        for rule, strength in _told_by(entry, rules):
            elsewhere = near is not None and entry.node is not None and entry.node not in near
            weight = nearness(entry, failed_at) * (ELSEWHERE if elsewhere else 1)
            by_rule[rule.id].append((strength * weight, entry))
    return [Found(named[key], tuple(evidence), _confidence(evidence)) for key, evidence in by_rule.items()]


def _told_by(entry: TimelineEntry, rules: Sequence[Rule]) -> list[tuple[Rule, float]]:
    told = [(rule, strength) for rule in rules if not rule.generic and (strength := rule.strength(entry)) > 0]
    if told:
        return told
    return [(rule, strength) for rule in rules if rule.generic and (strength := rule.strength(entry)) > 0]


def nearness(entry: TimelineEntry, failed_at: datetime | None) -> float:
    """1 for what is so now or was near the failure; less the longer before it, and a little less after it."""
    if entry.at is None or failed_at is None:
        return 1.0
    if entry.at <= failed_at <= (entry.last_at or entry.at):
        return 1.0
    # Of what was seen again and again the time that is nearest to the failure counts.
    before = failed_at - (entry.at if entry.at > failed_at else entry.last_at or entry.at)
    if before < -AFTER:
        return LATER
    if before <= BEFORE:
        return 1.0
    return next((factor for limit, factor in _DECAY if before <= limit), _LONG_AGO)


def _confidence(evidence: Sequence[tuple[float, TimelineEntry]]) -> float:
    best: dict[Source, float] = {}
    for strength, entry in evidence:
        voice = _voice(entry)
        best[voice] = max(strength, best.get(voice, 0.0))
    first, *others = sorted(best.values(), reverse=True)
    missing = 1 - first
    for strength in others:
        missing *= 1 - OTHERS * strength
    return min(1 - missing, CERTAIN)


def _voice(entry: TimelineEntry) -> Source:
    """Who speaks: the scheduler says the same in an event and in the pod's condition, the operator repeats a log."""
    if quotes_log(entry):
        return Source.LOG
    scheduler = entry.source is Source.KUBERNETES_EVENT and entry.text.startswith("FailedScheduling")
    return Source.POD if scheduler else entry.source


def causes(
    entries: Iterable[TimelineEntry],
    failed_at: datetime | None = None,
    rules: Sequence[Rule] = RULES,
    near: frozenset[str] | None = None,
) -> list[Cause]:
    """The causes that the evidence tells of, the most probable first; empty where it tells of none."""
    found = find(entries, failed_at, rules, near)
    ranked: list[Cause] = []
    for each in found:
        confidence = each.alone
        if any(each.explains(other) for other in found):
            confidence = min(1 - (1 - confidence) * (1 - EXPLAINS), CERTAIN)
        if confidence < CLAIMED:
            continue
        reason = _reason(each, found)
        if reason is not None:
            confidence = EXPLAINED * min(confidence, reason.alone)
        ranked.append(_cause(each, round(confidence, 3), reason.rule.id if reason is not None else None))
    ranked.sort(key=lambda cause: (-cause.confidence, cause.explained_by is not None, cause.rule))
    return ranked[:MOST_CAUSES]


def _reason(found: Found, others: Sequence[Found]) -> Found | None:
    """The most probable cause that explains ``found``."""
    reasons = [other for other in others if other.explains(found)]
    return min(reasons, key=lambda each: (-each.alone, each.rule.id), default=None)


def in_order(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    """Each once, by time; what is so now comes last."""
    distinct = {entry.model_dump_json(): entry for entry in entries}
    return [distinct[key] for key in sorted(distinct, key=lambda key: (distinct[key].at or _END, key))]


def together(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    """In order, and what was told in the same words of the same thing as one entry that counts."""
    alike: dict[tuple[str, ...], list[TimelineEntry]] = defaultdict(list)
    for entry in in_order(entries):
        alike[entry.source, entry.subject, entry.text, entry.severity, entry.node or ""].append(entry)
    return in_order(_one(same) for same in alike.values())


def _one(same: list[TimelineEntry]) -> TimelineEntry:
    if len(same) == 1:
        return same[0]
    times = [at for entry in same for at in (entry.at, entry.last_at) if at is not None]
    first, last = min(times, default=None), max(times, default=None)
    return same[0].model_copy(
        update={"at": first, "last_at": last if last != first else None, "count": sum(entry.count for entry in same)}
    )


def _cause(found: Found, confidence: float, explained_by: str | None) -> Cause:
    evidence = in_order(entry for _, entry in found.evidence)
    shown = _shown(evidence)
    return Cause(
        rule=found.rule.id,
        title=found.rule.title,
        confidence=confidence,
        explanation=found.rule.explanation,
        evidence=shown,
        more_evidence=len(evidence) - len(shown),
        fix=found.rule.fix,
        source=found.rule.source,
        explained_by=explained_by,
    )


def _shown(evidence: list[TimelineEntry]) -> list[TimelineEntry]:
    """The first entries, with at least one of every source."""
    if len(evidence) <= MOST_EVIDENCE:
        return evidence
    first_of: dict[Source, TimelineEntry] = {}
    for entry in evidence:
        first_of.setdefault(entry.source, entry)
    kept = list(first_of.values())
    kept += [entry for entry in evidence if entry not in kept][: MOST_EVIDENCE - len(kept)]
    return in_order(kept)
