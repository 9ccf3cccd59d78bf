"""A request to a simulated server and its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

JSON, TEXT, EVENTS = "application/json", "text/plain; charset=utf-8", "text/event-stream; charset=utf-8"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By names in lower case."""


@dataclass(frozen=True)
class Answer:
    """``chunks`` instead of a body: a stream."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    chunks: tuple[bytes, ...] | None = None
    latency: float = 0.0
    """Real seconds until it begins."""
    pace: float = 0.0
    """Real seconds between two chunks."""

    @property
    def seconds(self) -> float:
        """Real seconds from the request to the end."""
        return self.latency + self.pace * len(self.chunks or ())


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value, ensure_ascii=False).encode())


def as_text(value: str, status: int = 200, content_type: str = TEXT) -> Answer:
    return Answer(status, value.encode(), content_type)


def events(values: list[object]) -> Answer:
    """Server-sent events in OpenAI's manner: each value as ``data:``, then ``[DONE]``."""
    lines = [f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode() for value in values]
    return Answer(content_type=EVENTS, chunks=(*lines, b"data: [DONE]\n\n"))
