"""Metrics over steps: samples with bounds, and several runs over the same steps. Nothing is invented: every value shown
was recorded."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from contracts.experiment_runs import ComparedMetric, MetricHistory, MetricPoint, Value

LARGEST = 1.7976931348623157e308
"""What MLflow's SQL store keeps of infinity."""
_WORDS: dict[str, Value] = {"NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity"}


def value_of(held: Any) -> Value:
    """A value as MLflow's JSON has it."""
    if isinstance(held, str) and held in _WORDS:
        return _WORDS[held]
    number = float(held)
    if math.isnan(number):
        return "NaN"
    if abs(number) >= LARGEST:
        return "Infinity" if number > 0 else "-Infinity"
    return number


def ordered(points: Sequence[dict[str, Any]]) -> list[MetricPoint]:
    """By step, then time; of points that are alike in both, the last stays."""
    found: dict[tuple[int, int], MetricPoint] = {}
    for each in points:
        step, at = int(each.get("step") or 0), int(each.get("timestamp") or 0)
        found[step, at] = MetricPoint(step=step, value=value_of(each.get("value", 0.0)), at=moment(at))
    return [found[key] for key in sorted(found)]


def moment(milliseconds: int) -> datetime:
    """MLflow's time; what is out of bounds is shown at the nearest one."""
    limited = min(max(milliseconds, 0), 253_402_300_799_000)
    return datetime.fromtimestamp(limited / 1000, UTC)


def spread(count: int, most: int) -> list[int]:
    """At most ``most`` (2 or more) indexes of ``count`` items, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return [round(each * (count - 1) / (most - 1)) for each in range(most)]


def history_of(metric: str, points: list[MetricPoint], most: int) -> MetricHistory:
    """A sample of at most ``most`` points; lowest and highest are those of all."""
    finite = [each.value for each in points if isinstance(each.value, float)]
    return MetricHistory(
        metric=metric,
        points=[points[index] for index in spread(len(points), most)],
        recorded=len(points),
        lowest=min(finite, default=None),
        highest=max(finite, default=None),
    )


def compared(metric: str, runs: dict[str, list[MetricPoint]], most: int) -> ComparedMetric:
    """One metric of several runs over a sample of at most ``most`` of the steps that any of them has."""
    every = sorted({each.step for points in runs.values() for each in points})
    steps = [every[index] for index in spread(len(every), most)]
    return ComparedMetric(
        metric=metric,
        steps=steps,
        values={run: _along(points, steps) for run, points in runs.items()},
        sampled=len(steps) < len(every),
    )


def _along(points: list[MetricPoint], steps: list[int]) -> list[Value | None]:
    """For each step, what was last recorded up to it and after the one before."""
    at = [each.step for each in points]
    found: list[Value | None] = []
    begin = 0
    for step in steps:
        end = bisect_right(at, step)
        found.append(points[end - 1].value if end > begin else None)
        begin = end
    return found
