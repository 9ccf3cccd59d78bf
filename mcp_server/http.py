"""The tools over streamable HTTP, behind the gateway's own authentication."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from client.aio import Gateway, GatewayProblem
from contracts import endpoints
from contracts.defences import defend
from contracts.problem import Problem
from mcp_server.asker import Face
from mcp_server.server import create_server
from mcp_server.toolsets import Toolset

PATH = "/mcp"
_FORWARDED = ("host", "origin", "sec-fetch-site", "authorization")
"""Who calls, and from where: without authentication, the gateway serves this machine's own pages only."""
_CHALLENGE = 'Bearer realm="instantstart"'


class Authenticated:
    """ASGI middleware: passes on what comes from a caller whom the gateway knows, and refuses the rest as it does."""

    def __init__(self, app: ASGIApp, face: Face) -> None:
        self._app = app
        self._face = face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            sent = {name: headers[name] for name in _FORWARDED if name in headers}
            await Gateway(self._face.http, None).call(endpoints.GET_CALLER, headers=sent)
        except GatewayProblem as error:
            await _refusal(error.problem, "authorization" in headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)


class Defended:
    """ASGI middleware: tells browsers that no answer is a page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                defend(MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, answer)


def _refusal(problem: Problem, shown: bool) -> Response:
    """``shown``: whether the caller showed a token at all."""
    challenge = f'{_CHALLENGE}, error="invalid_token"' if shown else _CHALLENGE
    headers = {"WWW-Authenticate": challenge} if problem.status == 401 else {}
    return Response(problem.model_dump_json(), problem.status, headers, media_type="application/problem+json")


def create_app(url: str, toolsets: Collection[Toolset], state_key: str | None = None) -> Starlette:
    """The application that serves ``/mcp`` for the gateway at ``url``.

    Nothing is kept between requests, so that a restart loses no conversation and any number of processes can serve;
    questions that are asked in rounds survive it where the processes share a ``state_key``.
    """
    face = create_server(url, None, toolsets, state_key)
    served = face.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        # Who may call is the gateway's to say, by token and, without tokens, by Host and Origin.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with face.session_manager.run(), face.http:
            yield

    around = [Middleware(Defended), Middleware(Authenticated, face=face)]
    return Starlette(routes=[Mount("/", served)], middleware=around, lifespan=lifespan)
