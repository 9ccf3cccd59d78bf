"""One run copied to another tracking server, as often as it takes: what is there already is not written again.

A copy says by tags which run it is a copy of (``instantstart.source_run_id`` on ``instantstart.source_server``) and,
last of all, as it was when (``instantstart.synced``, a hash of it): a copy without the latter was cut short. A copy of
a copy is one of the first run: over however many servers it goes, it is nowhere twice, and does not come home.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from activities.errors import fail
from activities.experiments.tracking import MOST_METRICS, MOST_PARAMS, MOST_TAGS, Tracking
from contracts.experiments import TAG_PREFIX
from contracts.problem import ProblemCode

SOURCE_RUN = f"{TAG_PREFIX}source_run_id"
SOURCE_SERVER = f"{TAG_PREFIX}source_server"
SYNCED = f"{TAG_PREFIX}synced"
OURS = frozenset({SOURCE_RUN, SOURCE_SERVER, SYNCED})
PARENT = "mlflow.parentRunId"
LONGEST_PARAMETER = 6000
"""MLflow cuts what is longer. (MLflow: MLFLOW_TRUNCATE_LONG_VALUES)"""
LONGEST_TAG = 8000

Stopping = Callable[[], bool]


@dataclass
class Copied:
    """What a copy took. ``finished`` is false where it was stopped half-way."""

    created: bool = False
    changed: bool = False
    metrics: int = 0
    finished: bool = True


class Copier:
    """Copies runs of one experiment into another."""

    def __init__(self, source: Tracking, destination: Tracking, experiment_id: str) -> None:
        self._source, self._destination, self._experiment_id = source, destination, experiment_id
        self._copies: dict[str, dict[str, Any]] = {}
        """What is known of the destination's copies, by the run that they are copies of."""
        self._origins: dict[str, str] = {}
        """The run that each of the source's is a copy of, or itself."""

    def learn(self) -> None:
        """Which copies the destination has."""
        for run in self._destination.runs([self._experiment_id], max_results=200, run_view_type="ACTIVE_ONLY"):
            if source := tags_of(run).get(SOURCE_RUN):
                self._keep(source, run)

    def going(self, runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of the source's runs that are to be copied: not those that are copies of the destination's own, where
        they would be twice."""
        found = list(runs)
        self._origins = {each["info"]["run_id"]: self._origin(each)[0] for each in found}
        return [each for each in found if self._origin(each)[1] != self._destination.arn]

    def copy(self, run: dict[str, Any], stopping: Stopping) -> Copied:
        """Bring the copy of ``run`` up to date, or make it."""
        source_id, print_ = self._origin(run)[0], fingerprint(run, self._origins)
        there = self._copies.get(source_id)
        if there is not None and tags_of(there).get(SYNCED) == print_:
            return Copied()
        there, created = self._ensure(run)
        copied = Copied(created=created, changed=True)
        self._parameters(run, there)
        copied.metrics, copied.finished = self._metrics(run, there, created, stopping)
        if not copied.finished:
            return copied
        run_id = there["info"]["run_id"]
        self._tags(run, there)
        info = run["info"]
        self._destination.post("runs/update", run_id=run_id, status=info.get("status"), end_time=info.get("end_time"))
        self._destination.post("runs/set-tag", run_id=run_id, key=SYNCED, value=print_)
        self._copies[source_id] = self._destination.get("runs/get", run_id=run_id)["run"]
        return copied

    def _origin(self, run: dict[str, Any]) -> tuple[str, str]:
        """The run that ``run`` is a copy of, or itself, and its server."""
        tags = tags_of(run)
        if SOURCE_RUN in tags and SOURCE_SERVER in tags:
            return tags[SOURCE_RUN], tags[SOURCE_SERVER]
        return run["info"]["run_id"], self._source.arn

    def _ensure(self, run: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """The copy's run, and whether it was made now. Where two copied at once, one run of both stays."""
        source_id, server = self._origin(run)
        if (there := self._find(source_id)) is not None:
            return there, False
        info = run["info"]
        made: str = self._destination.post(
            "runs/create",
            experiment_id=self._experiment_id,
            start_time=info.get("start_time"),
            run_name=info.get("run_name"),
            user_id=info.get("user_id") or None,
            tags=[{"key": SOURCE_RUN, "value": source_id}, {"key": SOURCE_SERVER, "value": server}],
        )["run"]["info"]["run_id"]
        found = self._find(source_id)
        if found is None:
            detail = f"the copy {made} of run {source_id} is not found"
            fail(ProblemCode.PROPAGATION, detail, "The platform looks again.", retry=True)
        if found["info"]["run_id"] != made:
            self._destination.post("runs/delete", run_id=made)
        return found, found["info"]["run_id"] == made

    def _find(self, source_id: str) -> dict[str, Any] | None:
        found = self._destination.runs(
            [self._experiment_id],
            filter=f"tags.`{SOURCE_RUN}` = '{source_id}'",
            max_results=50,
            run_view_type="ACTIVE_ONLY",
        )
        for run in found:
            self._keep(source_id, run)
        return self._copies.get(source_id)

    def _keep(self, source_id: str, run: dict[str, Any]) -> None:
        """Of several copies the one with the smallest ID counts, for everybody."""
        held = self._copies.get(source_id)
        if held is None or run["info"]["run_id"] <= held["info"]["run_id"]:
            self._copies[source_id] = run

    def _parameters(self, run: dict[str, Any], there: dict[str, Any]) -> None:
        held = _pairs(there, "params")
        missing = []
        for key, value in _pairs(run, "params").items():
            if key not in held:
                missing.append({"key": key, "value": value})
            elif held[key] != value[:LONGEST_PARAMETER]:
                detail = f"parameter {key} of the copy {there['info']['run_id']} was changed by somebody"
                fail(ProblemCode.CONFLICT, detail, "Delete that run in the destination, then retry.", retryable=True)
        for batch in batches(missing, MOST_PARAMS):
            self._destination.post("runs/log-batch", run_id=there["info"]["run_id"], params=batch)

    def _metrics(
        self, run: dict[str, Any], there: dict[str, Any], created: bool, stopping: Stopping
    ) -> tuple[int, bool]:
        """Points written, and whether all were."""
        written, run_id = 0, there["info"]["run_id"]
        held = set() if created else {each["key"] for each in (there.get("data") or {}).get("metrics") or ()}
        for batch in batches(self._missing(run, run_id, held), MOST_METRICS):
            if stopping():
                return written, False
            self._destination.post("runs/log-batch", run_id=run_id, metrics=batch)
            written += len(batch)
        return written, True

    def _missing(self, run: dict[str, Any], run_id: str, held: set[str]) -> Iterator[dict[str, Any]]:
        """Points that the copy does not have. ``held``: its metrics."""
        for metric in (run.get("data") or {}).get("metrics") or ():
            key = metric["key"]
            known = {_point(each) for each in self._destination.history(run_id, key)} if key in held else set()
            for each in self._source.history(run["info"]["run_id"], key):
                step, at = int(each.get("step") or 0), int(each.get("timestamp") or 0)
                if _point(each) not in known:
                    yield {"key": key, "value": each.get("value", 0.0), "timestamp": at, "step": step}

    def _tags(self, run: dict[str, Any], there: dict[str, Any]) -> None:
        held, wanted = tags_of(there), {}
        for key, value in tags_of(run).items():
            if key in OURS:
                continue
            if key == PARENT:
                parent = self._copies.get(self._origins.get(value, value))
                if parent is not None:
                    wanted[key] = parent["info"]["run_id"]
                continue
            wanted[key] = value[:LONGEST_TAG]
        changed = [{"key": key, "value": value} for key, value in wanted.items() if held.get(key) != value]
        for batch in batches(changed, MOST_TAGS):
            self._destination.post("runs/log-batch", run_id=there["info"]["run_id"], tags=batch)


def fingerprint(run: dict[str, Any], origins: Mapping[str, str]) -> str:
    """Of what a run is now: another when anything of it changes that a copy has. A run and its copy have the same.
    ``origins``: of the runs beside it that are copies, of which."""
    info, data = run["info"], run.get("data") or {}
    kept = [
        [info.get(name) for name in ("run_name", "status", "start_time", "end_time")],
        sorted([each["key"], _point(each)] for each in data.get("metrics") or ()),
        sorted(_pairs(run, "params").items()),
        sorted(
            [key, origins.get(value, value) if key == PARENT else value]
            for key, value in tags_of(run).items()
            if key not in OURS
        ),
    ]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]


def tags_of(run: dict[str, Any]) -> dict[str, str]:
    return _pairs(run, "tags")


def _pairs(run: dict[str, Any], member: str) -> dict[str, str]:
    return {each["key"]: str(each.get("value", "")) for each in (run.get("data") or {}).get(member) or ()}


def _point(each: dict[str, Any]) -> tuple[int, int, str]:
    """A point by what tells it from others; NaN is a word in MLflow's JSON."""
    return int(each.get("step") or 0), int(each.get("timestamp") or 0), repr(each.get("value", 0.0))


def batches(items: Any, most: int) -> Iterator[list[dict[str, Any]]]:
    rest = iter(items)
    while batch := list(islice(rest, most)):
        yield batch
