"""Diagnoses: asked for by the address, shown with what they rest on, and what is proposed can be started."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.diagnostics import Cause, Diagnosis, NextStep, Source, SourceRead, Subject, TimelineEntry
from contracts.operation import Phase
from tests.ui.conftest import PATIENCE, Console, texts
from tests.ui.sent import Sent, recorded
from tests.ui.serving_page import PLANE, cells, deleted
from ui.diagnosis import proposed

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NODE = "hyperpod-i-0123456789abcdef0"


def asked_of(page: AppTest) -> dict[str, Any]:
    """The question, which the fake answers with."""
    frames = [each.value for each in page.dataframe if "What" in each.value.columns]
    found: dict[str, Any] = json.loads(frames[0]["What"][0])
    return found


def test_the_address_says_what_is_diagnosed_and_nothing_known_is_said_to_be_unknown(console: Console) -> None:
    tag = console.cluster(control_plane=PLANE)
    page = console.page("diagnosis", cluster=tag, kind="training-run", namespace="team", hours="72")
    page.query_params["name"] = "qwen"
    page.run()
    assert not page.exception
    assert "no cause is claimed" in texts(page)
    question = asked_of(page)
    assert question["subject"] == {"kind": "training-run", "name": "qwen", "namespace": "team"}
    assert question["since_hours"] == 72


def test_without_a_name_nothing_is_asked(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = console.cluster(control_plane=PLANE)
    sent = recorded(monkeypatch)
    page = console.page("diagnosis", cluster=tag, kind="node").run()
    assert "Say what is to be diagnosed" in texts(page)
    page.text_input("name").set_value("nowhere").run()
    assert "has no node nowhere" in page.error[0].value
    assert [each.path for each in sent] == [f"/clusters/{tag}/diagnoses"]


def test_who_may_only_read_may_diagnose(console: Console) -> None:
    tag = console.cluster(control_plane=PLANE)
    console.role = "viewer"
    page = console.page("diagnosis", cluster=tag).run()
    assert not page.exception
    assert asked_of(page)["subject"]["kind"] == "cluster"


def test_a_blocked_operation_leads_to_its_diagnosis(console: Console) -> None:
    operation = console.start("block")
    console.operation(operation, Phase.BLOCKED)
    page = console.page("operation", id=operation).run()
    (link,) = [each for each in page.get("page_link") if each.proto.label == "Diagnose"]
    assert f"name={operation.replace('/', '%2F')}" in link.proto.query_string
    assert "kind=operation" in link.proto.query_string


FOUND = Diagnosis(
    subject=Subject(kind="training-run", name="qwen"),
    causes=[
        Cause(
            rule="gpu-off-bus",
            title="A GPU has fallen off the bus",
            confidence=0.83,
            explanation="The driver <b>cannot</b> reach it.",
            evidence=[
                TimelineEntry(
                    at=NOW, source=Source.LOG, severity="error", subject="pod qwen-0", text="Xid 79 [click](x)"
                )
            ],
            more_evidence=2,
            fix="Replace the node.",
            source="https://docs.nvidia.com/deploy/xid-errors/",
            next_step=NextStep(
                level="replace", operation="replace-nodes", spec={"nodes": [NODE]}, why="A reboot seldom mends this."
            ),
        ),
        Cause(
            rule="nccl-timeout",
            title="A collective timed out",
            confidence=0.3,
            explanation="Others waited.",
            fix="Find the first.",
            source="docs/diagnostics.md",
            explained_by="gpu-off-bus",
        ),
    ],
    timeline=[
        TimelineEntry(at=NOW, source=Source.STAGE, subject="operation x", text="Run began"),
        TimelineEntry(
            at=NOW + timedelta(minutes=1), source=Source.LOG, severity="error", subject="pod qwen-0", text="Xid 79"
        ),
        TimelineEntry(source=Source.NODE, severity="warning", subject=f"node {NODE}", text="taint", count=3),
    ],
    more_entries=4,
    read=[SourceRead(source=Source.QUOTA, what="Service Quotas", ok=False, problem="denied")],
    read_at=NOW,
)


def _draw(tag: str, document: str) -> None:
    import streamlit as st

    from contracts.diagnostics import Diagnosis
    from ui.diagnosis import diagnosis_shown
    from ui.pages import navigation

    st.navigation(navigation(), position="hidden")
    diagnosis_shown(tag, Diagnosis.model_validate_json(document), True)


def drawn(tag: str) -> AppTest:
    page = AppTest.from_function(
        _draw, kwargs={"tag": tag, "document": FOUND.model_dump_json()}, default_timeout=PATIENCE
    ).run()
    assert not page.exception
    return page


def test_causes_are_shown_with_confidence_evidence_fix_source_and_what_could_not_be_read(console: Console) -> None:
    page = drawn(console.cluster(control_plane=PLANE))

    shown = texts(page)
    for expected in (
        "83 % sure",
        "A GPU has fallen off the bus",
        "**What to do:** Replace the node",
        "And 2 more lines",
        "https://docs.nvidia.com/deploy/xid-errors/",
        "It looks like a consequence of: A GPU has fallen off the bus",
        "Service Quotas: denied",
        "4 older entries",
        "**Next: Replace.**",
    ):
        assert expected in shown
    assert "<b>" not in shown.replace("\\<b\\>", "")
    assert "[click](x)" not in shown
    assert list(page.dataframe[0].value["What was seen"]) == ["Run began", "Xid 79", "taint"]
    page.pills("diagnosis/severities").set_value(["error"]).run()
    assert list(page.dataframe[0].value["What was seen"]) == ["Xid 79"]


def test_a_replacement_that_is_proposed_is_started_when_the_nodes_name_was_typed(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Sent] = recorded(monkeypatch)
    tag = console.cluster(control_plane=PLANE)
    page = drawn(tag)

    asked = deleted(page, f"{tag}/diagnosis/gpu-off-bus", NODE, sent)

    assert (asked.method, asked.path) == ("POST", f"/clusters/{tag}/nodes/replace")
    assert asked.body["nodes"] == [NODE]
    assert cells(page)


def test_a_proposal_becomes_a_call_of_its_route_and_none_where_something_is_missing() -> None:
    wish = proposed("demo", "stop-training", {"name": "qwen", "namespace": "team", "reason": "hangs"}, "form")
    assert wish is not None
    assert (wish.endpoint.name, wish.parameters, wish.body) == (
        "stop_training",
        {"tag": "demo", "name": "qwen", "namespace": "team"},
        {"reason": "hangs"},
    )
    assert proposed("demo", "stop-training", {}, "form") is None
    assert proposed("demo", "no-such-kind", {}, "form") is None
