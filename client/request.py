"""Calls of the gateway as requests, and its responses as answers or problems: what both clients share."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from contracts.endpoints import Endpoint
from contracts.problem import FieldError, Problem, ProblemCode, invalid, problem
from telemetry import tracing

Answer = TypeVar("Answer", bound=BaseModel)

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
TRIES = 3
"""How often a request is sent whose answer was lost: reads change nothing, and the others carry a key."""


class GatewayProblem(Exception):
    """The gateway refused, or did not answer. ``problem`` says what to do."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


@dataclass(frozen=True)
class Reply(Generic[Answer]):
    """An answer with its response headers."""

    answer: Answer
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        """Of an operation: what ``since`` takes in a long poll."""
        return self.headers.get("operation-version")


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One wish at the gateway, however often it is sent."""

    endpoint: Endpoint[Answer]
    body: BaseModel | Mapping[str, Any] | None
    parameters: Mapping[str, Any]
    """Those that the path does not name go into the query, without those that are None."""
    key: str
    """The Idempotency-Key of what changes something."""
    headers: Mapping[str, str]
    timeout: float | None
    """Seconds, for a long poll; None: the usual."""

    @classmethod
    def of(
        cls,
        endpoint: Endpoint[Answer],
        body: BaseModel | Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **parameters: Any,
    ) -> Call[Answer]:
        return cls(endpoint, body, parameters, key or str(uuid.uuid4()), headers or {}, timeout)

    def request(self, token: str | None) -> dict[str, Any]:
        """Arguments of httpx's ``request``. A model is sent with what was set in it, so that a change names what it
        changes. Raises GatewayProblem for what cannot stand in a path."""
        places = {name: segment(name, self.parameters[name]) for name in self.endpoint.placeholders}
        sent = dict(self.headers)
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if not self.endpoint.reads:
            sent["Idempotency-Key"] = self.key
        request: dict[str, Any] = {
            "method": self.endpoint.method,
            "url": self.endpoint.path.format(**places),
            "params": {
                name: _texts(value)
                for name, value in self.parameters.items()
                if name not in places and value is not None
            },
            "headers": sent,
            "timeout": TIMEOUT if self.timeout is None else httpx.Timeout(self.timeout, connect=5.0),
        }
        if self.body is not None:
            request["content"] = _json(self.body)
            sent["Content-Type"] = "application/json"
        return request

    @contextmanager
    def traced(self, token: str | None) -> Iterator[dict[str, Any]]:
        """As :meth:`request`; it carries on the trace that goes on here, if one does."""
        request = self.request(token)
        with tracing.calling(self.endpoint.method, self.endpoint.path, request["headers"]):
            yield request

    def is_lost(self, attempt: int, error: httpx.TransportError) -> bool:
        """Whether nothing is gained by sending it again after so many attempts."""
        return attempt == TRIES or isinstance(error, httpx.ConnectError)


def segment(name: str, value: Any) -> str:
    """A value as one segment of a path. Raises GatewayProblem for one that would lead to another path: URLs are
    resolved on their way, and ``instance-groups/..`` is the cluster itself."""
    text = _text(value)
    if text == "" or any(part in (".", "..") for part in text.split("/")):
        fault = FieldError(field=f"/{name}", detail=f"{text!r} is no name", remedy="Send the name of what is meant.")
        raise GatewayProblem(invalid([fault]))
    return quote(text, safe="")


def read(endpoint: Endpoint[Answer], response: httpx.Response) -> Reply[Answer]:
    """The answer. Raises GatewayProblem with the problem that the gateway named."""
    answer = endpoint.answer
    if not response.is_success and response.status_code not in endpoint.answered_with:
        raise GatewayProblem(_problem(response))
    try:
        document = answer.model_validate_json(response.content or b"{}")
    except ValidationError as error:
        raise GatewayProblem(
            problem(
                ProblemCode.INTERNAL,
                f"the gateway's answer is no {answer.__name__}: {error.error_count()} differences",
                remedy="Is the gateway of another version than this face? Restart both from the same one.",
            )
        ) from None
    return Reply(document, response.status_code, {name.lower(): value for name, value in response.headers.items()})


def unanswered(error: httpx.TransportError, url: str) -> GatewayProblem:
    """What a request that got no answer ends with."""
    said = "cannot be reached" if isinstance(error, httpx.ConnectError) else "did not answer in time"
    return GatewayProblem(
        problem(
            ProblemCode.UNAVAILABLE,
            f"the gateway at {url} {said} ({type(error).__name__})",
            remedy="Nothing is lost: operations go on. Try again, or look whether the gateway runs.",
        )
    )


def _problem(response: httpx.Response) -> Problem:
    try:
        return Problem.model_validate_json(response.content)
    except ValidationError:
        return problem(
            ProblemCode.INTERNAL if response.status_code >= 500 else ProblemCode.INVALID,
            f"the gateway answered {response.status_code} {response.reason_phrase}",
            status=response.status_code,
            remedy="Is that the gateway's address?",
        )


def _json(body: BaseModel | Mapping[str, Any]) -> bytes:
    """The body as it is sent. Raises GatewayProblem for what JSON has no word for, as agents' programs may pass it."""
    document = body.model_dump(mode="json", exclude_unset=True) if isinstance(body, BaseModel) else body
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        fault = FieldError(
            field="", detail=f"this cannot be sent as JSON: {error}", remedy="Send finite numbers and valid text."
        )
        raise GatewayProblem(invalid([fault])) from None


def _texts(value: Any) -> str | list[str]:
    return [_text(each) for each in value] if isinstance(value, list | tuple) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Half a surrogate pair is no text that could be sent: it names nothing.
    return str(value.value if isinstance(value, Enum) else value).encode(errors="replace").decode()
