"""One application for the gateway, the MCP server and the console, by the first part of a path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from server.faces import Face
from server.interruptible import Interruptible

GATEWAY = ("api", "docs", "health", "ready")
"""First parts of the gateway's paths."""


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
        part = self._parts.get(_face(scope["path"]))
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
