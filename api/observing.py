"""What is told of the gateway's requests: a count, a duration, open streams, and whom the trace is about."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contracts import measures
from telemetry import metrics, tracing

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_about: ContextVar[Mapping[str, Any]] = ContextVar("about", default=MappingProxyType({}))


def about() -> Mapping[str, Any]:
    """What log lines say of the request that is answered here (``telemetry.logs.FIELDS``)."""
    return _about.get()


def untraced(scope: Mapping[str, Any]) -> bool:
    """Requests of probes, which come all the time and say nothing."""
    return scope.get("path") in ("/health", "/ready")


class Observed:
    """ASGI middleware, inside the request's context."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope.get("state", {}).get("request_id")
        # Not taken back: the line of the access log is written after this, in the same task.
        _about.set({"request_id": request_id})
        tracing.annotate(instantstart__request_id=request_id)
        began = time.perf_counter()
        status, streaming = 500, False

        async def sending(message: Message) -> None:
            nonlocal status, streaming
            if message["type"] == "http.response.start":
                status = message["status"]
                # The span ends with the last piece of the answer.
                tracing.annotate(
                    instantstart__operation=scope.get("state", {}).get("operation"),
                    instantstart__cluster=scope.get("path_params", {}).get("tag"),
                )
                if Headers(scope=message).get("content-type", "").startswith("text/event-stream"):
                    streaming = True
                    metrics.shift(measures.EVENT_STREAMS, 1, route=_route(scope))
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            route, method = _route(scope), scope["method"] if scope["method"] in _METHODS else "other"
            metrics.count(measures.HTTP_REQUESTS, route=route, method=method, status=str(status))
            if streaming:
                metrics.shift(measures.EVENT_STREAMS, -1, route=route)
            else:
                metrics.observe(measures.HTTP_SECONDS, time.perf_counter() - began, route=route, method=method)


def _route(scope: Scope) -> str:
    """The template of the path; one word for all that is not served, which may be any text."""
    return str(getattr(scope.get("route"), "path", "unserved"))
