"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent

from api.settings import Settings

_GRACE_SECONDS = 2.0
"""What a stream has to end by itself when the server stops, before it is cut off: whoever reads it then sees an end and
no fault."""
EVENTS: dict[str, Any] = {
    "text/event-stream": {
        "schema": {
            "type": "object",
            "description": "Each event of the stream.",
            "properties": {
                "event": {"type": "string", "description": "What it tells."},
                "data": {"type": "string", "description": "JSON."},
                "id": {"type": "string", "description": "For Last-Event-ID, where the stream can be taken up again."},
            },
            "required": ["event", "data"],
        }
    }
}
"""The content of an answer of events, in OpenAPI. Before 3.2, which has ``itemSchema``, there is no other way to say of
what a stream is made."""


def event_stream(settings: Settings, events: AsyncIterator[ServerSentEvent | bytes]) -> EventSourceResponse:
    """An answer of events (bytes: written out already), with a comment now and then where nothing happens."""
    return EventSourceResponse(
        events,
        ping=settings.ping_seconds,
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        shutdown_grace_period=_GRACE_SECONDS,
    )
