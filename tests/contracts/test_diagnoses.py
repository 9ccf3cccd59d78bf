"""What an operation tells of itself, and what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from contracts.diagnostics import LONGEST_TEXT, DiagnosisRequest, Subject, entries_of, focus_of
from contracts.operation import Operation, Phase, Stage, StageState
from contracts.problem import ProblemCode, problem

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


def operation(identifier: str = "create-cluster/demo", **more: Any) -> Operation:
    kind, cluster, *_ = identifier.split("/")
    given = {"id": identifier, "kind": kind, "cluster": cluster, "phase": Phase.BLOCKED, "plan_hash": "x"}
    return Operation.model_validate(
        given | {"started_by": "me", "started_at": NOON, "updated_at": NOON + timedelta(hours=1)} | more
    )


@pytest.mark.parametrize(
    ("identifier", "kind", "name", "namespace"),
    [
        ("create-cluster/demo", "cluster", "", "default"),
        ("run-training/demo/llama", "training-run", "llama", "default"),
        ("run-training/demo/team-a/llama", "training-run", "llama", "team-a"),
        ("create-deployment/demo/ml/qwen", "deployment", "qwen", "ml"),
        ("reboot-nodes/demo/i-0123456789abcdef0", "node", "i-0123456789abcdef0", "default"),
        ("replace-nodes/demo/3-nodes-abcdef12", "cluster", "", "default"),
        ("add-instance-group/demo/workers", "cluster", "", "default"),
    ],
)
def test_an_operation_is_about_what_its_id_names(identifier: str, kind: str, name: str, namespace: str) -> None:
    found = focus_of(operation(identifier))
    assert (found.kind, found.name, found.namespace) == (kind, name, namespace)


def test_stages_tell_when_they_began_and_ended_and_why_one_stands_still() -> None:
    fault = problem(ProblemCode.CAPACITY, "no capacity\nfor ml.p5", remedy="Wait.")
    stages = [
        Stage(name="a", title="Network", state=StageState.DONE, started_at=NOON, finished_at=NOON, detail="vpc-1"),
        Stage(name="b", title="HyperPod", state=StageState.BLOCKED, started_at=NOON, finished_at=NOON, problem=fault),
        Stage(name="c", title="Storage"),
    ]
    found = entries_of(operation(stages=stages, problem=fault))
    assert [(entry.severity, entry.text) for entry in found] == [
        ("info", "Network began"),
        ("info", "Network done: vpc-1"),
        ("info", "HyperPod began"),
        ("error", "HyperPod is blocked, capacity: no capacity for ml.p5"),
    ]


def test_a_problem_of_the_whole_operation_and_long_texts() -> None:
    fault = problem(ProblemCode.INTERNAL, "x" * 3000, remedy="Look.")
    (found,) = entries_of(operation(problem=fault))
    assert len(found.text) == LONGEST_TEXT


@pytest.mark.parametrize("subject", [{"kind": "node"}, {"kind": "cluster", "name": "x"}, {"kind": "pod", "name": ""}])
def test_subjects_without_a_name_where_one_is_needed_are_refused(subject: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as error:
        DiagnosisRequest.model_validate({"subject": subject})
    assert error.value.errors()[0]["ctx"]["pointer"] == "/name"


def test_a_title_names_a_namespace_only_where_it_is_another() -> None:
    assert Subject(kind="pod", name="a").title == "pod a"
    assert Subject(kind="pod", name="a", namespace="ml").title == "pod ml/a"
    assert Subject(kind="cluster").title == "cluster"
