"""What becomes of spans before they leave: the SDK's provider, their subjects, and the last look for secrets.

Imported only where traces are on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import (
    CarrierT,
    Getter,
    Setter,
    TextMapPropagator,
    default_getter,
    default_setter,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from telemetry.redaction import scrub
from telemetry.subject import subject

OPERATION, KIND, CLUSTER = "instantstart.operation", "instantstart.kind", "instantstart.cluster"
_ABOUT = (OPERATION, KIND, CLUSTER)
_DROPPED = frozenset({"url.query", "url.full", "http.url", "http.target", "exception.stacktrace", "code.function.name"})
"""What libraries note that may hold what somebody sent."""


class TraceParent(TextMapPropagator):
    """W3C Trace Context without what others put beside it: ``tracestate`` and ``baggage`` of a caller would be written
    into the histories of workflows, and nobody knows what is in them."""

    _whole = TraceContextTextMapPropagator()

    def extract(
        self, carrier: CarrierT, context: Context | None = None, getter: Getter[CarrierT] = default_getter
    ) -> Context:
        found = getter.get(carrier, "traceparent")
        return self._whole.extract({"traceparent": found[0]} if found else {}, context)

    def inject(
        self, carrier: CarrierT, context: Context | None = None, setter: Setter[CarrierT] = default_setter
    ) -> None:
        written: dict[str, str] = {}
        self._whole.inject(written, context)
        if "traceparent" in written:
            setter.set(carrier, "traceparent", written["traceparent"])

    @property
    def fields(self) -> set[str]:
        return {"traceparent"}


class Subjects(SpanProcessor):
    """Gives every span the operation, its kind and its cluster, where they are known: from the workflow ID that
    Temporal's interceptor notes, else from the span around it."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        attributes = span.attributes or {}
        if isinstance(workflow_id := attributes.get("temporalWorkflowID"), str):
            about = subject(workflow_id)
            known = {OPERATION: workflow_id if about.kind else None, KIND: about.kind, CLUSTER: about.cluster}
        else:
            around = getattr(trace.get_current_span(parent_context), "attributes", None) or {}
            known = {name: around.get(name) for name in _ABOUT}
        span.set_attributes({name: value for name, value in known.items() if value is not None})


class Scrubbed(SpanExporter):
    """Hands spans on without secrets, without queries and without the places of exceptions."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([_scrubbed(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _scrubbed(span: ReadableSpan) -> ReadableSpan:
    status = span.status
    if status.description:
        status = Status(status.status_code, scrub(status.description))
    return ReadableSpan(
        name=scrub(span.name),
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes=_kept(span.attributes),
        events=[Event(each.name, _kept(each.attributes), each.timestamp) for each in span.events],
        links=span.links,
        kind=span.kind,
        status=status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _kept(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        name: scrub(value) if isinstance(value, str) else value
        for name, value in (attributes or {}).items()
        if name not in _DROPPED
    }


def provider(service: str, exporter: SpanExporter | None) -> TracerProvider:
    """The provider of this process, which is OpenTelemetry's global one from now on."""
    named = os.environ.get("OTEL_SERVICE_NAME") or service
    made = TracerProvider(resource=Resource.create({SERVICE_NAME: named, SERVICE_VERSION: version("instantstart")}))
    made.add_span_processor(Subjects())
    made.add_span_processor(BatchSpanProcessor(Scrubbed(exporter or _exporter())))
    trace.set_tracer_provider(made)
    propagate.set_global_textmap(TraceParent())
    return made


def _exporter() -> SpanExporter:
    if os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "console":
        return ConsoleSpanExporter()
    return OTLPSpanExporter()
