"""What is done to training runs: activities by their signatures, what they take and give back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from contracts.activity import Act, Queue, Wait
from contracts.experiments import ExperimentsConnected, RunFacts
from contracts.model import Ensured, Model
from contracts.network import Scope
from contracts.problem import Problem
from contracts.recipes.progress import Reported
from contracts.training import TrainingSpec
from contracts.training_parts import Restarts, RunAction, StateChange, Submission, TrainingName, TrainingState
from contracts.training_resilience import RecoveryBudget
from contracts.training_views import TrainingRunDetail, TrainingRunList


class TrainingRef(TrainingName):
    """A training run of a cluster."""

    scope: Scope
    eks_cluster: str


class SubmitTraining(Model):
    """The job of a run. ``run`` tells one attempt of an operation from the next: a job that ended for another attempt
    is replaced."""

    scope: Scope
    eks_cluster: str
    spec: TrainingSpec
    run: str
    efa: int = 0
    """EFA interfaces of a node, as its type was looked up."""
    experiment: ExperimentsConnected | None = None
    """Where it reports to, and as whom; null: nowhere, or to an MLflow that asks for no credentials."""
    tiered_account: str | None = None
    """The service account that may use tiered checkpointing, where the run does."""

    @property
    def service_account(self) -> str | None:
        """What the pods run as; null: as anybody of the namespace."""
        return self.experiment.service_account if self.experiment is not None else self.tiered_account

    @property
    def experiment_environment(self) -> dict[str, str]:
        """What lets MLflow in the containers report."""
        target = self.spec.experiment
        if target is None:
            return {}
        uri = self.experiment.tracking_uri if self.experiment is not None else target.tracking_uri
        region = {"AWS_REGION": self.experiment.region} if self.experiment is not None else {}
        facts = RunFacts(
            cluster=self.scope.cluster,
            namespace=self.spec.namespace,
            training=self.spec.name,
            recipe=self.spec.recipe.kind,
            instance_type=self.spec.instance_type,
            nodes=self.spec.nodes,
            gpus_per_node=self.spec.gpus_per_node,
            efa_per_node=self.efa,
        )
        return {**region, **target.environment(uri, facts.tags)} if uri else {}


class SubmittedTraining(Ensured):
    name: str
    namespace: str
    submission: Submission
    uid: str
    api_version: str
    """Of the object that owns the run's pods; empty where it has no pods in the cluster."""
    plural: str


class WatchTraining(TrainingRef):
    """A job that is watched to its end."""

    submission: Submission
    uid: str
    """Another job of the name is not this one."""
    recipe: str
    nodes: int
    instance_type: str
    gpus: int
    recovery: RecoveryBudget
    since: datetime
    """When it was submitted."""
    planned_steps: int | None = None
    """What its recipe says of all steps, where its log does not."""


class TrainingEnd(Model):
    """How a job ended."""

    state: TrainingState
    """``succeeded``, ``failed``, or ``stopped``: it is not there any more."""
    detail: str
    problem: Problem | None = None
    """Why it failed."""
    cluster_gone: bool = False
    """The whole EKS cluster is not there any more."""
    restarts: Restarts = Field(default_factory=Restarts)
    last_checkpoint: datetime | None = None
    reported: Reported = Field(default_factory=Reported)
    pods: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    history: list[StateChange] = Field(default_factory=list)


class Told(Model):
    """What somebody does to a run, told to the operation that watches it."""

    action: RunAction
    by: str
    operation: str
    at: datetime
    reason: str | None = None
    standing: Literal["begun", "done", "withdrawn"] = "begun"
    """What is begun may yet fail, or be given up: only what is done has had its effect."""

    @property
    def text(self) -> str:
        done = {"stop": "stopped", "suspend": "suspended", "resume": "resumed"}[self.action]
        return f"{done} by {self.by}" + (f": {self.reason}" if self.reason else "")


class RecordTraining(TrainingRef):
    """What is written down of one execution of a run, in the cluster's bucket."""

    bucket: str
    run: str
    """The operation's Temporal run ID."""
    operation: str
    spec: TrainingSpec
    attempts: list[TrainingEnd]
    told: list[Told] = Field(default_factory=list)
    state: TrainingState
    detail: str
    started_at: datetime
    logs: str | None = None
    """Key prefix of kept logs."""


class TrainingRecorded(Ensured):
    key: str
    reported: Reported | None = None
    """What the last attempt said at last, as its kept log has it; null: nothing more than was known."""


class StopTraining(TrainingRef):
    """End a job, whatever it does."""


class SetSuspended(TrainingRef):
    suspended: bool
    by: str
    reason: str | None = None


class TrainingStopped(Ensured):
    """What was stopped, suspended or resumed."""

    name: str
    namespace: str
    submission: Submission | None = None
    """Null: there was nothing any more."""
    uid: str | None = None
    was: str | None = None
    """What it did before, in words."""


class WaitForTraining(TrainingRef):
    """Until a job's pods are gone (``gone``, ``suspended``), or are there again (``resumed``)."""

    uid: str | None
    submission: Submission
    wanted: Literal["gone", "suspended", "resumed"]


class TrainingSettled(Model):
    name: str
    namespace: str
    detail: str


class ListTraining(Model):
    scope: Scope
    eks_cluster: str
    namespace: str | None = None


class ReadTraining(TrainingRef):
    """One run, with its pods."""

    bucket: str | None = None
    """Where records of ended runs are."""


WATCH_LIMIT = timedelta(days=30)
SETTLE_LIMIT = timedelta(hours=1)

SUBMIT_TRAINING = Act("training.submit", SubmitTraining, SubmittedTraining, queue=Queue.KUBERNETES)
WATCH_TRAINING = Wait("training.watch", WatchTraining, TrainingEnd, limit=WATCH_LIMIT)
RECORD_TRAINING = Act("training.record", RecordTraining, TrainingRecorded)
DELETE_TRAINING_JOB = Act("training.stop", StopTraining, TrainingStopped, queue=Queue.KUBERNETES)
SET_SUSPENDED = Act("training.set_suspended", SetSuspended, TrainingStopped, queue=Queue.KUBERNETES)
WAIT_FOR_TRAINING = Wait("training.settle", WaitForTraining, TrainingSettled, limit=SETTLE_LIMIT)
LIST_TRAINING = Act("training.list", ListTraining, TrainingRunList, queue=Queue.KUBERNETES)
READ_TRAINING = Act("training.read", ReadTraining, TrainingRunDetail, queue=Queue.KUBERNETES)
