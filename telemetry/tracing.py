"""Traces: from the request to the calls of AWS and Kubernetes, as OpenTelemetry's spans.

Off unless OpenTelemetry's own variables ask for them: ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``…_TRACES_ENDPOINT``), or
``OTEL_TRACES_EXPORTER=otlp|console``. ``OTEL_SDK_DISABLED=true`` and ``OTEL_TRACES_EXPORTER=none`` turn them off.
Sampling, batches, resource attributes and the exporter's headers are the SDK's variables too. While they are off,
nothing of OpenTelemetry's SDK is imported, and each function here returns at once.
(OpenTelemetry specification: environment variables)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span
    from temporalio.client import Interceptor

Value = str | int | float | bool

_provider: Any = None


class TracingFaultError(Exception):
    """Traces are asked for in a way that is not offered; the text says what to set."""


def wanted(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the environment asks for traces. Raises TracingFaultError for an exporter that is not here."""
    variables = os.environ if environment is None else environment
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = variables.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    endpoint = any(variables.get(f"OTEL_EXPORTER_OTLP_{part}ENDPOINT") for part in ("", "TRACES_"))
    if exporter not in ("", "otlp", "console", "none"):
        raise TracingFaultError(f"OTEL_TRACES_EXPORTER={exporter} is not offered; otlp, console and none are")
    asked = exporter in ("otlp", "console") or (exporter == "" and endpoint)
    protocol = variables.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or variables.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if asked and exporter != "console" and protocol not in (None, "", "http/protobuf"):
        raise TracingFaultError(f"traces leave as http/protobuf (port 4318 of a collector), not as {protocol}")
    return asked


def start(service: str, exporter: SpanExporter | None = None) -> bool:
    """Begin to trace, where the environment or ``exporter`` asks for it; whether traces are on.

    ``service`` is this process's name unless ``OTEL_SERVICE_NAME`` gives one. Once in a process.
    """
    global _provider
    if _provider is None and (exporter is not None or wanted()):
        from telemetry.export import provider

        _provider = provider(service, exporter)
    return _provider is not None


def stop() -> None:
    """Send what has not been sent. Takes as long as the exporter's limits allow where nobody receives it."""
    if _provider is not None:
        _provider.shutdown()


def interceptors() -> list[Interceptor]:
    """What Temporal's client, and the workers that use it, carry a trace on with. None while traces are off."""
    if _provider is None:
        return []
    from telemetry.carrying import CarryTraces

    return [CarryTraces()]


def begin(name: str, attributes: Mapping[str, Value]) -> Span | None:
    """A span of a call to somebody else, for :func:`end`; None while traces are off."""
    if _provider is None:
        return None
    from opentelemetry.trace import SpanKind

    span: Span = _tracer().start_span(name, kind=SpanKind.CLIENT, attributes=dict(attributes))
    return span


def end(span: Span | None, attributes: Mapping[str, Value | None], error: str | None = None) -> None:
    """End a span. ``error``: what kind of failure it ended with, in a word, if it did."""
    if span is None:
        return
    from opentelemetry.trace import StatusCode

    span.set_attributes({name: value for name, value in attributes.items() if value is not None})
    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)
    span.end()


@contextmanager
def calling(method: str, template: str, headers: MutableMapping[str, str]) -> Iterator[None]:
    """A request to the gateway: ``traceparent`` goes into ``headers``. ``template`` is the path with placeholders."""
    if _provider is None:
        yield
        return
    from opentelemetry import propagate
    from opentelemetry.trace import SpanKind

    attributes = {"http.request.method": method, "url.template": template}
    with _tracer().start_as_current_span(f"{method} {template}", kind=SpanKind.CLIENT, attributes=attributes):
        propagate.inject(headers)
        yield


def carry(request: Any) -> None:
    """A hook of httpx: a request without ``traceparent`` gets the one of what now goes on."""
    if _provider is not None and "traceparent" not in request.headers:
        from opentelemetry import propagate

        propagate.inject(request.headers)


@contextmanager
def doing(name: str) -> Iterator[None]:
    """Something that this process does for itself: a command."""
    if _provider is None:
        yield
        return
    with _tracer().start_as_current_span(name):
        yield


def annotate(**attributes: Value | None) -> None:
    """Say more of what now goes on: ``__`` in a name stands for a point."""
    if _provider is None:
        return
    from opentelemetry.trace import get_current_span

    span = get_current_span()
    for name, value in attributes.items():
        if value is not None:
            span.set_attribute(name.replace("__", "."), value)


def trace_id() -> str | None:
    """The trace that goes on here, as 32 hexadecimal digits."""
    if _provider is None:
        return None
    from opentelemetry.trace import get_current_span

    context = get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def _tracer() -> Any:
    return _provider.get_tracer("instantstart")
