"""A cluster is created on a live stack whose worker is killed: what was told of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer

from contracts import measures
from contracts.names import cluster_id
from telemetry.carrying import CarryTraces
from temporal.converter import data_converter
from temporal.keys import KeyRing
from tests.telemetry.collector import Span
from tests.telemetry.conftest import OPERATION, Told
from tests.telemetry.queries import OF_PROMETHEUS, UP, asked, queries
from worker.platform import workflow_runner
from workflows.registry import ENTITIES, OPERATIONS

OF_TEMPORAL = {"namespace", "task_queue", "workflow_type"}
"""What Temporal's meter adds in a workflow."""


def above(span: Span, trace: list[Span]) -> list[str]:
    """The names of the spans around ``span``, from the root on."""
    by_id = {each.id: each for each in trace}
    names: list[str] = []
    current: Span | None = span
    while current is not None:
        names.append(current.name)
        current = by_id.get(current.parent)
    return names[::-1]


def named(trace: list[Span], name: str) -> list[Span]:
    return [span for span in trace if span.name == name]


def test_one_trace_leads_from_the_command_line_to_the_request_of_aws(told: Told) -> None:
    made = next(span for span in named(told.trace, "sagemaker.CreateCluster") if "error.type" not in span.attributes)
    assert above(made, told.trace) == [
        "instantstart cluster",
        "POST /api/v1/clusters",
        "StartWorkflow:create-cluster",
        "StartActivity:hyperpod.ensure_cluster",
        "RunActivity:hyperpod.ensure_cluster",
        "sagemaker.CreateCluster",
    ]
    assert [span.service for span in told.trace if span.id == made.id] == ["instantstart-worker"]
    entries = told.stack.sandbox.get("/ledger", params={"effects_only": "true"}).json()["entries"]
    known = {
        row["request_id"] for row in entries if (row["service"], row["operation"]) == ("sagemaker", "CreateCluster")
    }
    assert made.attributes["aws.request_id"] in known
    assert made.attributes["http.response.status_code"] == 200
    assert made.attributes["cloud.region"] == "us-west-2"


def test_spans_say_which_operation_of_which_cluster_they_are_about(told: Told) -> None:
    about = {"instantstart.operation": OPERATION, "instantstart.kind": "create-cluster", "instantstart.cluster": "told"}
    for name in ("RunWorkflow:create-cluster", "RunActivity:hyperpod.ensure_cluster", "sagemaker.CreateCluster"):
        for span in named(told.trace, name):
            assert about.items() <= span.attributes.items(), span
    (run,) = named(told.trace, "RunActivity:hyperpod.ensure_cluster")
    assert run.attributes["temporal.activity_attempt"] == 1
    (request,) = named(told.trace, "POST /api/v1/clusters")
    assert request.attributes["http.route"] == "/api/v1/clusters"


def test_calls_of_kubernetes_are_in_the_trace_without_names(told: Told) -> None:
    calls = [span for span in told.trace if "url.template" in span.attributes and span.service == "instantstart-worker"]
    assert calls
    assert all("…" not in span.name and "told" not in span.name for span in calls)


def test_a_killed_worker_leaves_no_gap_and_no_step_twice(told: Told) -> None:
    ids = {span.id for span in told.collector.spans[: told.before_kill]}
    later = [span.name for span in told.trace if span.id not in ids]
    assert "CompleteWorkflow:create-cluster" in later
    assert any(name.startswith("RunActivity:") for name in later)
    for name in {span.name for span in told.trace if span.name.startswith("StartActivity:hyperpod.ensure")}:
        assert len(named(told.trace, name)) == 1, name
    assert len(named(told.trace, "RunWorkflow:create-cluster")) <= 1


def test_a_call_of_a_tool_is_a_trace_that_leads_to_the_gateway(told: Told) -> None:
    (call,) = named(told.collector.spans, "tools/call cluster_list_all")
    trace = told.collector.until(
        lambda spans: [each for each in spans if each.trace == call.trace and "http.route" in each.attributes]
    )
    asked = told.collector.traces()[call.trace]
    assert any(above(each, asked)[0] == "tools/call cluster_list_all" for each in trace)


def test_nothing_that_was_sent_and_no_token_is_in_what_left(told: Told) -> None:
    sent = b"".join(told.collector.bodies)
    for secret in (told.stack.token, "isk_unknown", told.stack.environment("worker")["AWS_SECRET_ACCESS_KEY"]):
        assert secret.encode() not in sent
    attributes = {name for span in told.collector.spans for name in span.attributes}
    assert not attributes & {"url.query", "url.full", "http.request.body", "exception.stacktrace"}
    assert not {name for name in attributes if name.startswith(("http.request.header", "http.response.header"))}


@pytest.mark.parametrize("measure", measures.ALL, ids=lambda measure: measure.name)
def test_every_metric_is_shown_with_its_labels_and_no_others(told: Told, measure: measures.Measure) -> None:
    shown = measure.shown  # type: ignore[attr-defined]
    labels = {each - {"le"} for each in told.scraped.get(shown, set())}
    assert labels, f"{shown} is not shown"
    for each in labels:
        assert each - OF_TEMPORAL == set(measure.labels) - OF_TEMPORAL
        assert set(measure.labels) <= each


@pytest.mark.parametrize("title", queries())
def test_every_query_asks_for_metrics_and_labels_that_are_shown(told: Told, title: str) -> None:
    shown = {**told.scraped, **UP}
    for name, labels in asked(queries()[title]):
        assert name in shown, f"{title}: no process shows {name}"
        assert any(labels <= each | OF_PROMETHEUS for each in shown[name]), f"{title}: {name} has no {labels}"


@pytest.mark.parametrize("name", ["worker", "gateway"])
def test_every_line_of_a_process_is_json_and_holds_no_token(told: Told, name: str) -> None:
    text = told.stack.log(name)
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    for secret in (told.stack.token, "isk_unknown"):
        assert secret not in text


def test_lines_say_for_whom_and_lead_to_the_trace(told: Told) -> None:
    lines: list[dict[str, Any]] = [json.loads(line) for line in told.stack.log("worker").splitlines()]
    failed = [line for line in lines if line.get("activity") == "network.ensure_vpc" and line["level"] == "WARNING"]
    assert failed
    line = failed[0]
    trace = told.trace[0].trace
    assert (line["operation"], line["cluster"], line["attempt"], line["trace_id"]) == (OPERATION, "told", 1, trace)
    assert line["run_id"] == told.ended["run_id"]
    requests = [json.loads(each) for each in told.stack.log("gateway").splitlines()]
    asked = [each for each in requests if each.get("request_id") == line["request_id"]]
    assert [each["logger"] for each in asked] == ["instantstart.access"]


async def _history(told: Told, workflow_id: str) -> WorkflowHistory:
    client = await Client.connect(f"127.0.0.1:{told.stack.settings.ports.temporal}")
    return await client.get_workflow_handle(workflow_id).fetch_history()


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("workflow_id", [OPERATION, cluster_id("told")])
async def test_what_ran_with_traces_is_replayed_with_and_without(told: Told, workflow_id: str, traced: bool) -> None:
    replayer = Replayer(
        workflows=[*OPERATIONS, *ENTITIES],
        workflow_runner=workflow_runner(),
        data_converter=data_converter(KeyRing()),
        interceptors=[CarryTraces()] if traced else [],
    )
    await replayer.replay_workflow(await _history(told, workflow_id))


async def test_a_history_holds_of_a_trace_its_id_alone(told: Told) -> None:
    history = await _history(told, OPERATION)
    first = history.events[0].workflow_execution_started_event_attributes
    carried = json.loads(first.header.fields["_tracer-data"].data)
    assert carried.keys() == {"traceparent"}
    assert carried["traceparent"].split("-")[1] == told.trace[0].trace
