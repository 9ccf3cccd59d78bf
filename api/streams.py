"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent

from api.settings import Settings

_GRACE_SECONDS = 2.0
"""What a stream has to end by itself when the server stops, before it is cut off: whoever reads it then sees an end and
no fault."""


def event_stream(settings: Settings, events: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
    """An answer of events, with a comment now and then where nothing happens."""
    return EventSourceResponse(
        events,
        ping=settings.ping_seconds,
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        shutdown_grace_period=_GRACE_SECONDS,
    )
