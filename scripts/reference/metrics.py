"""``docs/reference/metrics.md``: what each process tells Prometheus."""

from __future__ import annotations

from contracts import measures
from contracts.measures import Counter, Gauge, Histogram, Measure
from scripts.reference.pages import MADE, paragraphs, table

HEAD = f"""# Metrics

{MADE}
The platform's own, from `contracts/measures.py`; Temporal's SDK tells others beside them (`temporal_…`). How to read
them, and what is alerted on: [observability.md](../observability.md).
"""


def page() -> str:
    """The page."""
    rows = (
        (f"`{shown(each)}`", _kind(each), ", ".join(f"`{label}`" for label in each.labels), each.where, each.help)
        for each in measures.ALL
    )
    return f"{paragraphs(HEAD)}\n{table(('metric', 'kind', 'labels', 'told by', 'meaning'), rows)}"


def shown(measure: Measure) -> str:
    """The name that Prometheus has it by; a histogram's without ``_bucket``, ``_sum`` and ``_count``."""
    return measure.shown if isinstance(measure, Counter) else measure.name


def _kind(measure: Measure) -> str:
    match measure:
        case Counter():
            return "counter"
        case Gauge():
            return "gauge"
        case Histogram():
            return "histogram"
    raise TypeError(type(measure).__name__)
