"""The sandbox's admin API under ``/_sandbox/``: JSON over plain HTTP, for tests, demos and scripted faults.

Both halves add routes with :meth:`Admin.route`; the ones here are those of what they share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from sandbox.clock import Clock
from sandbox.faults import Faults
from sandbox.ledger import Ledger
from sandbox.state import State

PREFIX = "/_sandbox/"


@dataclass(frozen=True)
class AdminRequest:
    """``path`` is what follows the route's own path; ``body`` is the parsed JSON, None without one."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


class AdminError(Exception):
    """The request makes no sense; the message says why."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


Route = Callable[[AdminRequest], Any]


class Admin:
    """Routes by method and path; a route answers with anything JSON can hold."""

    def __init__(self, clock: Clock, faults: Faults, ledger: Ledger, state: State) -> None:
        self.clock, self.faults, self.ledger, self.state = clock, faults, ledger, state
        self._routes: dict[tuple[str, str], Route] = {}
        self._resets: list[Callable[[], None]] = []
        for method in ("GET", "POST"):
            self.route(method, "clock", self._clock)
        for method in ("GET", "POST", "DELETE"):
            self.route(method, "faults", self._faults)
        for method in ("GET", "DELETE"):
            self.route(method, "ledger", self._ledger)
        self.route("POST", "snapshot", self._snapshot)
        self.route("POST", "reset", self._reset)
        self.route("GET", "health", lambda request: {"status": "ok", "now": self.clock.now().isoformat()})

    def route(self, method: str, path: str, handler: Route) -> None:
        """Answer ``method /_sandbox/<path>`` and, unless a longer route matches, everything below it."""
        self._routes[(method, path.strip("/"))] = handler

    def on_reset(self, action: Callable[[], None]) -> None:
        """Take part in ``POST /_sandbox/reset``."""
        self._resets.append(action)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        try:
            status, answer = 200, self._dispatch(environ)
        except AdminError as error:
            status, answer = error.status, {"error": str(error)}
        except (ValueError, TypeError, KeyError) as error:
            status, answer = 400, {"error": f"{type(error).__name__}: {error}"}
        body = json.dumps(answer, default=str).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{status} {'OK' if status == 200 else 'Error'}", headers)
        return [body]

    def _dispatch(self, environ: dict[str, Any]) -> Any:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        raw = environ["wsgi.input"].read(length) if length else b""
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(PREFIX).strip("/")
        parts = path.split("/")
        for end in range(len(parts), 0, -1):
            head = "/".join(parts[:end])
            if handler := self._routes.get((method, head)):
                query = dict(parse_qsl(environ.get("QUERY_STRING", "")))
                rest = "/".join(parts[end:])
                return handler(AdminRequest(method, rest, query, json.loads(raw) if raw.strip() else None))
        if known := sorted(m for m, p in self._routes if p == path):
            raise AdminError(f"{PREFIX}{path} takes {', '.join(known)}", 405)
        raise AdminError(f"there is no {PREFIX}{path}", 404)

    def _clock(self, request: AdminRequest) -> dict[str, Any]:
        body = request.body or {}
        if unknown := set(body) - {"advance", "speed", "paused"}:
            raise AdminError(f"unknown: {', '.join(sorted(unknown))}; the clock takes advance, speed and paused")
        if body.get("speed") is not None:
            self.clock.set_speed(float(body["speed"]))
        if body.get("paused") is True:
            self.clock.pause()
        if body.get("advance") is not None:
            self.clock.advance(float(body["advance"]))
        if body.get("paused") is False:
            self.clock.resume()
        if body:
            self.state.touch()
        return {
            "now": self.clock.now().isoformat(),
            "speed": self.clock.speed,
            "paused": self.clock.paused,
            "pending": self.clock.pending,
        }

    def _faults(self, request: AdminRequest) -> dict[str, Any]:
        if request.method == "DELETE":
            self.faults.clear()
        elif request.method == "POST":
            if isinstance(request.body, list):
                self.faults.replace(request.body)
            elif isinstance(request.body, dict) and set(request.body) == {"add"}:
                self.faults.add(request.body["add"])
            else:
                raise AdminError('faults are a list of rules, or {"add": [...]}')
        self.state.touch()
        return self.faults.report()

    def _ledger(self, request: AdminRequest) -> dict[str, Any]:
        if request.method == "DELETE":
            self.ledger.clear()
            self.state.touch()
        query = request.query
        entries = self.ledger.query(
            service=query.get("service"),
            operation=query.get("operation"),
            since=int(query["since"]) if "since" in query else None,
            effects_only=query.get("effects_only", "").lower() in ("1", "true", "yes"),
            api=query.get("api"),
        )
        return {"entries": entries, "reads": self.ledger.read_counts()}

    def _snapshot(self, request: AdminRequest) -> dict[str, Any]:
        path = self.state.save()
        if path is None:
            raise AdminError("the sandbox keeps nothing: start it with --data", 409)
        return {"path": str(path)}

    def _reset(self, request: AdminRequest) -> dict[str, Any]:
        """Empty everything but the clock's time: resources, events, faults, ledger."""
        with self.clock.still:
            self.clock.cancel_all()
            for action in self._resets:
                action()
        self.faults.clear()
        self.ledger.clear()
        self.state.touch()
        return {"status": "empty"}
