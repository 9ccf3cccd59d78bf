"""How training runs are seen: one line, a list, one with its pods."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from contracts.jobs import JobPod
from contracts.model import Model
from contracts.node_views import NodeCondition
from contracts.recipes.progress import Reported
from contracts.training import TrainingSpec
from contracts.training_parts import Restarts, Submission, TrainingState, Waiting


class TrainingRunView(Model):
    """A training run as it is now."""

    namespace: str
    name: str
    submission: Submission
    recipe: str
    """Its kind."""
    state: TrainingState
    reason: str | None = None
    """The word of Kubernetes, of the operator or of the queue for what is in the way."""
    detail: str
    """One line on what goes on."""
    remark: str | None = None
    """What is remarkable about a run that has ended well: that it did before its last step. Lists do not tell it of
    jobs that are there, as they read no logs."""
    instance_type: str = ""
    nodes: int
    gpus: int
    """Of all nodes."""
    pods_ready: int = 0
    pods_total: int = 0
    restarts: Restarts = Field(default_factory=Restarts)
    last_checkpoint: datetime | None = None
    reported: Reported = Field(default_factory=Reported)
    started_at: datetime | None = None
    finished_at: datetime | None = None
    operation: str | None = None
    """Who watches it, or did."""
    run: str | None = None
    """The execution of that operation that submitted it."""
    experiment: str | None = None
    stopped_by: str | None = None


class TrainingRunList(Model):
    """The training runs of a cluster, by namespace and name."""

    runs: list[TrainingRunView] = Field(default_factory=list)
    unreadable: list[str] = Field(default_factory=list)
    """Paths of submission that were not looked at, each with why."""
    read_at: datetime


class TrainingRunDetail(Model):
    """A training run with its pods, those in trouble first."""

    run: TrainingRunView
    spec: TrainingSpec | None = None
    """What it was made from; null where that is not kept any more."""
    pods: list[JobPod] = Field(default_factory=list)
    more_pods: int = 0
    conditions: list[NodeCondition] = Field(default_factory=list)
    waiting: Waiting | None = None
    """Where nothing of it runs: why, and what that costs."""
    record: str | None = None
    """Key in the cluster's bucket of what was written down at its end."""
    logs: str | None = None
    """Key prefix in the cluster's bucket of its kept logs."""
    logged_at: str | None = None
    """Where its log is otherwise: of a SageMaker training job, in CloudWatch."""
    read_at: datetime
