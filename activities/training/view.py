"""Training runs as lists show them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from activities.training.paths import Job
from activities.training.pods import PodsSeen
from activities.training.sight import Standing, cost_of
from contracts.recipes.progress import Reported
from contracts.training import TrainingSpec
from contracts.training_parts import Submission, TrainingState, remark_on
from contracts.training_views import TrainingRunView


def as_view(
    job: Job,
    now: Standing,
    pods: PodsSeen,
    reported: Reported | None = None,
    checkpoint_at: datetime | None = None,
) -> TrainingRunView:
    """A run whose job is there."""
    spec = job.spec
    state = TrainingState.DELETING if job.deleting else now.state
    return TrainingRunView(
        namespace=job.namespace,
        name=job.name,
        submission=job.submission,
        recipe=spec.recipe.kind if spec is not None else job.labels.get("app.kubernetes.io/name", "unknown"),
        state=state,
        reason=now.reason,
        detail=now.detail + cost_of(now.waiting),
        remark=remark_on(state, reported or Reported()),
        pods_ready=pods.ready,
        pods_total=pods.total,
        restarts=job.restarts,
        last_checkpoint=checkpoint_at,
        reported=reported or Reported(),
        started_at=job.started_at,
        finished_at=job.finished_at,
        operation=job.operation,
        run=job.run.partition("/")[0] if job.run else None,
        **_asked(spec, pods),
    )


def of_record(record: dict[str, Any]) -> tuple[TrainingRunView, TrainingSpec | None] | None:
    """A run whose job is gone, from what was written down at its end; None for what is no such record."""
    try:
        spec = TrainingSpec.model_validate(record["spec"])
    except (KeyError, ValueError):
        spec = None
    attempts = record.get("attempts") or [{}]
    last = attempts[-1]
    stopped = next((each for each in reversed(record.get("told") or []) if each.get("action") == "stop"), None)
    try:
        state, reported = TrainingState(record["state"]), Reported.model_validate(last.get("reported") or {})
        view = TrainingRunView(
            namespace=record["namespace"],
            name=record["name"],
            submission=spec.path if spec is not None else Submission.HYPERPOD,
            recipe=spec.recipe.kind if spec is not None else "unknown",
            state=state,
            detail=record.get("detail") or "",
            remark=remark_on(state, reported),
            restarts=last.get("restarts") or {},
            last_checkpoint=last.get("last_checkpoint"),
            reported=reported,
            started_at=last.get("started_at") or record.get("started_at"),
            finished_at=last.get("finished_at"),
            operation=record.get("operation"),
            run=record.get("run"),
            # What was stopped after it had ended well is only its job, to make room.
            stopped_by=stopped["by"] if stopped is not None and state is not TrainingState.SUCCEEDED else None,
            **_asked(spec, PodsSeen()),
        )
    except (KeyError, ValueError):
        return None
    return view, spec


def _asked(spec: TrainingSpec | None, pods: PodsSeen) -> dict[str, Any]:
    if spec is None:
        return {"nodes": pods.total, "gpus": 0}
    return {
        "instance_type": spec.instance_type,
        "nodes": spec.nodes,
        "gpus": spec.nodes * spec.gpus_per_node,
        "experiment": spec.experiment.experiment if spec.experiment is not None else None,
    }
