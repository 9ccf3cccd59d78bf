"""Kubernetes Jobs (batch/v1) as lists show them. Environment and commands of their pods are left out: those may hold
secrets."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from contracts.activity import Act, Queue
from contracts.model import Model

MOST_ON_A_PAGE = 200
MOST_PODS = 200
"""Of one Job: those in trouble come first."""


class JobState(StrEnum):
    """What a Job does, in one word."""

    PENDING = "pending"
    """Nothing of it runs: its pods wait for a node or start, or one that failed is about to be replaced."""
    RUNNING = "running"
    """At least one pod is Ready."""
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class JobView(Model):
    """A Job as Kubernetes has it."""

    namespace: str
    name: str
    state: JobState
    reason: str | None = None
    """Why it is in this state, in words: of its conditions, where they say it (``BackoffLimitExceeded: …``)."""
    active: int = 0
    """Pods that wait or run."""
    succeeded: int = 0
    """Pods that ended well."""
    failed: int = 0
    """Pods that ended badly."""
    completions: int | None = None
    """How many pods are to end well; null: one is enough, and the others end by themselves."""
    parallelism: int = 1
    """How many pods may run at once."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    images: list[str] = Field(default_factory=list)
    """Of its containers, each once."""


class JobPod(Model):
    """A pod of a Job."""

    name: str
    phase: str
    """``Pending``, ``Running``, ``Succeeded``, ``Failed`` or ``Unknown``."""
    node: str | None = None
    """Null: it has none yet."""
    reason: str | None = None
    """Kubernetes' word for what holds it up or ended it: ``Unschedulable``, ``ImagePullBackOff``, ``OOMKilled`` …"""
    message: str | None = None
    """The same in a sentence, where there is one."""
    restarts: int = 0
    """Of all its containers."""
    exit_code: int | None = None
    """How its containers ended last: the first code that is not 0, if any; null while none has ended."""


class JobList(Model):
    """Some Jobs, by namespace and name."""

    jobs: list[JobView] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page."""
    read_at: datetime


class JobDetail(Model):
    """A Job and its pods, those in trouble first."""

    job: JobView
    pods: list[JobPod] = Field(default_factory=list)
    more_pods: int = 0
    """Pods that are not shown: a Job may have thousands."""
    read_at: datetime


class ListJobs(Model):
    """A page of the Jobs of a cluster."""

    cluster: str
    region: str
    eks_cluster: str
    namespace: str | None = None
    """Null: all namespaces."""
    state: JobState | None = None
    position: str | None = None
    """Where the page before ended."""
    size: int = Field(50, ge=1, le=MOST_ON_A_PAGE)


class JobsRead(Model):
    jobs: list[JobView] = Field(default_factory=list)
    position: str | None = None
    """Where to read on; null on the last page."""
    read_at: datetime


class ReadJob(Model):
    """One Job of a cluster."""

    cluster: str
    region: str
    eks_cluster: str
    namespace: str
    name: str


LIST_JOBS = Act("jobs.list", ListJobs, JobsRead, queue=Queue.KUBERNETES)
READ_JOB = Act("jobs.read", ReadJob, JobDetail, queue=Queue.KUBERNETES)
