"""What a training run is made of beside its recipe: its name, storage, queue, and how it is seen while it runs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field, field_validator

from contracts.deployment_parts import StorageMount
from contracts.model import Model
from contracts.names import TRAINING_NAME, namespaced, short_hash, slug
from contracts.objects import DEFAULT_NAMESPACE, ObjectName
from contracts.recipes.progress import Reported

LOCAL = "/local"
"""Where a node's own fast disk is in a container."""


class Submission(StrEnum):
    """Who makes pods of a job and keeps it alive."""

    HYPERPOD = "hyperpod"
    """HyperPod's training operator. (HyperPodPyTorchJob)"""
    RAY = "ray"
    """KubeRay. (RayJob)"""
    SAGEMAKER = "sagemaker"
    """SageMaker itself, on instances of its own. (CreateTrainingJob)"""


class TrainingName(Model):
    """A training run by its name."""

    name: str = Field(examples=["qwen3-sft"])
    namespace: ObjectName = DEFAULT_NAMESPACE

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if violation := TRAINING_NAME.violation(name):
            near = slug(name)
            near = near if len(near) <= TRAINING_NAME.maximum else f"{near[:38].rstrip('-')}-{short_hash(name)}"
            raise ValueError(f"{violation}. Use for example {near!r}")
        return name

    @property
    def target(self) -> str:
        return namespaced(self.name, self.namespace)


class TrainingMount(StorageMount):
    """Shared storage as a container of the job sees it; it may write there."""

    read_only: bool = False


class QueuePlace(Model):
    """Where a job waits for its turn, where task governance is on. (Kueue: LocalQueue, WorkloadPriorityClass)"""

    queue: ObjectName = Field(examples=["hyperpod-ns-research-localqueue"])
    """A local queue of the namespace."""
    priority: ObjectName | None = Field(None, examples=["training-priority"])
    """A priority class; null: the lowest."""


class TrainingState(StrEnum):
    """What a run does, in one word."""

    QUEUED = "queued"
    """It waits for its turn, for quota or for nodes: nothing of it runs."""
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    """Somebody ended it."""
    DELETING = "deleting"
    UNKNOWN = "unknown"

    @property
    def ended(self) -> bool:
        return self in (TrainingState.SUCCEEDED, TrainingState.FAILED, TrainingState.STOPPED)


class Restarts(Model):
    """What of its budget a run has used."""

    job: int = 0
    """Of any kind, in its whole life."""
    job_limit: int | None = None
    """Null: not known, or without end."""
    in_place: int = 0
    """In the present window, since the last full restart."""
    in_place_limit: int | None = None
    full: int = 0
    """In the present window."""
    full_limit: int | None = None
    window_seconds: int | None = None

    @property
    def text(self) -> str:
        """``restarts 1 of 5``, and what of the window's own budget is used."""
        told = f"restarts {self.job}" + (f" of {self.job_limit}" if self.job_limit is not None else "")
        window = [
            f"{name} {used} of {limit}"
            for name, used, limit in (
                ("in place", self.in_place, self.in_place_limit),
                ("full", self.full, self.full_limit),
            )
            if used and limit is not None
        ]
        return f"{told} ({', '.join(window)})" if window else told


def reported_text(reported: Reported) -> str | None:
    """``step 1200 of 5000, loss 1.23, 5.1k tokens/s``; None where nothing was reported."""
    told = []
    if reported.step is not None:
        told.append(f"step {reported.step}" + (f" of {reported.total_steps}" if reported.total_steps else ""))
    if reported.loss is not None:
        told.append(f"loss {reported.loss:.4g}")
    if reported.throughput is not None:
        told.append(f"{_short(reported.throughput)} {reported.unit or 'per second'}")
    return ", ".join(told) or None


def remark_on(state: TrainingState, reported: Reported) -> str | None:
    """What is remarkable about a run that has ended well: its program may have ended before its last step, as early
    stopping does, or a limit of time or data of its own. It is no failure."""
    if state is not TrainingState.SUCCEEDED or not reported.short:
        return None
    return f"it ended before its last step: the last that it reported is {reported.step:,} of {reported.total_steps:,}"


class StateChange(Model):
    """An entry of a run's own history."""

    at: datetime
    state: TrainingState
    detail: str = Field("", max_length=300)


class Waiting(Model):
    """Why nothing of a run runs, and what that costs."""

    reason: str
    """In words."""
    pods_waiting: int = 0
    idle_nodes: int = 0
    """Nodes that hold pods of the run, or are kept for it, and do nothing."""
    idle_per_hour: float | None = None
    """What those cost; null: no price is known."""
    currency: str = "USD"


RunAction = Literal["stop", "suspend", "resume"]


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
