"""Who calls a tool: the gateway as that caller reaches it, and the cluster that the caller means."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import httpx
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Resolve
from pydantic import BaseModel, Field

from client.aio import Gateway, GatewayProblem
from contracts import endpoints
from contracts.endpoints import Endpoint
from contracts.operation import Operation
from mcp_server.problems import wrong_argument
from mcp_server.started import Started, started

Answer = TypeVar("Answer", bound=BaseModel)

SOON = {"Prefer": "wait=1.5"}
"""How long a start may look at the account before it answers (RFC 7240): an agent waits for an operation, not for a
call."""


class Face(MCPServer[None]):
    """The server with its connections to the gateway. ``token``: whose calls those without HTTP headers are."""

    def __init__(self, http: httpx.AsyncClient, token: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.http = http
        self.token = token


class Asker:
    """The gateway as one caller reaches it."""

    def __init__(self, gateway: Gateway, context: Context[Any, Any]) -> None:
        self.gateway = gateway
        self.context = context

    async def get(self, endpoint: Endpoint[Answer], *body: Any, **options: Any) -> Answer:
        """What ``endpoint`` answers. Raises GatewayProblem."""
        return await self.gateway.call(endpoint, *body, **options)

    async def start(
        self, endpoint: Endpoint[Operation], *body: Any, status_tool: str = "operation_get", **options: Any
    ) -> Started:
        """Start an operation. Raises GatewayProblem."""
        operation = await self.gateway.call(endpoint, *body, headers=SOON, **options)
        return started(operation, status_tool)

    async def cluster(self, named: str | None) -> str:
        """The cluster that is meant: the one that is named, else the caller's default.

        Raises GatewayProblem if neither is there: clusters are never guessed.
        """
        if named is not None:
            return named
        caller = await self.gateway.call(endpoints.GET_CALLER)
        if caller.default_cluster is None:
            raise GatewayProblem(
                wrong_argument(
                    "cluster",
                    "no cluster is named, and none is the default",
                    "Name one of cluster_list_all, or make one the default with cluster_switch.",
                )
            )
        return caller.default_cluster


async def asker(context: Context[Any, Any]) -> Asker:
    """Who calls: over HTTP the bearer of the token that came with the request, never the server's own."""
    face = context.mcp_server
    assert isinstance(face, Face)
    headers = context.headers
    if headers is None:
        return Asker(Gateway(face.http, face.token), context)
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return Asker(Gateway(face.http, token.strip() if scheme.lower() == "bearer" else None), context)


Who = Annotated[Asker, Resolve(asker)]
ClusterTag = Annotated[
    str | None,
    Field(description="The cluster's tag, e.g. demo-1130a. Absent: the default that cluster_switch set."),
]
