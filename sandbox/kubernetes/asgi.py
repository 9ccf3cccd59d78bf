"""The clusters' APIs as an ASGI application: addressing, authentication, faults, the ledger, and writing answers."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Protocol
from urllib.parse import parse_qsl

from sandbox.faults import Faults, Rule
from sandbox.ledger import Ledger

from . import execution
from .cluster import Cluster
from .errors import REASONS, ApiError
from .identity import ANYBODY, Principal, bearer_token, unauthorized
from .replies import Reply, Stream, reply
from .requests import Call
from .router import route
from .watches import WatchDropped

log = logging.getLogger(__name__)

_MUTATING = ("POST", "PUT", "PATCH", "DELETE")
_STATUS_CODES = {
    "ThrottlingException": 429,
    "TooManyRequests": 429,
    "Conflict": 409,
    "AlreadyExists": 409,
    "Forbidden": 403,
    "Unauthorized": 401,
    "NotFound": 404,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "Timeout": 504,
    "Expired": 410,
    "Invalid": 422,
    "BadRequest": 400,
}

Scope = dict[str, Any]


class Clusters(Protocol):
    """Which cluster a path addresses."""

    def resolve(self, path: str) -> tuple[Cluster, str] | None: ...


class LostConnection(Exception):
    """The connection breaks without an answer, as a scripted fault asked for."""


class Application:
    """``authenticate`` false: everybody is an administrator. ``admin`` answers what is below ``/_sandbox/``."""

    def __init__(
        self,
        clusters: Clusters,
        faults: Faults,
        ledger: Ledger,
        *,
        authenticate: bool = True,
        admin: Callable[[str, str, str, bytes], Reply] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._clusters = clusters
        self._faults = faults
        self._ledger = ledger
        self._authenticate = authenticate
        self._admin = admin
        self._changed = changed

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    def _principal(self, cluster: Cluster, headers: dict[str, str]) -> Principal:
        if not self._authenticate:
            return ANYBODY
        principal = cluster.authenticate(bearer_token(headers.get("authorization", "")))
        if principal is None:
            raise unauthorized()
        return principal

    async def _websocket(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        found = self._clusters.resolve(scope["path"])
        try:
            if found is None:
                raise unauthorized()
            principal = self._principal(found[0], headers)
            if not principal.admin:
                raise unauthorized()
        except ApiError:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        query = parse_qsl(scope["query_string"].decode(), keep_blank_values=True)
        command = [value for key, value in query if key == "command"]
        await execution.serve(found[0], found[1], command, scope, receive, send)

    async def _http(self, scope: Scope, receive: Any, send: Any) -> None:
        body = await _read(receive)
        if body is None:
            return
        path, query = scope["path"], scope["query_string"].decode()
        if self._admin is not None and path.startswith("/_sandbox/"):
            # Advancing the clock runs controllers, which must not stop the loop that streams their changes.
            answer = await asyncio.to_thread(self._admin, scope["method"], path, query, body)
            await _send(answer, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        found = self._clusters.resolve(path)
        if found is None:
            await _send(
                _failure(unauthorized() if self._authenticate else ApiError(404, "no such cluster")), receive, send
            )
            return
        cluster, inner = found
        call = Call(scope["method"], inner.rstrip("/") or "/", query, headers, body, ANYBODY)
        try:
            await _send(await self._answer(cluster, call), receive, _dated(send, cluster))
        except (LostConnection, WatchDropped):
            _abort(send)

    async def _answer(self, cluster: Cluster, call: Call) -> Reply | Stream:
        operation = f"{call.method} {call.path}"
        text = call.raw_body.decode("utf-8", "replace")
        if rule := self._faults.pick("kubernetes", cluster.name, operation, "before", text):
            try:
                failure = await self._inflict(rule)
            except LostConnection:
                self._record(cluster, call, _failure(ApiError(500, "lost")), effect=False, lost=True)
                raise
            if failure:
                self._record(cluster, call, failure, effect=False)
                return failure
        answer = self._handle(cluster, call)
        rule = self._faults.pick("kubernetes", cluster.name, operation, "after", text)
        lost = rule is not None and rule.action != "latency"
        self._record(cluster, call, answer, effect=True, lost=lost)
        if rule and (failure := await self._inflict(rule)):
            return failure
        return answer

    async def _inflict(self, rule: Rule) -> Reply | None:
        for pause in self._faults.pauses(rule):
            await asyncio.sleep(pause)
        if rule.action == "latency":
            return None
        if rule.action == "drop":
            raise LostConnection
        code = 500 if rule.action == "http500" else rule.status or _STATUS_CODES.get(rule.code, 500)
        known = rule.code in _STATUS_CODES and rule.code != "ThrottlingException"
        error = ApiError(code, rule.message, rule.code if known else REASONS.get(code), headers=rule.headers)
        return _failure(error)

    def _handle(self, cluster: Cluster, call: Call) -> Reply | Stream:
        try:
            with cluster.store.lock:
                if call.path not in ("/healthz", "/livez", "/readyz", "/version"):
                    call.principal = self._principal(cluster, call.headers)  # type: ignore[arg-type]
                return route(cluster, call)
        except ApiError as error:
            return _failure(error)
        except Exception:
            log.exception("%s %s", call.method, call.path)
            return _failure(ApiError(500, "Internal error occurred: the sandbox failed, see its log"))

    def _record(self, cluster: Cluster, call: Call, answer: Reply | Stream, effect: bool, lost: bool = False) -> None:
        operation = f"{call.method} {call.path}"
        if call.method not in _MUTATING or call.proxied:
            self._ledger.count_read("kubernetes", cluster.name, call.method)
            return
        code = answer.code if isinstance(answer, Reply) else 200
        if "reviews" in call.path.rsplit("/", 1)[-1]:
            return
        happened = effect and code < 300 and not call.dry_run
        self._ledger.record(
            api="kubernetes",
            service=cluster.name,
            operation=operation,
            parameters={"fieldManager": call.manager, "query": call.query_string},
            resource=call.path,
            time=cluster.now(),
            request_id=str(uuid.uuid4()),
            status=code,
            effect=happened,
            region=cluster.facts.region if cluster.facts else "",
            user_agent=call.headers.get("user-agent", ""),
            response_lost=lost,
            error="" if code < 300 else answer.body.decode()[:300] if isinstance(answer, Reply) else "",
        )
        if happened:
            self._changed()


def _abort(send: Any) -> None:
    """Break the connection without another byte. ASGI has no word for that, so this reaches into uvicorn."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        raise LostConnection
    transport.abort()


def _failure(error: ApiError) -> Reply:
    answer = reply(error.status(), error.code)
    answer.headers += list((error.headers or {}).items())
    return answer


def _dated(send: Any, cluster: Cluster) -> Any:
    """``send`` with the header Date of the cluster's clock: callers reckon the ages of its objects by it."""

    async def dated(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            date = (b"date", formatdate(cluster.now(), usegmt=True).encode())
            message = {**message, "headers": [*message.get("headers", ()), date]}
        await send(message)

    return dated


async def _read(receive: Any) -> bytes | None:
    """The request's body, None if the client went away."""
    chunks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


def _start(code: int, content_type: str, headers: list[tuple[str, str]]) -> dict[str, Any]:
    lines = [
        (b"content-type", content_type.encode()),
        (b"cache-control", b"no-cache, private"),
        (b"audit-id", str(uuid.uuid4()).encode()),
    ]
    lines += [(name.lower().encode(), value.encode("utf-8")) for name, value in headers]
    return {"type": "http.response.start", "status": code, "headers": lines}


async def _send(answer: Reply | Stream, receive: Any, send: Any) -> None:
    if answer.delay and await _leaves(receive, answer.delay):
        return
    if isinstance(answer, Reply):
        length = ("content-length", str(len(answer.body)))
        await send(_start(answer.code, answer.content_type, [*answer.headers, length]))
        await send({"type": "http.response.body", "body": answer.body})
        return
    await send(_start(200, answer.content_type, answer.headers))
    # The headers go out at once: a client waits for them before it does what the watch is to show.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    streaming = asyncio.ensure_future(_stream(answer, send))
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({streaming, gone}, return_when=asyncio.FIRST_COMPLETED)
        if streaming.done():
            streaming.result()
    finally:
        for task in (streaming, gone):
            task.cancel()
        await asyncio.gather(streaming, gone, return_exceptions=True)


async def _leaves(receive: Any, seconds: float) -> bool:
    """Whether the client goes away within so many seconds."""
    gone = asyncio.ensure_future(_disconnected(receive))
    done, _ = await asyncio.wait({gone}, timeout=seconds)
    if not done:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    return bool(done)


async def _stream(answer: Stream, send: Any) -> None:
    chunks = answer.chunks()
    try:
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        await chunks.aclose()  # type: ignore[attr-defined]
    await send({"type": "http.response.body", "body": b""})


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
