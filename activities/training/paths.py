"""Paths of submission: what each must be able to do with the job of a run. Everything else is the same on all.

Another path is one module with a class like :class:`activities.training.hyperpod.HyperPodPath`, and one entry in
:data:`activities.training.registry.PATHS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from kubernetes import client

from activities.aws import AwsClients
from contracts.names import ANNOTATION_OPERATION, ANNOTATION_RUN, ANNOTATION_SPEC
from contracts.node_views import NodeCondition
from contracts.recipes.launch import Launch
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_parts import Restarts, Submission, TrainingState

Raw = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """Where a path acts: one cluster, as one activity sees it."""

    api: client.ApiClient
    aws: AwsClients
    region: str
    cluster: str
    """The tag."""


@dataclass(frozen=True)
class Job:
    """A job as its path has it."""

    submission: Submission
    name: str
    namespace: str
    uid: str
    state: TrainingState
    """By the job's own word; its pods may say more."""
    detail: str = ""
    """The same in a sentence."""
    reason: str | None = None
    restarts: Restarts = field(default_factory=Restarts)
    suspended: bool = False
    """By its specification: nothing of it is to run."""
    deleting: bool = False
    queue: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    conditions: list[NodeCondition] = field(default_factory=list)
    faulty: list[str] = field(default_factory=list)
    """Pods that its path holds for the cause of the last restart."""
    version: str = ""
    """Another one where anything of the job has changed."""
    stays: bool = False
    """Jobs of its path are never deleted: one that has ended is as good as gone."""
    logs: str | None = None
    """Where its log is, if not with pods of the cluster."""

    @property
    def operation(self) -> str | None:
        return self.annotations.get(ANNOTATION_OPERATION)

    @property
    def run(self) -> str | None:
        """The attempt of an operation that submitted it."""
        return self.annotations.get(ANNOTATION_RUN)

    @property
    def spec(self) -> TrainingSpec | None:
        """What it was made from; None where that is not kept, or not understood any more."""
        text = self.annotations.get(ANNOTATION_SPEC)
        try:
            return TrainingSpec.model_validate_json(text) if text else None
        except ValueError:
            return None


class TrainingPath(Protocol):
    """What a path does with jobs. Reads raise as Kubernetes' and AWS's clients do; only a NotFound means absent."""

    submission: Submission
    api_version: str
    """Of the object that owns a run's pods; empty where it has none in the cluster."""
    plural: str

    def find(self, site: Site, namespace: str, name: str) -> Job | None:
        """The job of that name, whoever made it."""

    def list(self, site: Site, namespace: str | None) -> list[Job]:
        """Every job of a run of ours."""

    def launch(self, request: SubmitTraining) -> Launch:
        """What its containers are started with, and the files that they find."""

    def apply(self, site: Site, request: SubmitTraining, config: str, operation: str) -> Job:
        """The job as it is asked for. ``config``: the ConfigMap of its files; empty where it has no pods in the
        cluster."""

    def delete(self, site: Site, job: Job) -> None:
        """Begin the deletion of just this job, with its pods."""

    def tail(self, site: Site, job: Job, lines: int) -> Sequence[str]:
        """The last lines of its first rank's log with their times, where it is not with pods of the cluster."""

    def suspend(self, site: Site, job: Job, suspended: bool, notes: dict[str, str | None]) -> None:
        """Suspend a job, or let it go on. ``notes`` are annotations that say who did it; null takes one away."""
