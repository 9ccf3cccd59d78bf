"""The history of experiments as MLflow keeps it: runs with their metrics, parameters and tags, and runs beside each
other.

https://mlflow.org/docs/latest/api_reference/rest-api.html (search-runs, get-history)
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from contracts.activity import Act
from contracts.model import Model
from contracts.network import Scope

MOST_COMPARED = 20
MOST_METRICS = 20
MOST_POINTS = 500
"""Of one metric of one run."""
POINTS_TOGETHER = 20_000
"""Of all metrics of all runs in one answer."""
LONGEST_TEXT = 250
"""Characters of a parameter or tag in lists."""

Value = float | Literal["NaN", "Infinity", "-Infinity"]
"""A metric's value; JSON has no numbers for the latter three."""
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,64}$", examples=["0b5c1f0e6a7d4c3f9d2e8b1a5f6c7d8e"])]
RunsWanted = Literal["active", "deleted", "all"]
_VIEWS = {"active": "ACTIVE_ONLY", "deleted": "DELETED_ONLY", "all": "ALL"}


def view_type(wanted: RunsWanted) -> str:
    """In MLflow's word (``ViewType``)."""
    return _VIEWS[wanted]


class ExperimentView(Model):
    id: str
    name: str
    deleted: bool = False
    artifacts: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    tags: dict[str, str] = Field(default_factory=dict)


class ListExperiments(Model):
    scope: Scope
    tracking_server: str
    wanted: RunsWanted = "active"
    position: str | None = None
    size: int = Field(50, ge=1, le=200)


class ExperimentsRead(Model):
    server: str
    """ARN."""
    experiments: list[ExperimentView] = Field(default_factory=list)
    position: str | None = None
    read_at: datetime


class ExperimentList(Model):
    """Experiments of a tracking server, the last changed first."""

    tracking_server: str
    """ARN."""
    experiments: list[ExperimentView] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page."""
    read_at: datetime


class RunView(Model):
    """A run as MLflow has it. Metrics are the last values."""

    run_id: str
    name: str | None = None
    experiment_id: str
    experiment: str | None = None
    """Its name, where it is known."""
    status: str
    """``RUNNING``, ``SCHEDULED``, ``FINISHED``, ``FAILED`` or ``KILLED``."""
    deleted: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None
    user: str | None = None
    metrics: dict[str, Value] = Field(default_factory=dict)
    parameters: dict[str, str] = Field(default_factory=dict)
    tags: dict[str, str] = Field(default_factory=dict)
    """Without MLflow's own. In lists cut to 250 characters, as parameters are."""
    instance_type: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    efa_per_node: int | None = None
    training: str | None = None
    """The training run of the cluster that reports here."""


class SearchRuns(Model):
    """A page of runs. ``filter`` and ``order_by`` are in MLflow's search syntax."""

    scope: Scope
    tracking_server: str
    experiments: list[str] = Field(default_factory=list)
    """Names; none: all."""
    filter: str | None = None
    order_by: list[str] = Field(default_factory=list)
    wanted: RunsWanted = "active"
    position: str | None = None
    size: int = Field(50, ge=1, le=200)


class RunsRead(Model):
    server: str
    runs: list[RunView] = Field(default_factory=list)
    position: str | None = None
    read_at: datetime


class RunList(Model):
    """Runs of a tracking server, the newest first unless ordered otherwise. A page may hold fewer than were asked for
    where runs are large."""

    tracking_server: str
    runs: list[RunView] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page."""
    read_at: datetime


class MetricPoint(Model):
    step: int
    value: Value
    at: datetime


class MetricHistory(Model):
    """A metric over a run's steps."""

    metric: str
    points: list[MetricPoint] = Field(default_factory=list)
    recorded: int
    """As many are kept of it; where they are more than ``points``, those are a sample, with the first and the last."""
    lowest: float | None = None
    highest: float | None = None


class ReadRun(Model):
    scope: Scope
    tracking_server: str
    run_id: str
    metrics: list[str] = Field(default_factory=list)
    """Histories to read; none: of the first 20 of the run's metrics."""
    points: int = Field(MOST_POINTS, ge=2, le=MOST_POINTS)


class RunDetail(Model):
    run: RunView
    histories: list[MetricHistory] = Field(default_factory=list)
    read_at: datetime


class CompareRuns(Model):
    scope: Scope
    tracking_server: str
    run_ids: list[str]
    metrics: list[str] = Field(default_factory=list)
    """None: those that all of the runs have, at most 20."""
    points: int = Field(MOST_POINTS, ge=2, le=MOST_POINTS)


class ComparedMetric(Model):
    """One metric of several runs over the same steps: ``values[run][i]`` is what the run had last recorded up to
    ``steps[i]`` since the step before it; null where it recorded nothing."""

    metric: str
    steps: list[int] = Field(default_factory=list)
    values: dict[str, list[Value | None]] = Field(default_factory=dict)
    sampled: bool = False
    """Whether there are more steps than shown."""


class RunComparison(Model):
    """Runs beside each other."""

    runs: list[RunView]
    metrics: list[ComparedMetric] = Field(default_factory=list)
    differing: dict[str, list[str | None]] = Field(default_factory=dict)
    """Parameters that are not the same in all runs, by name, in the order of ``runs``."""
    read_at: datetime


LIST_EXPERIMENTS = Act("experiments.list", ListExperiments, ExperimentsRead, attempts=4)
SEARCH_RUNS = Act("experiments.search_runs", SearchRuns, RunsRead, attempts=4)
READ_RUN = Act("experiments.read_run", ReadRun, RunDetail, attempts=4)
COMPARE_RUNS = Act("experiments.compare_runs", CompareRuns, RunComparison, attempts=4)
