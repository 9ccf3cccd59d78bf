"""A trace goes on from process to process, and nothing goes with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from opentelemetry import baggage
from opentelemetry.trace import get_current_span

from telemetry.export import TraceParent
from telemetry.subject import Subject, subject

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FACE = """
import json, sys, httpx
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from telemetry import tracing
from client.{module} import Gateway, GatewayProblem
from contracts import endpoints

kept = InMemorySpanExporter()
if sys.argv[1] == "on":
    tracing.start("test", kept)
seen = []

def answer(request):
    seen.append(dict(request.headers))
    return httpx.Response(404, json={{}})

{call}
tracing.stop()
ended = kept.get_finished_spans()
spans = [[span.name, format(span.context.trace_id, "032x"), dict(span.attributes)] for span in ended]
print(json.dumps([seen[0].get("traceparent"), spans]))
"""
SYNC = """
http = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://g")
try:
    Gateway(http, "isk_x").call(endpoints.GET_OPERATION, id="create-cluster/demo")
except GatewayProblem:
    pass
"""
AIO = """
import asyncio
async def main():
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://g") as http:
        try:
            await Gateway(http, "isk_x").call(endpoints.GET_OPERATION, id="create-cluster/demo")
        except GatewayProblem:
            pass
asyncio.run(main())
"""


def told(module: str, call: str, traces: str) -> tuple[str | None, list[tuple[str, str, dict[str, str]]]]:
    """What a face's call sends, and the spans that it makes. In a process of its own: traces begin once in one."""
    code = FACE.format(module=module, call=call)
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    run = subprocess.run([sys.executable, "-c", code, traces], env=env, capture_output=True, text=True, check=True)
    header, spans = json.loads(run.stdout)
    return header, spans


@pytest.mark.parametrize(("module", "call"), [("sync", SYNC), ("aio", AIO)])
def test_a_face_sends_its_trace_to_the_gateway(module: str, call: str) -> None:
    header, ((name, trace, attributes),) = told(module, call, "on")
    assert header is not None
    assert header.split("-")[1] == trace
    assert name == "GET /api/v1/operations/{id}"
    assert attributes["url.template"] == "/api/v1/operations/{id}"
    assert attributes["http.request.method"] == "GET"


@pytest.mark.parametrize(("module", "call"), [("sync", SYNC), ("aio", AIO)])
def test_a_face_that_does_not_trace_sends_nothing_of_a_trace(module: str, call: str) -> None:
    assert told(module, call, "off") == (None, [])


def test_of_what_a_caller_sends_the_trace_is_carried_on_alone() -> None:
    sent = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=secret", "baggage": "user=somebody"}
    context = TraceParent().extract(sent)
    assert f"{get_current_span(context).get_span_context().trace_id:032x}" == TRACE
    assert baggage.get_all(context) == {}
    written: dict[str, str] = {}
    TraceParent().inject(written, context)
    assert written == {"traceparent": sent["traceparent"]}


@pytest.mark.parametrize("sent", [{}, {"traceparent": "nonsense"}, {"traceparent": "00-0-0-00"}])
def test_what_is_no_trace_begins_none(sent: dict[str, str]) -> None:
    assert not get_current_span(TraceParent().extract(sent)).get_span_context().is_valid


@pytest.mark.parametrize(
    ("workflow_id", "about"),
    [
        ("create-cluster/demo", Subject("create-cluster", "demo")),
        ("add-instance-group/demo/workers", Subject("add-instance-group", "demo")),
        ("cluster/demo", Subject(None, "demo")),
        ("options/us-west-2", Subject(None, None)),
        ("", Subject(None, None)),
    ],
)
def test_a_workflow_id_says_whom_it_is_about(workflow_id: str, about: Subject) -> None:
    assert subject(workflow_id) == about
