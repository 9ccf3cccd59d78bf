"""What one tracking server keeps: experiments and runs, with MLflow's own rules of what may be changed."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sandbox.mlflow.errors import ABSENT, BAD_REQUEST, EXISTS, MlflowError, invalid

ACTIVE, DELETED = "active", "deleted"
RUN_NAME = "mlflow.runName"
LARGEST = 1.7976931348623157e308
"""What MLflow's SQL store keeps of infinity."""
LONGEST_PARAMETER = 6000
_ADJECTIVES = ("bold", "calm", "eager", "gentle", "keen", "lively", "proud", "quiet")
_NOUNS = ("crane", "finch", "heron", "lark", "otter", "robin", "stoat", "wren")


Point = tuple[int, int, float, bool]
"""A value of a metric: step, timestamp, value, and whether it is NaN; points that are alike in all of these are one."""


@dataclass
class Run:
    id: str
    experiment_id: str
    name: str
    user: str
    started: int | None
    artifacts: str
    status: str = "RUNNING"
    ended: int | None = None
    stage: str = ACTIVE
    metrics: dict[str, dict[Point, None]] = field(default_factory=dict)
    """Points in the order in which they came."""
    last: dict[str, Point] = field(default_factory=dict)
    """What MLflow shows of a metric: the highest step's, of these the last one's."""
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, point: Point) -> None:
        self.metrics.setdefault(key, {})[point] = None
        self.last[key] = max(self.last.get(key, point), point)


@dataclass
class Experiment:
    id: str
    name: str
    artifacts: str
    created: int
    changed: int
    stage: str = ACTIVE
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class Tracking:
    """The contents of one tracking server. ``artifacts`` is where those of its experiments go."""

    artifacts: str
    created: int
    experiments: dict[str, Experiment] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.experiments:
            self._add("Default", "", self.created)

    def _add(self, name: str, artifacts: str, now: int) -> Experiment:
        identifier = str(len(self.experiments))
        made = Experiment(identifier, name, artifacts or f"{self.artifacts}/{identifier}", now, now)
        self.experiments[identifier] = made
        return made

    def create_experiment(self, name: str, artifacts: str, tags: dict[str, str], now: int) -> Experiment:
        """A deleted experiment keeps its name."""
        if any(each.name == name for each in self.experiments.values()):
            raise MlflowError(EXISTS, f"Experiment(name={name}) already exists.")
        made = self._add(name, artifacts, now)
        made.tags.update(tags)
        return made

    def experiment(self, identifier: str) -> Experiment:
        found = self.experiments.get(identifier)
        if found is None:
            raise MlflowError(ABSENT, f"No Experiment with id={identifier} exists")
        return found

    def experiment_named(self, name: str) -> Experiment:
        for each in self.experiments.values():
            if each.name == name:
                return each
        raise MlflowError(ABSENT, f"Could not find experiment with name '{name}'")

    def rename_experiment(self, identifier: str, name: str, now: int) -> None:
        found = self._active(identifier)
        if any(each.name == name and each is not found for each in self.experiments.values()):
            raise MlflowError(BAD_REQUEST, "UNIQUE constraint failed: experiments.name")
        found.name, found.changed = name, now

    def move_experiment(self, identifier: str, stage: str, now: int) -> None:
        found = self.experiments.get(identifier)
        if found is None or found.stage == stage:
            raise MlflowError(ABSENT, f"No Experiment with id={identifier} exists")
        found.stage, found.changed = stage, now
        for run in self.runs.values():
            if run.experiment_id == identifier:
                run.stage = stage

    def _active(self, identifier: str) -> Experiment:
        found = self.experiment(identifier)
        if found.stage != ACTIVE:
            raise invalid(f"The experiment {identifier} must be in the 'active' state. Current state is {found.stage}.")
        return found

    def create_run(
        self, experiment_id: str, name: str, user: str, started: int | None, tags: Iterable[tuple[str, str]]
    ) -> Run:
        experiment = self._active(experiment_id)
        identifier = secrets.token_hex(16)
        held = dict(tags)
        name = name or held.get(RUN_NAME) or _name()
        artifacts = f"{experiment.artifacts}/{identifier}/artifacts"
        run = Run(identifier, experiment_id, name, user, started, artifacts, tags=held)
        run.tags[RUN_NAME] = name
        self.runs[identifier] = run
        return run

    def run(self, identifier: str) -> Run:
        found = self.runs.get(identifier)
        if found is None:
            raise MlflowError(ABSENT, f"Run with id={identifier} not found")
        return found

    def active_run(self, identifier: str) -> Run:
        found = self.run(identifier)
        if found.stage != ACTIVE:
            raise invalid(f"The run {identifier} must be in the 'active' state. Current state is {found.stage}.")
        return found

    def log(
        self,
        identifier: str,
        metrics: list[tuple[str, Point]],
        params: list[tuple[str, str]],
        tags: list[tuple[str, str]],
    ) -> None:
        """All of it, or nothing where a parameter would change."""
        run = self.active_run(identifier)
        changed = [
            {"key": key, "old_value": run.params[key], "new_value": value[:LONGEST_PARAMETER]}
            for key, value in params
            if run.params.get(key, value[:LONGEST_PARAMETER]) != value[:LONGEST_PARAMETER]
        ]
        if changed:
            raise invalid(
                "Changing param values is not allowed. Params were already "
                f"logged='{changed}' for run ID='{identifier}'."
            )
        for key, value in params:
            run.params[key] = value[:LONGEST_PARAMETER]
        for key, point in metrics:
            run.add(key, point)
        for key, value in tags:
            self._tag(run, key, value)

    def log_parameter(self, identifier: str, key: str, value: str) -> None:
        run, kept = self.active_run(identifier), value[:LONGEST_PARAMETER]
        held = run.params.setdefault(key, kept)
        if held != kept:
            raise invalid(
                f"Changing param values is not allowed. Param with key='{key}' was already logged with "
                f"value='{held}' for run ID='{identifier}'. Attempted logging new value '{kept}'."
            )

    def set_tag(self, identifier: str, key: str, value: str) -> None:
        self._tag(self.active_run(identifier), key, value)

    @staticmethod
    def _tag(run: Run, key: str, value: str) -> None:
        run.tags[key] = value
        if key == RUN_NAME:
            run.name = value

    def delete_tag(self, identifier: str, key: str) -> None:
        if self.active_run(identifier).tags.pop(key, None) is None:
            raise MlflowError(ABSENT, f"No tag with name: {key} in run with id {identifier}")


def point(value: Any, timestamp: int, step: int) -> Point:
    """A value as it comes by JSON. Raises ValueError for what is no number."""
    number = float(value)
    if math.isnan(number):
        return step, timestamp, 0.0, True
    if math.isinf(number):
        number = LARGEST if number > 0 else -LARGEST
    return step, timestamp, number, False


def shown(held: Point) -> float | str:
    _, _, value, is_nan = held
    return "NaN" if is_nan else value


def _name() -> str:
    pick: Callable[[tuple[str, ...]], str] = secrets.choice
    return f"{pick(_ADJECTIVES)}-{pick(_NOUNS)}-{secrets.randbelow(1000)}"
