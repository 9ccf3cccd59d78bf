"""Requests that end when the server is told to stop, however long they would have gone on."""

from __future__ import annotations

import asyncio

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_STOPPING = "The server is stopping: nothing is lost, ask again in a moment.\n"


class Interruptible:
    """ASGI application around one whose calls and streams may last for minutes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        running = asyncio.create_task(self._of(scope, receive, sending))
        self._running.add(running)
        try:
            await asyncio.wait([running])
        finally:
            self._running.discard(running)
            running.cancel()
        if not running.cancelled():
            running.result()
        elif begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await PlainTextResponse(_STOPPING, 503, {"Retry-After": "5"})(scope, receive, send)

    async def _of(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._stopping:
            raise asyncio.CancelledError
        await self._app(scope, receive, send)

    def stop(self) -> None:
        """End what runs, and refuse what still comes."""
        self._stopping = True
        for each in self._running:
            each.cancel()
