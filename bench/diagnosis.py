"""Diagnoses of seeded failures: how often the right cause comes first, how often something is claimed of what should
stay unknown, and how long it takes.

``seen``: cases that the rules were written with. ``held_out``: cases that were written before the rules (by the same
hand) and not looked at again until the rules stood. ``reported``: what users reported in public issues, gathered after
the rules stood. Rules were completed from what they got wrong at first: docs/diagnostics.md has the first scores. The
baseline names the cause of the last line that any rule knows, as a search for known words would.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from activities.diagnostics.matching import causes
from activities.diagnostics.rules import RULES
from bench.corpus_cases import Case, load
from bench.report import Report

CORPORA = ("seen", "held_out", "reported")
REPEATS = 5
_NEVER = datetime.min.replace(tzinfo=UTC)


def run(report: Report) -> None:
    """Add what was found of both corpora to the report."""
    for name in CORPORA:
        cases = load(name)
        failures = [case for case in cases if case.expect is not None]
        unknown = [case for case in cases if case.expect is None]
        right = [case for case in failures if first_of(case) == case.expect]
        claimed = [case for case in unknown if first_of(case) is not None]
        report.add(f"diagnosis, {name}: right cause first, of {len(failures)}", "cases", [len(right)])
        report.add(
            f"diagnosis, {name}: the same by the last known line",
            "cases",
            [sum(map(_last_line_is_right, failures))],
            baseline=True,
        )
        report.add(f"diagnosis, {name}: false claims, of {len(unknown)}", "cases", [len(claimed)], "0")
        report.add(f"diagnosis, {name}: time", "ms", [1000 * _seconds(case) for case in cases])
        for case in failures:
            if case not in right:
                report.note(f"{name}: {case.id} is {case.expect}, told as {first_of(case) or 'unknown'}")
        for case in claimed:
            report.note(f"{name}: {case.id} is unknown, told as {first_of(case)}")


def first_of(case: Case) -> str | None:
    """The rule of the most probable cause."""
    found = causes(case.entries(), case.failed_at)
    return found[0].rule if found else None


def _last_line_is_right(case: Case) -> bool:
    for entry in sorted(case.entries(), key=lambda each: each.at or _NEVER, reverse=True):
        for rule in RULES:
            if rule.strength(entry) > 0:
                return rule.id == case.expect
    return False


def _seconds(case: Case) -> float:
    """The shortest of some rounds, from documents to causes."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        causes(case.entries(), case.failed_at)
        taken.append(time.perf_counter() - began)
    return min(taken)
