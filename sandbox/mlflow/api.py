"""MLflow's REST API over one tracking server's contents. Its answers were compared with those of MLflow 3.0.0."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from sandbox.mlflow import search
from sandbox.mlflow.errors import invalid
from sandbox.mlflow.store import ACTIVE, DELETED, Experiment, Point, Run, Tracking, point, shown

PREFIXES = ("/api/2.0/mlflow/", "/api/3.0/mlflow/")
MOST_METRICS, MOST_PARAMS, MOST_TAGS, MOST_TOGETHER = 1000, 100, 100, 1000
MOST_RUNS = 50_000
DEFAULT_RUNS = 1000
STATUSES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")

Handler = Callable[["Api", dict[str, Any]], dict[str, Any]]


class Api:
    """The routes. ``now`` gives milliseconds since the epoch."""

    def __init__(self, tracking: Tracking, now: Callable[[], int]) -> None:
        self._held, self._now = tracking, now

    def answer(self, method: str, route: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        """None for a route that there is none of. Raises MlflowError."""
        handler = _ROUTES.get((method, route))
        return None if handler is None else handler(self, asked)

    def create_experiment(self, asked: dict[str, Any]) -> dict[str, Any]:
        made = self._held.create_experiment(
            _required(asked, "name"), asked.get("artifact_location") or "", dict(_pairs(asked.get("tags"))), self._now()
        )
        return {"experiment_id": made.id}

    def get_experiment(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"experiment": _experiment(self._held.experiment(_required(asked, "experiment_id")))}

    def get_experiment_by_name(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"experiment": _experiment(self._held.experiment_named(_required(asked, "experiment_name")))}

    def search_experiments(self, asked: dict[str, Any]) -> dict[str, Any]:
        size = _size(asked, 0)
        if size > MOST_RUNS:
            raise invalid(f"Invalid value {size} for parameter 'max_results' supplied. It must be at most {MOST_RUNS}")
        clauses = search.experiment_clauses(asked.get("filter") or "")
        found = [
            each
            for each in self._held.experiments.values()
            if _viewed(asked, "view_type", each.stage)
            and all(c.holds(search.experiment_has(each, c.entity, c.key)) for c in clauses)
        ]
        page, token = _page(search.ordered_experiments(found, asked.get("order_by") or []), asked, size)
        return _full({"experiments": [_experiment(each) for each in page], "next_page_token": token})

    def update_experiment(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.rename_experiment(_required(asked, "experiment_id"), _required(asked, "new_name"), self._now())
        return {}

    def delete_experiment(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.move_experiment(_required(asked, "experiment_id"), DELETED, self._now())
        return {}

    def restore_experiment(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.move_experiment(_required(asked, "experiment_id"), ACTIVE, self._now())
        return {}

    def set_experiment_tag(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = self._held.experiment(_required(asked, "experiment_id"))
        found.tags[_required(asked, "key")] = asked.get("value") or ""
        return {}

    def create_run(self, asked: dict[str, Any]) -> dict[str, Any]:
        started = asked.get("start_time")
        run = self._held.create_run(
            _required(asked, "experiment_id"),
            asked.get("run_name") or "",
            asked.get("user_id") or "",
            int(started) if started is not None else 0,
            _pairs(asked.get("tags")),
        )
        return {"run": {"info": _info(run), "data": _data(run), "inputs": {}}}

    def get_run(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"run": _run(self._held.run(_required(asked, "run_id")))}

    def update_run(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A status that there is none of is left aside, as MLflow's JSON reader does."""
        run = self._held.active_run(_required(asked, "run_id"))
        if asked.get("status") in STATUSES:
            run.status = asked["status"]
        if asked.get("end_time") is not None:
            run.ended = int(asked["end_time"])
        if asked.get("run_name"):
            self._held.set_tag(run.id, "mlflow.runName", asked["run_name"])
        return {"run_info": _info(run)}

    def delete_run(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.run(_required(asked, "run_id")).stage = DELETED
        return {}

    def restore_run(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.run(_required(asked, "run_id")).stage = ACTIVE
        return {}

    def log_metric(self, asked: dict[str, Any]) -> dict[str, Any]:
        run_id, key, held = _required(asked, "run_id"), _required(asked, "key"), _metric(asked)
        self._held.log(run_id, [(key, held)], [], [])
        return {}

    def log_parameter(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.log_parameter(_required(asked, "run_id"), _required(asked, "key"), str(asked.get("value", "")))
        return {}

    def set_tag(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.set_tag(_required(asked, "run_id"), _required(asked, "key"), str(asked.get("value", "")))
        return {}

    def delete_tag(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._held.delete_tag(_required(asked, "run_id"), _required(asked, "key"))
        return {}

    def log_batch(self, asked: dict[str, Any]) -> dict[str, Any]:
        metrics, params, tags = (asked.get(name) or [] for name in ("metrics", "params", "tags"))
        for what, given, most in (
            ("metrics", len(metrics), MOST_METRICS),
            ("params", len(params), MOST_PARAMS),
            ("tags", len(tags), MOST_TAGS),
            ("metrics, params, and tags", len(metrics) + len(params) + len(tags), MOST_TOGETHER),
        ):
            if given > most:
                raise invalid(
                    f"A batch logging request can contain at most {most} {what}. Got {given} {what}. "
                    f"Please split up {what} across multiple requests and try again."
                )
        self._held.log(
            _required(asked, "run_id"),
            [(_required(each, "key"), _metric(each)) for each in metrics],
            _pairs(params),
            _pairs(tags),
        )
        return {}

    def search_runs(self, asked: dict[str, Any]) -> dict[str, Any]:
        size = _size(asked, DEFAULT_RUNS)
        if size > MOST_RUNS:
            raise invalid(
                f"Invalid value {size} for parameter 'max_results' supplied:  Hint: Value was of type 'int'. "
                "See the API docs for more information about request parameters."
            )
        clauses = search.run_clauses(asked.get("filter") or "")
        wanted = asked.get("experiment_ids") or []
        found = [
            each
            for each in self._held.runs.values()
            if each.experiment_id in wanted
            and _viewed(asked, "run_view_type", each.stage)
            and all(c.holds(search.held_by(each, c.entity, c.key)) for c in clauses)
        ]
        page, token = _page(search.ordered_runs(found, asked.get("order_by") or []), asked, size)
        return _full({"runs": [_run(each) for each in page], "next_page_token": token})

    def get_history(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Whole: MLflow's SQL store has no pages of it."""
        if asked.get("page_token"):
            raise invalid("The SQLAlchemyStore backend does not support pagination for the `get_metric_history` API.")
        run = self._held.runs.get(_required(asked, "run_id"))
        key = _required(asked, "metric_key")
        points = run.metrics.get(key, {}) if run is not None else {}
        return _full({"metrics": [_point(key, each) for each in points]})


_ROUTES: dict[tuple[str, str], Handler] = {
    ("POST", "experiments/create"): Api.create_experiment,
    ("GET", "experiments/get"): Api.get_experiment,
    ("GET", "experiments/get-by-name"): Api.get_experiment_by_name,
    ("POST", "experiments/search"): Api.search_experiments,
    ("GET", "experiments/search"): Api.search_experiments,
    ("POST", "experiments/update"): Api.update_experiment,
    ("POST", "experiments/delete"): Api.delete_experiment,
    ("POST", "experiments/restore"): Api.restore_experiment,
    ("POST", "experiments/set-experiment-tag"): Api.set_experiment_tag,
    ("POST", "runs/create"): Api.create_run,
    ("GET", "runs/get"): Api.get_run,
    ("POST", "runs/update"): Api.update_run,
    ("POST", "runs/delete"): Api.delete_run,
    ("POST", "runs/restore"): Api.restore_run,
    ("POST", "runs/log-metric"): Api.log_metric,
    ("POST", "runs/log-parameter"): Api.log_parameter,
    ("POST", "runs/log-batch"): Api.log_batch,
    ("POST", "runs/set-tag"): Api.set_tag,
    ("POST", "runs/delete-tag"): Api.delete_tag,
    ("POST", "runs/search"): Api.search_runs,
    ("GET", "metrics/get-history"): Api.get_history,
}
_READS = ("get", "get-by-name", "search", "get-history")


def reads(route: str) -> bool:
    """Whether a route changes nothing."""
    return route.rpartition("/")[2] in _READS


def routes() -> frozenset[str]:
    """Every route that there is, such as ``runs/log-batch``."""
    return frozenset(route for _, route in _ROUTES)


def operation_of(route: str) -> str:
    """The IAM action that a route needs, without its prefix. (Service Authorization Reference: sagemaker-mlflow)"""
    special = {"metrics/get-history": "GetMetricHistory", "runs/log-parameter": "LogParam"}
    if route in special:
        return special[route]
    noun, _, verb = route.partition("/")
    word = "".join(part.capitalize() for part in verb.split("-"))
    if verb in ("create", "get", "update", "delete", "restore"):
        return word + noun[:-1].capitalize()
    if verb == "search":
        return f"Search{noun.capitalize()}"
    return {"GetByName": "GetExperimentByName"}.get(word, word)


def _required(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    if value in (None, ""):
        raise invalid(
            f"Missing value for required parameter '{name}'. See the API docs for more information about request "
            "parameters."
        )
    return str(value)


def _pairs(items: Any) -> list[tuple[str, str]]:
    return [(_required(each, "key"), str(each.get("value", ""))) for each in items or ()]


def _metric(asked: dict[str, Any]) -> Point:
    try:
        return point(asked.get("value"), int(asked.get("timestamp") or 0), int(asked.get("step") or 0))
    except (TypeError, ValueError):
        value = asked.get("value")
        raise invalid(
            f"Invalid value {json.dumps(value)} for parameter 'value' supplied:  Hint: Value was of type "
            f"'{type(value).__name__}'. See the API docs for more information about request parameters."
        ) from None


def _size(asked: dict[str, Any], default: int) -> int:
    size = int(asked.get("max_results", default))
    if size < 1:
        raise invalid(f"Invalid value {size} for parameter 'max_results' supplied. It must be a positive integer")
    return size


def _viewed(asked: dict[str, Any], member: str, stage: str) -> bool:
    view = asked.get(member) or "ACTIVE_ONLY"
    return view == "ALL" or (stage == ACTIVE) == (view == "ACTIVE_ONLY")


def _page(items: list[Any], asked: dict[str, Any], size: int) -> tuple[list[Any], str | None]:
    token, start = asked.get("page_token"), 0
    if token:
        try:
            start = int(json.loads(base64.b64decode(token, validate=True))["offset"])
        except (ValueError, KeyError, TypeError):
            raise invalid("Invalid page token, could not base64-decode") from None
    end = start + size
    more = base64.b64encode(json.dumps({"offset": end}).encode()).decode() if end < len(items) else None
    return items[start:end], more


def _full(answer: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty: MLflow leaves it out."""
    return {key: value for key, value in answer.items() if value}


def _tags(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]


def _experiment(experiment: Experiment) -> dict[str, Any]:
    return {
        "experiment_id": experiment.id,
        "name": experiment.name,
        "artifact_location": experiment.artifacts,
        "lifecycle_stage": experiment.stage,
        "last_update_time": experiment.changed,
        "creation_time": experiment.created,
        **_full({"tags": _tags(experiment.tags)}),
    }


def _info(run: Run) -> dict[str, Any]:
    return {
        "run_uuid": run.id,
        "experiment_id": run.experiment_id,
        "run_name": run.name,
        "user_id": run.user,
        "status": run.status,
        **({} if run.started is None else {"start_time": run.started}),
        **({} if run.ended is None else {"end_time": run.ended}),
        "artifact_uri": run.artifacts,
        "lifecycle_stage": run.stage,
        "run_id": run.id,
    }


def _point(key: str, held: Point) -> dict[str, Any]:
    step, timestamp, _, _ = held
    return {"key": key, "value": shown(held), "timestamp": timestamp, "step": step}


def _data(run: Run) -> dict[str, Any]:
    return _full(
        {
            "metrics": [_point(key, held) for key, held in run.last.items()],
            "params": [{"key": key, "value": value} for key, value in run.params.items()],
            "tags": _tags(run.tags),
        }
    )


def _run(run: Run) -> dict[str, Any]:
    return {"info": _info(run), "data": _data(run), "inputs": {}, "outputs": {}}
