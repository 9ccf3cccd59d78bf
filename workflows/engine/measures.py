"""What an operation tells of its transitions as metrics. Temporal's meter tells nothing while a workflow is replayed;
a workflow task that has to be done again tells it again."""

from __future__ import annotations

from datetime import datetime

from temporalio import workflow

from contracts import measures
from contracts.operation import Phase, Stage


def stage_ended(stage: Stage) -> None:
    """An attempt of a stage came to its end, or to what blocked it."""
    if stage.started_at is not None and stage.finished_at is not None:
        labels = {"kind": _kind(), "stage": stage.name, "outcome": stage.state.value}
        _observe(measures.STAGE_SECONDS, stage.started_at, stage.finished_at, labels)


def operation_ended(phase: Phase) -> None:
    """The operation has come to its end."""
    labels = {"kind": _kind(), "phase": phase.value}
    ended = measures.OPERATIONS_ENDED
    workflow.metric_meter().create_counter(ended.name, ended.help).add(1, labels)
    _observe(measures.OPERATION_SECONDS, workflow.info().start_time, workflow.now(), labels)


def leases_held(asked: datetime) -> None:
    """The operation got its leases, which it had asked for at ``asked``."""
    _observe(measures.LEASE_SECONDS, asked, workflow.now(), {"kind": _kind()})


def _observe(measure: measures.Histogram, began: datetime, ended: datetime, labels: dict[str, str]) -> None:
    seconds = max(0.0, (ended - began).total_seconds())
    workflow.metric_meter().create_histogram_float(measure.name, measure.help).record(seconds, labels)


def _kind() -> str:
    """Workflow types of operations are their kinds."""
    return workflow.info().workflow_type
