"""How long operations of a kind have taken, and how long one that runs will still take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from pydantic import Field

from contracts.model import Model
from contracts.operation import Operation, Phase, Stage, StageState

MOST_SAMPLES = 20
"""Operations that durations are taken from: the last that succeeded."""
ASKING = frozenset({"capacity"})
"""Stages that wait for a person as a rule. How long that took says nothing about the next time."""


class StageDuration(Model):
    """How long a stage has taken, and where in the operation. Offsets are seconds of work since the operation began:
    time in which no stage ran (queued, blocked, waiting for a person) is left out."""

    stage: str
    median_seconds: float
    longest_seconds: float
    samples: int
    begins_seconds: float = 0.0
    """Median offset of its begin."""
    ends_seconds: float = 0.0
    """Median offset of its end."""


class Durations(Model):
    """How long the last operations of a kind that succeeded have taken, without what people took to answer."""

    kind: str
    samples: int = 0
    """Operations."""
    stages: list[StageDuration] = Field(default_factory=list)
    """In the order in which they begin; without those that ask a person as a rule, and without skipped ones."""
    total_median_seconds: float | None = None
    """From the first stage's begin to the last one's end, as offsets are; null without samples."""


def durations_of(kind: str, operations: Iterable[Operation]) -> Durations:
    """The durations of ``kind`` by operations of that kind that succeeded; others among them are left out.

    Of a stage that was tried several times, the last attempt counts: only that one is recorded. A stage that asked a
    person although it does not as a rule (a shortage of capacity, a drain that is stuck) counts with the wait; medians
    keep single ones from mattering.
    """
    lengths: dict[str, list[float]] = {}
    begins: dict[str, list[float]] = {}
    ends: dict[str, list[float]] = {}
    totals = []
    for operation in operations:
        spans = _spans(operation.stages)
        if operation.kind != kind or operation.phase is not Phase.SUCCEEDED or not spans:
            continue
        offset = _offsets(spans.values())
        totals.append(max(offset.values()))
        for name, (begin, end) in spans.items():
            lengths.setdefault(name, []).append((end - begin).total_seconds())
            begins.setdefault(name, []).append(offset[begin])
            ends.setdefault(name, []).append(offset[end])
    stages = [
        StageDuration(
            stage=name,
            median_seconds=median(found),
            longest_seconds=max(found),
            samples=len(found),
            begins_seconds=median(begins[name]),
            ends_seconds=median(ends[name]),
        )
        for name, found in lengths.items()
    ]
    stages.sort(key=lambda each: (each.begins_seconds, each.ends_seconds))
    total = median(totals) if totals else None
    return Durations(kind=kind, samples=len(totals), stages=stages, total_median_seconds=total)


def remaining(operation: Operation, durations: Durations, now: datetime) -> timedelta | None:
    """How long the operation will still take; None where nothing is known of its kind.

    Assumed: every stage takes its median. A stage that runs has done a part of it; one that is blocked, or waits for a
    person, begins when this is asked, as does an operation that is queued or waits for an approval: what they wait for
    is not counted. A stage that has not begun begins when all unfinished stages have ended that ended before it began
    in the past; stages that ran side by side then do so again. Stages that are not among ``durations`` take no time. A
    stage that takes longer than its median is taken to end now.
    """
    if durations.kind != operation.kind or not durations.samples:
        return None
    if operation.phase.ended:
        return timedelta(0)
    known = {each.stage: each for each in durations.stages}
    # Before a worker has seen the operation, its stages are not written down yet.
    stages = operation.stages or [Stage(name=name, title=name) for name in known]
    ahead = {stage.name: stage for stage in stages if stage.name in known and not stage.state.finished}
    ends: dict[str, float] = {}
    # Whatever a stage waits for has ended, in the past, by the time the stage began: it comes before it here.
    for name in sorted(ahead, key=lambda name: (known[name].begins_seconds, known[name].ends_seconds)):
        stage, usual = ahead[name], known[name]
        if stage.state is StageState.PENDING:
            awaited = (end for other, end in ends.items() if known[other].ends_seconds <= usual.begins_seconds)
            ends[name] = max(awaited, default=0.0) + usual.median_seconds
        else:
            ends[name] = max(usual.median_seconds - _elapsed(stage, now), 0.0)
    return timedelta(seconds=max(ends.values(), default=0.0))


def _elapsed(stage: Stage, now: datetime) -> float:
    """Seconds that a running stage has worked; of one that stands still, none: it begins anew."""
    if stage.state is not StageState.RUNNING or stage.started_at is None:
        return 0.0
    return max((now - stage.started_at).total_seconds(), 0.0)


def _spans(stages: Iterable[Stage]) -> dict[str, tuple[datetime, datetime]]:
    """When each stage that counts began and ended."""
    return {
        stage.name: (stage.started_at, max(stage.started_at, stage.finished_at))
        for stage in stages
        if stage.name not in ASKING
        and stage.state.finished
        and stage.state is not StageState.SKIPPED
        and stage.started_at is not None
        and stage.finished_at is not None
    }


def _offsets(spans: Iterable[tuple[datetime, datetime]]) -> dict[datetime, float]:
    """Of every begin and end: seconds since the first in which at least one of the spans ran."""
    spans = list(spans)
    moments: Sequence[datetime] = sorted({moment for span in spans for moment in span})
    offsets, passed = {moments[0]: 0.0}, timedelta(0)
    for earlier, later in pairwise(moments):
        if any(begin <= earlier and later <= end for begin, end in spans):
            passed += later - earlier
        offsets[later] = passed.total_seconds()
    return offsets
