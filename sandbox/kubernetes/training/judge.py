"""Rules about a training's log, as HyperPod's elastic agent judges them.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html and the agent's own code,
https://pypi.org/project/hyperpod-elastic-agent/ (1.1.3): a pattern must match from the beginning of a line; each node's
processes are judged by themselves, here the first of each node; reasons are ``LogHang_<rule>``, ``LogSlow_<rule>`` and
``LogFault_<rule>``. What would be printed is computed, not waited for: who asks hears when a rule will be broken if
nothing changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.kubernetes.programs import training_lines as lines
from sandbox.kubernetes.programs.training import Trainer
from sandbox.kubernetes.programs.training_lines import Place

from .attempts import Attempt

_WINDOW = 200
"""So many steps after the start, and after each change of the pace or the loss, are looked at one by one."""
_COMPARISONS = {
    "gt": lambda value, limit: value > limit,
    "lt": lambda value, limit: value < limit,
    "eq": lambda value, limit: value == limit,
    "gteq": lambda value, limit: value >= limit,
    "lteq": lambda value, limit: value <= limit,
}
_WORDS = {
    "Hang": "The job is hanging (not receiving required logs) on the following log monitoring rules and corresponding "
    "last matched log lines: {}",
    "Slow": "The job is slowed (logs outside of acceptable thresholds) on the following log monitoring rules and "
    "corresponding log lines: {}",
    "Fault": "The job detected a fault indicating log message for the following log monitoring rules and corresponding "
    "log lines: {}",
}


@dataclass(frozen=True)
class Verdict:
    """A rule is broken."""

    at: float
    reason: str
    message: str


def judge(trainer: Trainer, attempt: Attempt, rules: list[dict[str, Any]]) -> Verdict | None:
    """The first rule that is broken, if one ever will be."""
    found = [
        verdict
        for rank in sorted(set(attempt.members.values()) & {0, 1, attempt.nodes - 1})
        for rule in rules
        if (verdict := _Rule(rule).verdict(trainer, attempt, rank)) is not None
    ]
    return min(found, key=lambda verdict: verdict.at, default=None)


class _Rule:
    def __init__(self, rule: dict[str, Any]) -> None:
        self._name = str(rule["name"])
        try:
            self._pattern: re.Pattern[str] | None = re.compile(rule["logPattern"])
            self._stop = re.compile(rule["stopPattern"]) if rule.get("stopPattern") else None
        except re.error:
            # The agent logs that it cannot load such a configuration, and goes on without any rule.
            self._pattern = None
        self._cutoff, self._every = (
            rule.get("expectedStartCutOffInSeconds"),
            rule.get("expectedRecurringFrequencyInSeconds"),
        )
        self._limit, self._compare = rule.get("metricThreshold"), _COMPARISONS.get(str(rule.get("operator")))
        self._points = int(rule.get("metricEvaluationDataPoints") or 1)
        self._fault = bool(rule.get("faultOnMatch"))

    def _broken(self, at: float, kind: str, line: str | None) -> Verdict:
        words = _WORDS[kind].format({self._name: line})
        return Verdict(at, f"Log{kind}_{self._name}", words)

    def verdict(self, trainer: Trainer, attempt: Attempt, rank: int) -> Verdict | None:
        if self._pattern is None:
            return None
        place = Place(rank, attempt.nodes, attempt.number, attempt.first_step, "pod")
        last: tuple[float, str] | None = None
        first = True
        for window in _windows(trainer, attempt, self._points):
            slow = 0
            if not first:
                # What lies between went on as before.
                last = None
            for at, text in _printed(trainer, attempt, place, window, first):
                if text is None:
                    # Nothing more comes, ever.
                    if last is not None and self._every is not None:
                        return self._broken(last[0] + self._every, "Hang", last[1])
                    break
                matched = self._pattern.match(text)
                if last is None and first and self._late(attempt, at):
                    return self._broken(attempt.begun + float(self._cutoff or 0), "Hang", None)
                if last is not None and self._every is not None and at - last[0] > self._every:
                    return self._broken(last[0] + self._every, "Hang", last[1])
                if matched:
                    last = (at, text)
                    if self._fault:
                        return self._broken(at, "Fault", text)
                if self._stop is not None and self._stop.match(text):
                    return None
                if (
                    matched
                    and (value := self._value(matched)) is not None
                    and self._compare
                    and self._limit is not None
                ):
                    slow = slow + 1 if self._compare(value, self._limit) else 0
                    if slow >= self._points:
                        return self._broken(at, "Slow", text)
            if first and last is None and self._late(attempt, attempt.done_at(trainer)):
                return self._broken(attempt.begun + float(self._cutoff or 0), "Hang", None)
            first = False
        return None

    def _late(self, attempt: Attempt, at: float) -> bool:
        return self._cutoff is not None and at - attempt.begun > self._cutoff

    @staticmethod
    def _value(matched: re.Match[str]) -> float | None:
        try:
            return float(matched.group(1)) if matched.groups() and matched.group(1) else None
        except ValueError:
            return None


def _windows(trainer: Trainer, attempt: Attempt, points: int) -> Iterator[range]:
    """The steps that are looked at: those of the start, and those after each change."""
    begun = attempt.first_step + 1
    yield range(begun, min(begun + _WINDOW, trainer.steps) + 1)
    for at in sorted({*(since for since, _ in attempt.phases[1:]), *(since for since, _, _ in attempt.outliers)}):
        done = attempt.steps_at(trainer, at)
        start = max(done - 2 * trainer.log_every, begun)
        if start >= begun + _WINDOW or not attempt.pace(at):
            yield range(start, min(done + points * trainer.log_every + _WINDOW, trainer.steps) + 1)


def _printed(
    trainer: Trainer, attempt: Attempt, place: Place, steps: range, opening: bool
) -> Iterator[tuple[float, str | None]]:
    """The lines of a node's processes; text None where the training stands still for good."""
    if opening:
        for at, text in lines.opening(trainer, place, attempt.begun):
            if not text.startswith("[HyperPodElasticAgent]"):
                yield at, text
    for step in steps:
        at = attempt.at_step(trainer, step)
        if math.isinf(at):
            yield at, None
            return
        for text in lines.step(trainer, place, attempt.moment(trainer, step, at)):
            yield at, text
