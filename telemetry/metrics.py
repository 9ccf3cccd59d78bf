"""Metrics of a process: those of ``contracts.measures`` beside Temporal's own, on one endpoint for Prometheus.

The endpoint is the one of Temporal's runtime, so that a scrape is one request and costs no Python. While nobody has
asked for it, each function here returns at once.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from typing import TYPE_CHECKING, Any

from contracts.measures import ALL, Counter, Gauge, Histogram, Measure

if TYPE_CHECKING:
    from temporalio.common import MetricMeter

_meter: MetricMeter | None = None
_instruments: dict[str, Any] = {}
_levels: Tally[tuple[str, tuple[tuple[str, str], ...]]] = Tally()
_lock = threading.Lock()


def bind(meter: MetricMeter) -> None:
    """Tell everything from now on through the meter of Temporal's runtime. Once in a process."""
    global _meter
    _instruments.update({measure.name: instrument(meter, measure) for measure in ALL})
    _meter = meter


def on() -> bool:
    """Whether somebody can read what is told here."""
    return _meter is not None


def count(measure: Counter, amount: int = 1, **labels: str) -> None:
    """Something happened ``amount`` times."""
    if _meter is not None:
        _of(measure, labels).add(amount, labels)


def observe(measure: Histogram, seconds: float, **labels: str) -> None:
    """Something took ``seconds``."""
    if _meter is not None:
        _of(measure, labels).record(max(0.0, seconds), labels)


def level(measure: Gauge, value: float, **labels: str) -> None:
    """There is ``value`` of something now."""
    if _meter is not None:
        _of(measure, labels).set(float(value), labels)


def shift(measure: Gauge, by: int, **labels: str) -> None:
    """There is more of something, or less, in this process."""
    if _meter is None:
        return
    key = measure.name, tuple(sorted(labels.items()))
    with _lock:
        _levels[key] += by
        level(measure, _levels[key], **labels)


def instrument(meter: MetricMeter, measure: Measure) -> Any:
    """The instrument of a meter that tells ``measure``."""
    match measure:
        case Counter():
            return meter.create_counter(measure.name, measure.help)
        case Histogram():
            return meter.create_histogram_float(measure.name, measure.help)
    return meter.create_gauge_float(measure.name, measure.help)


def _of(measure: Measure, labels: dict[str, str]) -> Any:
    if labels.keys() != set(measure.labels):
        raise ValueError(f"{measure.name} has labels {', '.join(measure.labels)}, not {', '.join(labels)}")
    return _instruments[measure.name]
