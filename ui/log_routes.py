"""What a browser reads from the gateway by itself: logs while they are written, and files to keep.

The browser knows the console's cookie only; here its session is what the gateway is asked with. Nothing is kept: what
comes is handed on as it comes.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from html import escape
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from client.aio import connections
from client.request import Call, GatewayProblem, unanswered
from contracts import endpoints
from contracts.access import SESSION_COOKIE
from contracts.endpoints import Endpoint
from contracts.problem import Problem, ProblemCode, problem
from ui.log_view import PAGE, POLICY, SCRIPT
from ui.session import AGENT
from ui.settings import settings

LIVE, STREAM, DOWNLOAD, RUNS = "/logs/live", "/logs/stream", "/logs/download", "/experiments/runs.csv"
_SECONDS = 90.0
"""Without a byte; event streams have a heartbeat more often, and the first page of a long log takes its time."""
_HANDED_ON = ("content-type", "content-disposition", "instantstart-truncated")
_OWN = ("same-origin", "none")


async def live(request: Request) -> Response:
    """The page that reads :func:`stream`; its own query says which log."""
    nonce = secrets.token_urlsafe(16)
    title = escape("Log of " + (request.query_params.get("name") or request.query_params.get("pod") or "a pod"))
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": POLICY.format(nonce=nonce)}
    return HTMLResponse(PAGE.format(title=title, nonce=nonce, script=SCRIPT), headers=headers)


async def stream(request: Request) -> Response:
    """The events of a log."""
    run = "name" in request.query_params
    return await _answer(request, endpoints.WATCH_TRAINING_LOG if run else endpoints.WATCH_POD_LOG)


async def download(request: Request) -> Response:
    """All of a log, as a file."""
    run = "name" in request.query_params
    return await _answer(request, endpoints.DOWNLOAD_TRAINING_LOG if run else endpoints.DOWNLOAD_POD_LOG)


async def runs(request: Request) -> Response:
    """Runs of experiments as CSV."""
    return await _answer(request, endpoints.EXPORT_RUNS)


async def _answer(request: Request, endpoint: Endpoint[Any]) -> Response:
    """What the gateway answers to the query, for whoever has this session."""
    if request.headers.get("sec-fetch-site", "none") not in _OWN:
        return _refused(problem(ProblemCode.DENIED, "this was asked for by another site's page"))
    try:
        call = Call.of(endpoint, headers=_headers(request), timeout=_SECONDS, **_query(request))
        asked = call.request(request.cookies.get(SESSION_COOKIE))
    except (GatewayProblem, KeyError) as error:
        found = error.problem if isinstance(error, GatewayProblem) else _incomplete(error)
        return _refused(found)
    stack = AsyncExitStack()
    try:
        http = await stack.enter_async_context(connections(settings().url, AGENT))
        answer = await stack.enter_async_context(http.stream(**asked))
    except httpx.TransportError as error:
        await stack.aclose()
        return _refused(unanswered(error, settings().url).problem)
    except BaseException:
        await stack.aclose()
        raise
    return StreamingResponse(_handed_on(answer, stack), answer.status_code, _shown(answer.headers))


async def _handed_on(answer: httpx.Response, stack: AsyncExitStack) -> AsyncIterator[bytes]:
    """Bytes as they come. Whoever reads no more ends the gateway's answer, too."""
    async with stack:
        async for part in answer.aiter_bytes():
            yield part


def _query(request: Request) -> dict[str, Any]:
    """Members of the query, those that are there several times as lists."""
    given = request.query_params
    return {name: values[0] if len(values := given.getlist(name)) == 1 else values for name in given}


def _headers(request: Request) -> dict[str, str]:
    """What of the browser's headers the gateway is told: where the page is, and how far a stream was read."""
    names = ("host", "origin", "last-event-id")
    return {name: request.headers[name] for name in names if name in request.headers}


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    found = {name: headers[name] for name in _HANDED_ON if name in headers}
    return {**found, "Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


def _incomplete(error: KeyError) -> Problem:
    return problem(ProblemCode.INVALID, f"the address does not say which {error.args[0]} is meant")


def _refused(found: Problem) -> Response:
    return JSONResponse(found.model_dump(mode="json", exclude_none=True), found.status)


ROUTES = [
    Route(LIVE, live, methods=["GET"]),
    Route(STREAM, stream, methods=["GET"]),
    Route(DOWNLOAD, download, methods=["GET"]),
    Route(RUNS, runs, methods=["GET"]),
]
