"""What the gateway tells of operations that it did not carry out itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.census import Census, waits_since
from api.mapping import Seen
from contracts import measures
from contracts.decision import Decision
from contracts.operation import Label, Operation, Phase, Stage, StageState
from telemetry import metrics

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


def since(hours: int) -> float:
    """Seconds until now: a run of all tests takes its time between the reading of this file and a test of it."""
    return (datetime.now(UTC) - NOW + hours * HOUR).total_seconds()


def operation(kind: str, phase: Phase, **members: Any) -> Operation:
    return Operation.model_validate(
        {
            "id": f"{kind}/demo",
            "kind": kind,
            "cluster": "demo",
            "phase": phase,
            "plan_hash": "h",
            "started_by": "tests",
            "started_at": NOW - 9 * HOUR,
            "updated_at": NOW - HOUR,
            **members,
        }
    )


def seen(found: Operation) -> Seen:
    label = Label(
        kind=found.kind, cluster="demo", region="us-west-2", started_by="tests", spec_hash="h", request_id="r"
    )
    return Seen(operation=found, label=label, version=1, open=True, active=False)


def decision() -> Decision:
    return Decision(id="capacity", question="Which?", answer_schema={}, options={}, asked_at=NOW - 2 * HOUR, default={})


def blocked(name: str, hours: int) -> Stage:
    return Stage(name=name, title=name, state=StageState.BLOCKED, finished_at=NOW - hours * HOUR)


@pytest.mark.parametrize(
    ("found", "hours"),
    [
        (operation("create-cluster", Phase.WAITING_FOR_DECISION, decision=decision()), 2),
        (operation("create-cluster", Phase.BLOCKED, stages=[blocked("network", 3), blocked("roles", 5)]), 5),
        (operation("create-cluster", Phase.WAITING_FOR_APPROVAL), 9),
        (operation("create-cluster", Phase.RUNNING), 1),
    ],
    ids=lambda value: value.phase.value if isinstance(value, Operation) else "",
)
def test_an_operation_waits_since_it_asked_or_failed_or_was_asked_for(found: Operation, hours: int) -> None:
    assert waits_since(found) == NOW - hours * HOUR


class Looking(Census):
    """A census of operations that a test names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._told = set()
        self.open: list[Operation] = []
        self.levels: dict[tuple[str, ...], float] = {}
        monkeypatch.setattr(metrics, "level", self._level)

    async def _open(self) -> tuple[list[Seen], int]:
        return [seen(each) for each in self.open], 0

    def _level(self, measure: measures.Measure, value: float, **labels: str) -> None:
        self.levels[(measure.name, *labels.values())] = value


async def test_what_has_ended_is_told_as_none_and_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    census = Looking(monkeypatch)
    open_ = measures.OPERATIONS.name
    census.open = [operation("create-cluster", Phase.RUNNING), operation("add-instance-group", Phase.BLOCKED)]
    await census._operations()
    assert census.levels[open_, "create-cluster", "running"] == 1
    assert census.levels[open_, "add-instance-group", "blocked"] == 1
    census.open = [operation("create-cluster", Phase.RUNNING), operation("create-cluster", Phase.RUNNING)]
    await census._operations()
    assert census.levels[open_, "create-cluster", "running"] == 2
    assert census.levels[open_, "add-instance-group", "blocked"] == 0


async def test_the_longest_wait_is_told_and_none_where_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    census = Looking(monkeypatch)
    waits = measures.WAITING_SECONDS.name
    stages = [blocked("network", 3)]
    census.open = [
        operation("create-cluster", Phase.BLOCKED, stages=stages),
        operation("add-instance-group", Phase.BLOCKED),
    ]
    await census._operations()
    assert census.levels[waits, "blocked"] == pytest.approx(since(3), abs=60)
    assert census.levels[waits, "waiting_for_decision"] == 0
    census.open = []
    await census._operations()
    assert census.levels[waits, "blocked"] == 0
