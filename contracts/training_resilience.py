"""What keeps a training job alive: its budget of restarts, what its log is watched for, and how it grows and shrinks.

HyperPodPyTorchJob's own fields: sagemaker.hyperpod.training.config.hyperpod_pytorch_job_unified_config
(github.com/aws/sagemaker-hyperpod-cli), SageMaker Developer Guide: sagemaker-eks-operator-usage.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from contracts.log_patterns import groups, violation
from contracts.model import Model, fault

MOST_RULES = 20
LONGEST_SECONDS = 30 * 24 * 3600


class CleanPods(StrEnum):
    """Which pods go when a job ends."""

    ALL = "All"
    ONLY_COMPLETE = "OnlyComplete"
    """Those that have ended well; the others can be looked at."""
    NONE = "None"


class RecoveryBudget(Model):
    """How often a job that fails is started again before it is given up."""

    job_retries: int = Field(5, ge=0, le=1000)
    """Restarts of any kind in the job's whole life."""
    in_place_restarts: int = Field(3, ge=0, le=1000)
    """Restarts of the processes in their pods, within the window, before all pods are made anew."""
    window_seconds: int = Field(21_600, ge=60, le=LONGEST_SECONDS)
    full_restarts: int = Field(1, ge=0, le=1000)
    """Restarts with new pods, within the window, before the job fails."""
    clean_pods: CleanPods = CleanPods.ALL


def _pattern(pattern: str) -> str:
    if found := violation(pattern):
        raise ValueError(f"{found}. Write e.g. .*loss: ([0-9.]+).*")
    return pattern


LogPattern = Annotated[str, AfterValidator(_pattern), Field(min_length=1, examples=[r".*loss: ([0-9.]+).*"])]
"""A regular expression of Python that fits a line from its beginning."""


class LogRule(Model):
    """What the log of every rank must show, or must not. A rule that is broken restarts the job within its budget."""

    name: str = Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", examples=["hang"])
    pattern: LogPattern
    """Lines that the rule is about. Its first group, if it has one, is a number for ``metric_threshold``."""
    start_within_seconds: int | None = Field(None, ge=1, le=LONGEST_SECONDS)
    """The first such line must come so soon after the start, else the job hangs."""
    every_seconds: int | None = Field(None, ge=1, le=LONGEST_SECONDS)
    """The next one must come so soon after the last, else the job hangs."""
    metric_threshold: int | None = Field(None, ge=-(2**31), le=2**31 - 1)
    """The job is slow where the number is on the wrong side of this: HyperPod admits whole numbers only."""
    operator: Literal["gt", "lt", "eq", "gteq", "lteq"] | None = None
    """Which side is the wrong one: ``gt`` means that a greater number is slow."""
    data_points: int = Field(1, ge=1, le=1000)
    """So many times in a row."""
    stop_pattern: LogPattern | None = None
    """From such a line on the rule is not looked at any more."""

    @model_validator(mode="after")
    def _consistent(self) -> LogRule:
        if (self.metric_threshold is None) != (self.operator is None):
            missing = "/operator" if self.operator is None else "/metric_threshold"
            raise fault(missing, "a threshold and its operator go together")
        if self.metric_threshold is not None and not groups(self.pattern):
            raise fault("/pattern", "a threshold needs a group in the pattern that reads the number, e.g. ([0-9.]+)")
        if self.metric_threshold is None and self.start_within_seconds is None and self.every_seconds is None:
            raise fault("/every_seconds", "the rule asks for nothing: give every_seconds, start_within_seconds or both")
        if self.data_points > 1 and self.metric_threshold is None:
            raise fault("/data_points", "only numbers are counted: give metric_threshold and operator")
        return self


def hang_rule(pattern: str, *, every_seconds: int = 600, start_within_seconds: int = 1800) -> LogRule:
    """A job whose log says nothing of ``pattern`` for so long hangs."""
    return LogRule(name="hang", pattern=pattern, every_seconds=every_seconds, start_within_seconds=start_within_seconds)


def outlier_rule(
    pattern: str, *, threshold: int, operator: Literal["gt", "lt"] = "lt", data_points: int = 5
) -> LogRule:
    """A job whose number (throughput, say) is on the wrong side so often in a row is slow."""
    return LogRule(
        name="outlier", pattern=pattern, metric_threshold=threshold, operator=operator, data_points=data_points
    )


class ElasticPolicy(Model):
    """A job that runs on as many nodes as there are, between two bounds."""

    min_nodes: int = Field(ge=1, le=5000)
    max_nodes: int = Field(ge=1, le=5000)
    step: int | None = Field(None, ge=1, le=5000)
    """So many nodes come or go at once."""
    discrete: list[int] | None = Field(None, min_length=1, max_length=100)
    """Only these numbers of nodes, instead of steps."""
    graceful_shutdown_seconds: int | None = Field(None, ge=1, le=24 * 3600)
    """For a checkpoint before the job is rescaled."""
    scaling_timeout_seconds: int | None = Field(None, ge=1, le=24 * 3600)
    faulty_scale_down_seconds: int | None = Field(None, ge=1, le=24 * 3600)
    """How long a faulty node is waited for before the job goes on with fewer."""

    @model_validator(mode="after")
    def _consistent(self) -> ElasticPolicy:
        if self.min_nodes > self.max_nodes:
            raise fault("/min_nodes", f"more than max_nodes, which is {self.max_nodes}")
        if self.step is not None and self.discrete is not None:
            raise fault("/discrete", "either steps or the numbers themselves")
        for position, nodes in enumerate(self.discrete or ()):
            if not self.min_nodes <= nodes <= self.max_nodes:
                raise fault(f"/discrete/{position}", f"{nodes} is not between {self.min_nodes} and {self.max_nodes}")
        if self.step is not None and (self.max_nodes - self.min_nodes) % self.step:
            raise fault("/step", f"steps of {self.step} from {self.min_nodes} do not reach {self.max_nodes}")
        return self

    def admits(self, nodes: int) -> bool:
        """Whether a job may have just so many nodes."""
        if not self.min_nodes <= nodes <= self.max_nodes:
            return False
        return nodes in self.discrete if self.discrete is not None else not (nodes - self.min_nodes) % (self.step or 1)
