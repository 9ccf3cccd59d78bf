"""What logs tell: the lines that a rule knows, and no others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from activities.diagnostics.lines import LOOKED_AT, excerpt
from activities.diagnostics.rules import RULES, Rule
from contracts.diagnostics import Severity, Source, TimelineEntry

MOST_OF_A_RULE = 3
"""Lines of one pod that are told for one rule: the first ones, for the first is where it began."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d) ")
_SYMPTOM = re.compile(r"ChildFailedError|raise_for_status\(|^\s*(?:File \"|\^+|raise |frame #)")
"""Lines of stacks, and what launchers say of every failure."""


def of_log(pod: str, node: str | None, lines: Iterable[str], rules: tuple[Rule, ...] = RULES) -> list[TimelineEntry]:
    """Lines with Kubernetes' time in front (``timestamps=true``), the oldest first."""
    found: list[TimelineEntry] = []
    seen: Counter[str] = Counter()
    for line in lines:
        at, text = _split(line)
        if _SYMPTOM.search(text):
            continue
        known = _known(text[:LOOKED_AT], rules)
        if not known or all(seen[rule.id] >= MOST_OF_A_RULE for rule, _ in known):
            continue
        seen.update(rule.id for rule, _ in known)
        severity: Severity = "error" if any(rule.level != "wait" for rule, _ in known) else "warning"
        found.append(
            TimelineEntry(
                at=at,
                source=Source.LOG,
                severity=severity,
                subject=f"pod {pod}",
                text=excerpt(text, min(position for _, position in known)),
                node=node,
            )
        )
    return found


def _split(line: str) -> tuple[datetime | None, str]:
    found = _TIME.match(line)
    if found is None:
        return None, line.rstrip()
    whole, fraction, zone = found.groups()
    at = datetime.fromisoformat(f"{whole}{(fraction or '')[:7]}{'+00:00' if zone == 'Z' else zone}")
    return at, line[found.end() :].rstrip()


def _known(text: str, rules: tuple[Rule, ...]) -> list[tuple[Rule, int]]:
    """The rules that know a line, with where in it."""
    known: list[tuple[Rule, int]] = []
    generic: list[tuple[Rule, int]] = []
    lowered = text.lower()
    for rule in rules:
        for sign in rule.signs:
            if Source.LOG in sign.sources and (at := sign.found(text, lowered)) is not None:
                (generic if rule.generic else known).append((rule, at))
                break
    return known or generic
