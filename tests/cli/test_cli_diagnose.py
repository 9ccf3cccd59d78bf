"""The commands of diagnoses: what they ask for, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from contracts.diagnostics import Cause, Diagnosis, NextStep, Source, SourceRead, Subject, TimelineEntry
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]
DIAGNOSES = "/api/v1/clusters/demo/diagnoses"
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
NODE = "hyperpod-i-0123456789abcdef0"
LINE = TimelineEntry(
    at=NOON, source=Source.NODE, severity="error", subject=f"node {NODE}", text="Xid 79\x1b[31m", count=3
)
STATE = TimelineEntry(source=Source.NODE, severity="warning", subject=f"node {NODE}", text="label fault-types=x")


def diagnosis(*causes: Cause, **more: Any) -> Diagnosis:
    subject = Subject(kind="node", name=NODE)
    return Diagnosis.model_validate(
        {"subject": subject, "causes": causes, "timeline": [LINE, STATE], "read_at": NOON} | more
    )


def cause(**more: Any) -> Cause:
    step = NextStep(level="replace", operation="replace-nodes", spec={"nodes": [NODE]}, why="A reboot seldom helps.")
    given = {"rule": "gpu-off-bus", "title": "A GPU has fallen off the bus", "confidence": 0.92, "explanation": "Gone."}
    given |= {"evidence": [LINE], "fix": "Replace it.", "source": "https://example.com", "next_step": step}
    return Cause.model_validate(given | more)


@pytest.fixture
def answered(gateway: Gateway) -> Callable[[Diagnosis], None]:
    def answer(found: Diagnosis) -> None:
        gateway.answers["POST", DIAGNOSES] = (200, found.model_dump(mode="json"))

    return answer


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (["operation", "run-training/demo/llama"], {"kind": "operation", "name": "run-training/demo/llama"}),
        (["cluster", "demo"], {"kind": "cluster"}),
        (["node", "demo", NODE], {"kind": "node", "name": NODE}),
        (["job", "demo", "llama"], {"kind": "training-run", "name": "llama", "namespace": "default"}),
        (["deployment", "demo", "qwen", "-n", "ml"], {"kind": "deployment", "name": "qwen", "namespace": "ml"}),
        (["pod", "demo", "a-0", "--namespace", "ml"], {"kind": "pod", "name": "a-0", "namespace": "ml"}),
    ],
)
def test_every_kind_of_subject_can_be_asked_about(
    gateway: Gateway, cli: Cli, answered: Any, arguments: list[str], subject: dict[str, str]
) -> None:
    answered(diagnosis())
    assert cli("diagnose", *arguments, "--since", "48").code == 0
    (sent,) = gateway.requests("POST", "/diagnoses")
    assert sent.body == {"subject": subject, "since_hours": 48.0}


def test_a_cause_is_printed_with_its_evidence_and_the_command_that_is_proposed(cli: Cli, answered: Any) -> None:
    consequence = cause(rule="collective-timeout", explained_by="gpu-off-bus", next_step=None, more_evidence=4)
    unread = SourceRead(source=Source.LOG, what="log of a-0", ok=False, problem="it did not answer in time")
    answered(diagnosis(cause(), consequence, read=[unread]))
    ran = cli("diagnose", "node", "demo", NODE)
    lines = ran.out.splitlines()
    assert lines[0] == "1. A GPU has fallen off the bus  (92%, gpu-off-bus)"
    assert "   | 2026-11-02 12:00:00  node  node " + NODE + ": Xid 79\\x1b[31m (x3)" in lines
    assert f"         instantstart node replace demo {NODE}" in lines
    assert "   Probably a consequence of gpu-off-bus." in lines
    assert "   | … and 4 more" in lines
    assert "  log of a-0: it did not answer in time" in lines
    assert lines[lines.index("Timeline:") + 2].startswith("  now ")


def test_unknown_is_printed_as_unknown_and_many_entries_are_cut(cli: Cli, answered: Any) -> None:
    answered(diagnosis(timeline=[LINE] * 30, more_entries=5))
    short, whole = cli("diagnose", "cluster", "demo"), cli("diagnose", "cluster", "demo", "--all")
    assert short.out.startswith("Unknown: ")
    assert "(15 earlier or lesser entries are not shown)" in short.out
    assert short.out.count("Xid 79") == 20
    assert whole.out.count("Xid 79") == 30
    assert "(5 earlier" in whole.out


def test_of_what_succeeded_it_is_said_that_there_is_nothing_to_explain(cli: Cli, answered: Any) -> None:
    answered(diagnosis(note="create-cluster/demo succeeded: there is nothing to explain"))
    shown = cli("diagnose", "cluster", "demo").out
    assert shown.startswith("create-cluster/demo succeeded: there is nothing to explain")
    assert "Unknown" not in shown


def test_programs_get_the_whole_document(cli: Cli, answered: Any) -> None:
    found = diagnosis(cause())
    answered(found)
    assert Diagnosis.model_validate(json.loads(cli("diagnose", "cluster", "demo", "-o", "json").out)) == found


def test_an_operation_without_a_cluster_in_its_id_is_wrong_usage(cli: Cli) -> None:
    assert cli("diagnose", "operation", "create-cluster").code == 2
