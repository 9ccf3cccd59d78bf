"""What a rule is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from activities.diagnostics.rules.words import words_of
from contracts.diagnostics import Source, TimelineEntry

Level = Literal["investigate", "correct", "wait", "reboot", "replace", "support"]

DECISIVE = 0.9
"""Nothing else says this."""
STRONG = 0.75
FAIR = 0.55
WEAK = 0.3
"""Not claimed alone: several sources must agree."""

LOGS = frozenset({Source.LOG})
TOLD = frozenset({Source.LOG, Source.POD, Source.KUBERNETES_EVENT, Source.JOB})
"""What a workload and Kubernetes tell of a pod."""
POD = frozenset({Source.POD, Source.KUBERNETES_EVENT, Source.JOB})
NODES = frozenset({Source.NODE, Source.KUBERNETES_EVENT, Source.INSTANCE, Source.HYPERPOD_EVENT})
"""What HyperPod's health monitoring and the kubelet tell of a node."""
MAKING = frozenset({Source.HYPERPOD_EVENT, Source.CLUSTER, Source.INSTANCE, Source.STAGE})
"""What HyperPod, and our operations, tell of making clusters and nodes."""


_QUOTES = "WorkerCrash: "
"""How HyperPod's training operator begins an event or a condition that repeats the last line of a process."""


def quotes_log(entry: TimelineEntry) -> bool:
    """Whether an entry that is no line of a log repeats one."""
    return entry.source in (Source.KUBERNETES_EVENT, Source.JOB) and _QUOTES in entry.text


@dataclass(frozen=True)
class Sign:
    """Evidence of a cause: a pattern, searched without regard to case in the texts of some sources.

    Patterns are linear: no repetition within a repetition, and every gap is bounded.
    """

    pattern: str
    strength: float
    sources: frozenset[Source]
    regex: re.Pattern[str] = field(init=False, compare=False)
    words: tuple[str, ...] | None = field(init=False, compare=False)
    """Of which a text that it matches has at least one, in lower case; null: any text may match."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", re.compile(self.pattern, re.IGNORECASE))
        words = words_of(self.pattern)
        object.__setattr__(self, "words", tuple(sorted(words)) if words is not None else None)

    def found(self, text: str, lowered: str) -> int | None:
        """Where it matches a text; ``lowered`` is the same in lower case."""
        if self.words is not None and not any(word in lowered for word in self.words):
            return None
        hit = self.regex.search(text)
        return hit.start() if hit is not None else None

    def tells(self, entry: TimelineEntry, lowered: str) -> bool:
        counts = entry.source in self.sources or (Source.LOG in self.sources and quotes_log(entry))
        return counts and self.found(entry.text, lowered) is not None


@dataclass(frozen=True)
class Rule:
    """A cause, and what it is told by."""

    id: str
    title: str
    signs: tuple[Sign, ...]
    explanation: str
    fix: str
    source: str
    """Where it is documented."""
    level: Level = "correct"
    leads_to: frozenset[str] = frozenset()
    """Rules whose evidence is a consequence where this cause came first."""
    of_node: bool = False
    """It is mended on the node: the next step is to reboot or replace it."""
    generic: bool = False
    """It counts only lines that no other rule knows."""

    def strength(self, entry: TimelineEntry) -> float:
        """How telling an entry is of this cause; 0 where it tells nothing of it."""
        lowered = entry.text.lower()
        return max((sign.strength for sign in self.signs if sign.tells(entry, lowered)), default=0.0)


def sign(pattern: str, strength: float, *sources: Source | frozenset[Source]) -> Sign:
    """``sources``: single ones and sets of them."""
    found: set[Source] = set()
    for each in sources:
        found |= {each} if isinstance(each, Source) else each
    return Sign(pattern, strength, frozenset(found))


def ids(*names: str | Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for each in names:
        found |= {each} if isinstance(each, str) else set(each)
    return frozenset(found)


DISTRIBUTED = ids(
    "collective-timeout", "peer-lost", "nccl-error", "rendezvous", "hang", "ray-worker-lost", "unknown-program-error"
)
"""What a job shows when one of its parts is gone, whatever took it."""
