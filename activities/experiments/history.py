"""Reading what tracking servers hold: experiments, runs, histories of metrics, runs beside each other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.errors import fail
from activities.experiments import servers
from activities.experiments.series import compared, history_of, moment, ordered, value_of
from activities.experiments.tracking import Tracking
from contracts.experiment_runs import (
    COMPARE_RUNS,
    LIST_EXPERIMENTS,
    LONGEST_TEXT,
    MOST_METRICS,
    POINTS_TOGETHER,
    READ_RUN,
    SEARCH_RUNS,
    CompareRuns,
    ExperimentsRead,
    ExperimentView,
    ListExperiments,
    ReadRun,
    RunComparison,
    RunDetail,
    RunsRead,
    RunView,
    SearchRuns,
    view_type,
)
from contracts.experiments import RESERVED_TAGS, TAG_PREFIX
from contracts.problem import ProblemCode

MOST_EXPERIMENTS = 1000
"""Of a server whose runs are searched without naming experiments."""
LARGEST_PAGE = 800_000
"""Characters of an answer: Temporal takes two megabytes."""


class ExperimentReads:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def _tracking(self, region: str, reference: str) -> Tracking:
        return Tracking.of(self._aws, servers.arn_of(self._aws, region, reference))

    @activity.defn(name=LIST_EXPERIMENTS.name)
    def list_experiments(self, request: ListExperiments) -> ExperimentsRead:
        """A page of a server's experiments, the last changed first."""
        with self._tracking(request.scope.region, request.tracking_server) as tracking:
            found = tracking.post(
                "experiments/search",
                max_results=request.size,
                page_token=request.position,
                view_type=view_type(request.wanted),
                order_by=["last_update_time DESC"],
            )
            return ExperimentsRead(
                server=tracking.arn,
                experiments=[experiment_view(each) for each in found.get("experiments") or ()],
                position=found.get("next_page_token"),
                read_at=datetime.now(UTC),
            )

    @activity.defn(name=SEARCH_RUNS.name)
    def search_runs(self, request: SearchRuns) -> RunsRead:
        """A page of runs; runs with very much in them make it smaller.

        Raises NOT_FOUND for an experiment that there is none of, INVALID for a filter that MLflow does not understand.
        """
        with self._tracking(request.scope.region, request.tracking_server) as tracking:
            names = self._experiments(tracking, request)
            size = request.size
            while True:
                found = tracking.post(
                    "runs/search",
                    experiment_ids=list(names),
                    filter=request.filter,
                    order_by=request.order_by or ["attributes.start_time DESC"],
                    run_view_type=view_type(request.wanted),
                    max_results=size,
                    page_token=request.position,
                )
                runs = [run_view(each, names, cut=True) for each in found.get("runs") or ()]
                if size == 1 or sum(len(each.model_dump_json()) for each in runs) <= LARGEST_PAGE:
                    break
                size = max(1, size // 4)
            return RunsRead(
                server=tracking.arn, runs=runs, position=found.get("next_page_token"), read_at=datetime.now(UTC)
            )

    @staticmethod
    def _experiments(tracking: Tracking, request: SearchRuns) -> dict[str, str]:
        """IDs and names of the experiments that are searched."""
        if not request.experiments:
            listed = tracking.post("experiments/search", max_results=MOST_EXPERIMENTS, view_type="ACTIVE_ONLY")
            return {each["experiment_id"]: each["name"] for each in listed.get("experiments") or ()}
        found = {}
        for name in request.experiments:
            if (experiment := tracking.experiment_named(name)) is None:
                detail = f"the tracking server has no experiment {name!r}"
                fail(ProblemCode.NOT_FOUND, detail, "List its experiments.", field="/experiment")
            found[experiment["experiment_id"]] = name
        return found

    @activity.defn(name=READ_RUN.name)
    def read_run(self, request: ReadRun) -> RunDetail:
        """A run with samples of its metrics' histories. Raises NOT_FOUND."""
        with self._tracking(request.scope.region, request.tracking_server) as tracking:
            run = tracking.get("runs/get", run_id=request.run_id)["run"]
            view = run_view(run, {}, cut=False)
            metrics = request.metrics or sorted(view.metrics)[:MOST_METRICS]
            most = _share(request.points, len(metrics))
            histories = [
                history_of(name, ordered(tracking.history(request.run_id, name)), most)
                for name in metrics
                if name in view.metrics
            ]
            return RunDetail(run=view, histories=histories, read_at=datetime.now(UTC))

    @activity.defn(name=COMPARE_RUNS.name)
    def compare_runs(self, request: CompareRuns) -> RunComparison:
        """Runs beside each other. Raises NOT_FOUND for one that there is none of."""
        with self._tracking(request.scope.region, request.tracking_server) as tracking:
            views = [run_view(tracking.get("runs/get", run_id=each)["run"], {}, cut=True) for each in request.run_ids]
            metrics = request.metrics or _common(views)
            most = _share(request.points, len(metrics) * len(views))
            found = []
            for name in metrics:
                having = [each for each in views if name in each.metrics]
                series = {each.run_id: ordered(tracking.history(each.run_id, name)) for each in having}
                found.append(compared(name, series, most))
            return RunComparison(runs=views, metrics=found, differing=differing(views), read_at=datetime.now(UTC))


def _share(asked: int, series: int) -> int:
    """Points for each of so many series that all together stay within bounds."""
    return max(2, min(asked, POINTS_TOGETHER // max(series, 1)))


def _common(views: list[RunView]) -> list[str]:
    """Metrics of all runs; where there are none such, of any."""
    named = [set(each.metrics) for each in views]
    shared = set.intersection(*named) if named else set()
    return sorted(shared or set().union(*named))[:MOST_METRICS]


def differing(views: list[RunView]) -> dict[str, list[str | None]]:
    """Parameters that are not the same in all runs."""
    names = sorted({name for each in views for name in each.parameters})
    rows = {name: [each.parameters.get(name) for each in views] for name in names}
    return {name: row for name, row in rows.items() if len(set(row)) > 1}


def experiment_view(found: dict[str, Any]) -> ExperimentView:
    return ExperimentView(
        id=found["experiment_id"],
        name=found["name"],
        deleted=found.get("lifecycle_stage") == "deleted",
        artifacts=found.get("artifact_location"),
        created_at=_at(found.get("creation_time")),
        updated_at=_at(found.get("last_update_time")),
        tags={each["key"]: each.get("value", "") for each in found.get("tags") or ()},
    )


def run_view(found: dict[str, Any], experiments: dict[str, str], *, cut: bool) -> RunView:
    """A run as MLflow's JSON has it. ``experiments``: names by ID."""
    info, data = found["info"], found.get("data") or {}
    tags = {each["key"]: str(each.get("value", "")) for each in data.get("tags") or ()}
    own = {name: text for name, text in tags.items() if not name.startswith(RESERVED_TAGS)}
    parameters = {each["key"]: str(each.get("value", "")) for each in data.get("params") or ()}
    return RunView(
        run_id=info["run_id"],
        name=info.get("run_name") or tags.get("mlflow.runName"),
        experiment_id=info["experiment_id"],
        experiment=experiments.get(info["experiment_id"]),
        status=info.get("status", "RUNNING"),
        deleted=info.get("lifecycle_stage") == "deleted",
        started_at=_at(info.get("start_time")),
        ended_at=_at(info.get("end_time")),
        user=info.get("user_id") or tags.get("mlflow.user") or None,
        metrics={each["key"]: value_of(each.get("value", 0.0)) for each in data.get("metrics") or ()},
        parameters=_cut(parameters) if cut else parameters,
        tags=_cut(own) if cut else own,
        instance_type=_told(tags, "instance_type"),
        nodes=_number(tags, "nodes"),
        gpus_per_node=_number(tags, "gpus_per_node"),
        efa_per_node=_number(tags, "efa_per_node"),
        training=_told(tags, "training"),
    )


def _told(tags: dict[str, str], name: str) -> str | None:
    return tags.get(f"{TAG_PREFIX}{name}")


def _number(tags: dict[str, str], name: str) -> int | None:
    told = _told(tags, name)
    return int(told) if told is not None and told.isascii() and told.isdigit() and len(told) < 10 else None


def _cut(texts: dict[str, str]) -> dict[str, str]:
    return {name: text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…" for name, text in texts.items()}


def _at(milliseconds: Any) -> datetime | None:
    return None if milliseconds in (None, "") else moment(int(milliseconds))
