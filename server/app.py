"""One application for the gateway, the MCP server and the console, by the first part of a path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, State
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from api.bodies import limited
from server.faces import Face
from server.interruptible import Interruptible

GATEWAY = ("api", "docs", "health", "ready", "codec")
"""First parts of the gateway's paths."""
LARGEST_BODY = 2_000_000
"""Bytes that a request to another face may bring: who has not signed in can send one, too. The gateway has a limit of
its own, which it explains."""

_TOO_LARGE = f"A body has at most {LARGEST_BODY} bytes.\n"


@dataclass(frozen=True)
class Part:
    """An application, and what runs around it from the first request to the last."""

    app: ASGIApp
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]]


class OnePort:
    """ASGI application. Every part sees the requests as if it were alone: none wraps another in its middleware."""

    def __init__(self, parts: dict[Face, Part], state: State) -> None:
        self._parts = parts
        self.state = state
        self._lifespan = Starlette(lifespan=self._together)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        face = _face(scope["path"])
        part = self._parts.get(face)
        if scope["type"] == "http" and face is not Face.API:
            if _announced(scope) > LARGEST_BODY:
                await PlainTextResponse(_TOO_LARGE, 413)(scope, receive, send)
                return
            receive = limited(receive, LARGEST_BODY, _TOO_LARGE)
        app: ASGIApp = part.app if part is not None else PlainTextResponse("Not served here.\n", 404)
        await app(scope, receive, send)

    def stop(self) -> None:
        """End the calls that would go on for as long as what they wait for: the server is about to stop.

        The gateway's own end with its hub, and the console's connections with the server's.
        """
        for part in self._parts.values():
            if isinstance(part.app, Interruptible):
                part.app.stop()

    @asynccontextmanager
    async def _together(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in self._parts.values():
                await stack.enter_async_context(part.lifespan(part.app))
            yield


def _announced(scope: Scope) -> int:
    """How many bytes the request says that it brings; 0 where it does not say."""
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isdigit() else 0


def _face(path: str) -> Face:
    first = path.split("/", 2)[1]
    if first in GATEWAY:
        return Face.API
    return Face.MCP if first == "mcp" else Face.CONSOLE


def create_app(faces: Collection[Face], url: str) -> OnePort:
    """The application with ``faces``; the console and the MCP server speak to the gateway at ``url``.

    Imports what it serves: the console alone takes a second or two.
    """
    parts: dict[Face, Part] = {}
    state = State()
    if Face.API in faces:
        from api.app import create_app as create_gateway

        gateway = create_gateway()
        state = gateway.state
        parts[Face.API] = Part(gateway, gateway.router.lifespan_context)
    if Face.MCP in faces:
        from mcp_server.http import create_app as create_mcp
        from mcp_server.settings import Settings as McpSettings

        settings = McpSettings()
        mcp = create_mcp(url, settings.toolsets, settings.state_key)
        parts[Face.MCP] = Part(Interruptible(mcp), mcp.router.lifespan_context)
    if Face.CONSOLE in faces:
        from ui.app import create_app as create_console

        console = create_console()
        parts[Face.CONSOLE] = Part(console, console.lifespan())
    return OnePort(parts, state)
