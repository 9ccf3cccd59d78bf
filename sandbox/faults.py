"""Scripted faults of the sandbox's APIs: errors, latency, lost requests, lost responses.

One :class:`Faults` serves both halves. A rule says what it matches, how often it fires and what it does; every firing
is recorded, so that a test can prove that the fault it asked for really happened.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from random import Random
from typing import Any

ACTIONS = ("error", "latency", "drop", "http500")
PHASES = ("before", "after")
LONGEST_PAUSE = 0.1


@dataclass
class Rule:
    """A fault.

    ``before`` the call means that it has no effect; ``after`` means that it had its effect and only the answer changes.
    So ``before`` + ``drop`` is a lost request and ``after`` + ``drop`` a lost response.
    """

    id: str = ""
    api: str = "*"
    """``aws``, ``kubernetes`` or ``*``."""
    service: str = "*"
    """An AWS service by its botocore name, such as ``sagemaker``."""
    operation: str = ".*"
    """Regular expression for the whole operation: ``CreateCluster``, or ``POST /api/v1/...`` for Kubernetes."""
    match: str = ""
    """Text that the request's body must contain."""
    p: float = 1.0
    times: int | None = None
    skip: int = 0
    phase: str = "before"
    action: str = "error"
    latency: float = 0.0
    """Real seconds, before anything else that the rule does; they are over when the rule is taken away."""
    code: str = "ThrottlingException"
    status: int | None = None
    message: str = "Rate exceeded"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: dict[str, Any]) -> Rule:
        """A rule from JSON. Raises ValueError for what it does not know."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise ValueError(f"unknown fields of a fault: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        rule = cls(**data)
        if rule.action not in ACTIONS:
            raise ValueError(f"action must be one of {', '.join(ACTIONS)}, not {rule.action!r}")
        if rule.phase not in PHASES:
            raise ValueError(f"phase must be one of {', '.join(PHASES)}, not {rule.phase!r}")
        try:
            re.compile(rule.operation)
        except re.error as error:
            raise ValueError(f"operation {rule.operation!r} is not a regular expression: {error}") from error
        return rule


class Faults:
    """The rules in force and what they did."""

    def __init__(self, seed: int = 0) -> None:
        self._rules: list[Rule] = []
        self._fired: list[dict[str, Any]] = []
        self._random = Random(seed)
        self._lock = threading.Lock()

    def replace(self, rules: list[dict[str, Any]]) -> None:
        """Put these rules in place of all others and forget what fired."""
        parsed = [Rule.parse(r) for r in rules]
        with self._lock:
            self._rules, self._fired = parsed, []

    def add(self, rules: list[dict[str, Any]]) -> None:
        parsed = [Rule.parse(r) for r in rules]
        with self._lock:
            self._rules.extend(parsed)

    def clear(self) -> None:
        self.replace([])

    def report(self) -> dict[str, Any]:
        with self._lock:
            return {"rules": [asdict(r) for r in self._rules], "fired": [dict(f) for f in self._fired]}

    def pick(self, api: str, service: str, operation: str, phase: str, body: str = "") -> Rule | None:
        """The first rule that fires for this call, if any; its counters move."""
        if not self._rules:
            return None
        with self._lock:
            for rule in self._rules:
                if self._fires(rule, api, service, operation, phase, body):
                    self._fired.append(
                        {"rule": rule.id, "api": api, "service": service, "operation": operation}
                        | {"phase": phase, "action": rule.action, "wall": time.time()}
                    )
                    return rule
        return None

    def pauses(self, rule: Rule) -> Iterator[float]:
        """Pieces to sleep one by one, until the rule's latency is over or the rule is not in force any more."""
        until = time.monotonic() + rule.latency
        while (left := until - time.monotonic()) > 0 and any(each is rule for each in self._rules):
            yield min(left, LONGEST_PAUSE)

    def dump(self) -> dict[str, Any]:
        return self.report()

    def load(self, dumped: dict[str, Any]) -> None:
        with self._lock:
            self._rules = [Rule.parse(r) for r in dumped["rules"]]
            self._fired = list(dumped["fired"])

    def _fires(self, rule: Rule, api: str, service: str, operation: str, phase: str, body: str) -> bool:
        if rule.phase != phase or rule.api not in ("*", api) or rule.service not in ("*", service):
            return False
        if not re.fullmatch(rule.operation, operation) or (rule.match and rule.match not in body):
            return False
        if rule.times is not None and rule.times <= 0:
            return False
        if rule.skip > 0:
            rule.skip -= 1
            return False
        if rule.p < 1 and self._random.random() >= rule.p:
            return False
        if rule.times is not None:
            rule.times -= 1
        return True
