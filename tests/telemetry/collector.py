"""An OpenTelemetry collector for tests: takes spans over OTLP/HTTP and keeps them."""

from __future__ import annotations

import gzip
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    events: tuple[str, ...]


class Collector:
    """What was sent so far."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.bodies: list[bytes] = []
        """As they came, without compression."""
        self.url = ""
        self._changed = threading.Condition()

    def take(self, body: bytes) -> None:
        found = list(_spans(ExportTraceServiceRequest.FromString(body)))
        with self._changed:
            self.bodies.append(body)
            self.spans += found
            self._changed.notify_all()

    def until(self, condition: Callable[[list[Span]], Any], limit: float = 120.0) -> Any:
        """Wait until the spans fulfil a condition; what it gives."""
        deadline = time.monotonic() + limit
        with self._changed:
            while not (found := condition(self.spans)):
                if not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"not within {limit} s; {len(self.spans)} spans came")
        return found

    def traces(self) -> dict[str, list[Span]]:
        found: dict[str, list[Span]] = defaultdict(list)
        for span in list(self.spans):
            found[span.trace].append(span)
        return found


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes).get("service.name", "")
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    service=service,
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    attributes=_attributes(span.attributes),
                    events=tuple(event.name for event in span.events),
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens on a port of its own."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: pytest shows the test's own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
