"""Training runs of a cluster: which there are, and one of them closely."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.catalogue import RESUME_TRAINING, RUN_TRAINING, STOP_TRAINING, SUSPEND_TRAINING
from contracts.cluster import ClusterRecord
from contracts.operation import Operation
from contracts.training_parts import reported_text
from contracts.training_views import TrainingRunList, TrainingRunView
from ui.kept import kept
from ui.links import page_link
from ui.operation_rows import history_rows
from ui.problems import escaped, problems_shown
from ui.serving_parts import chosen_one, full_name, table
from ui.session import gateway
from ui.times import ago
from ui.training_control import RESUME, STOP, SUSPEND, control
from ui.training_run import log_of_run, run_shown

_EVERY = "5s"
_SECONDS = 3.0
_PAST_SECONDS = 10.0
_MOST_PAST = 50
_SHOWN = 8
_LOOK, _LOG = "Look at it", "Log"
_KINDS = {each.name for each in (RUN_TRAINING, STOP_TRAINING, SUSPEND_TRAINING, RESUME_TRAINING)}
_OPTIONAL = ("Done", "Reported", "Last checkpoint", "Since")
"""Columns that are left out where no run has anything to say there."""


def runs_of(tag: str) -> TrainingRunList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"training-runs/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_TRAINING_RUNS, tag=tag))


def operations_of(tag: str) -> list[Operation]:
    """The newest operations that submitted runs. Raises GatewayProblem."""
    found = kept(
        f"training-operations/{tag}",
        _PAST_SECONDS,
        lambda: gateway().call(endpoints.LIST_OPERATIONS, cluster=tag, kind=RUN_TRAINING.name, page_size=_MOST_PAST),
    )
    return found.operations


def runs_tab(record: ClusterRecord, may: bool) -> None:
    """Table, one of them, and what was submitted lately."""
    _live(record.tag)
    with problems_shown():
        there = {full_name(each) for each in runs_of(record.tag).runs}
        past = operations_of(record.tag)
        names = there | {name for each in past if (name := run_named(each)) is not None}
        chosen, action = chosen_one("run", sorted(names), [_LOOK, _LOG, SUSPEND, RESUME, STOP])
        if chosen is not None:
            namespace, _, name = chosen.rpartition("/")
            with st.container(border=True):
                if action == _LOOK:
                    run_shown(record.tag, namespace, name)
                elif action == _LOG:
                    log_of_run(record.tag, namespace, name, [each for each in past if run_named(each) == chosen])
                else:
                    control(record.tag, namespace, name, action, may)
        if past:
            with st.expander(f"Submitted lately ({len(past)})", icon=":material/history:"):
                history_rows(past[:_SHOWN])
                page_link("operations", "All of them", ":material/history:", cluster=record.tag, kind=RUN_TRAINING.name)


def run_named(operation: Operation) -> str | None:
    """``namespace/name`` of the training run that an operation is about; None where it is about something else."""
    if operation.kind not in _KINDS:
        return None
    target = operation.id.removeprefix(f"{operation.kind}/{operation.cluster}/")
    return target if "/" in target else f"default/{target}"


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    with problems_shown():
        found = runs_of(tag)
        for each in found.unreadable:
            st.caption(f":material/visibility_off: Not looked at: {escaped(each)}")
        rows = [_row(each, found) for each in found.runs]
        silent = [name for name in _OPTIONAL if not any(row[name] for row in rows)]
        shown = [{name: value for name, value in row.items() if name not in silent} for row in rows]
        table(shown, "training runs", "No training run is in this cluster now.")
        if not found.runs:
            page_link("training", "Submit a run", ":material/add:", cluster=tag, tab="New run")


def _row(view: TrainingRunView, found: TrainingRunList) -> dict[str, Any]:
    reported = view.reported
    return {
        "Run": full_name(view),
        "State": view.state.value,
        "What goes on": f"{view.reason}: {view.detail}" if view.reason else view.detail,
        "Done": f"{_share(view):.0%}" if reported.step is not None and reported.total_steps else "",
        "Reported": reported_text(reported) or "",
        "Pods": f"{view.pods_ready} of {view.pods_total}",
        "Restarts": _restarts(view),
        "Last checkpoint": ago(view.last_checkpoint, found.read_at) if view.last_checkpoint is not None else "",
        "Runs on": f"{view.nodes} × {view.instance_type}" if view.instance_type else str(view.nodes),
        "Framework": view.recipe,
        "By": view.submission.value,
        "Since": ago(view.started_at, found.read_at) if view.started_at is not None else "",
    }


def _restarts(view: TrainingRunView) -> str:
    used, limit = view.restarts.job, view.restarts.job_limit
    return str(used) if limit is None else f"{used} of {limit}"


def _share(view: TrainingRunView) -> float:
    step, total = view.reported.step or 0, view.reported.total_steps or 1
    return min(1.0, step / total)
