"""Who calls a tool: the gateway as that caller reaches it, and the cluster that the caller means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import httpx
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Resolve
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import BaseModel, Field, SkipValidation

from client.aio import Gateway, GatewayProblem
from contracts import endpoints
from contracts.access import Caller
from contracts.endpoints import Endpoint
from contracts.operation import Operation
from contracts.problem import ProblemCode, problem
from mcp_server.problems import failure, moved, wrong_argument
from mcp_server.started import Started, started

Answer = TypeVar("Answer", bound=BaseModel)

SOON = {"Prefer": "wait=1.5"}
"""How long a start may look at the account before it answers (RFC 7240): an agent waits for an operation, not for a
call."""


class Face(MCPServer[None]):
    """The server with its connections to the gateway.

    ``token``: whose calls those without HTTP headers are. ``elsewhere``: the toolsets of the tools that it lacks.
    """

    def __init__(
        self, http: httpx.AsyncClient, token: str | None, elsewhere: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(**options)
        self.http = http
        self.token = token
        self._elsewhere = elsewhere

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """As the SDK's; a tool that is not there is a problem that says why."""
        if any(name == tool.name for tool in self._tool_manager.list_tools()):
            return await super().call_tool(name, arguments, context)
        toolset = self._elsewhere.get(name)
        if toolset is None:
            remedy = "Call one of the tools that tools/list answers."
        else:
            remedy = f"Whoever runs this server can add its toolset: INSTANTSTART_TOOLSETS=default,{toolset}."
        missing = problem(ProblemCode.NOT_FOUND, f"this server has no tool {name!r}", remedy=remedy)
        return failure(missing, None)


class Asker:
    """The gateway as one caller reaches it."""

    def __init__(self, gateway: Gateway, context: Context[Any, Any]) -> None:
        self.gateway = gateway
        self.context = context
        self._caller: Caller | None = None

    async def get(
        self, endpoint: Endpoint[Answer], *body: Any, places: Mapping[str, str] | None = None, **options: Any
    ) -> Answer:
        """What ``endpoint`` answers. ``places``: which arguments the parts of the request come from, where they have
        other names. Raises GatewayProblem."""
        try:
            return await self.gateway.call(endpoint, *body, **options)
        except GatewayProblem as error:
            raise GatewayProblem(
                moved(error.problem, {"/tag": "/cluster", "/id": "/operation", **(places or {})})
            ) from None

    async def get_if_there(self, endpoint: Endpoint[Answer], **options: Any) -> Answer | None:
        """What ``endpoint`` answers; None where it says that there is no such thing. Raises GatewayProblem."""
        try:
            return await self.get(endpoint, **options)
        except GatewayProblem as error:
            if error.problem.code is not ProblemCode.NOT_FOUND:
                raise
            return None

    async def operation(self, endpoint: Endpoint[Operation], *body: Any, **options: Any) -> Operation:
        """Start an operation. Raises GatewayProblem."""
        return await self.get(endpoint, *body, headers=SOON, **options)

    async def start(
        self, endpoint: Endpoint[Operation], *body: Any, status_tool: str = "operation_get", **options: Any
    ) -> Started:
        """Start an operation, as a tool answers it. Raises GatewayProblem."""
        return started(await self.operation(endpoint, *body, **options), status_tool)

    async def caller(self) -> Caller:
        """Whom the gateway knows the caller as: the same throughout one call of a tool. Raises GatewayProblem."""
        if self._caller is None:
            self._caller = await self.gateway.call(endpoints.GET_CALLER)
        return self._caller

    async def cluster(self, named: str | None) -> str:
        """The cluster that is meant: the one that is named, by its tag or the ARN of its EKS or HyperPod cluster, else
        the caller's default.

        Raises GatewayProblem if neither is there: clusters are never guessed.
        """
        if named is not None:
            return await self._tag_of(named) if str(named).startswith("arn:") else named
        caller = await self.caller()
        if caller.default_cluster is None:
            raise GatewayProblem(
                wrong_argument(
                    "cluster",
                    "no cluster is named, and none is the default",
                    "Name one of cluster_list_all, or make one the default with cluster_switch.",
                )
            )
        return caller.default_cluster

    async def _tag_of(self, arn: str) -> str:
        page_token = None
        while True:
            page = await self.get(endpoints.LIST_CLUSTERS, page_size=200, page_token=page_token)
            for each in page.clusters:
                if f":{each.region}:" not in arn:
                    continue
                record = (await self.get(endpoints.GET_CLUSTER, tag=each.tag)).record
                if arn in [part.arn for part in (record.control_plane, record.hyperpod) if part is not None]:
                    return each.tag
            if (page_token := page.next_page_token) is None:
                raise GatewayProblem(
                    wrong_argument(
                        "cluster",
                        f"no managed cluster has the ARN {arn}",
                        "Name it by its tag: one of cluster_list_all.",
                    )
                )


def gateway_for(http: httpx.AsyncClient, token: str | None, headers: Mapping[str, str] | None) -> Gateway:
    """The gateway as the caller reaches it: over HTTP the bearer of the token that came with the request, never the
    server's own ``token``, which is for calls without headers."""
    if headers is None:
        return Gateway(http, token)
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    return Gateway(http, shown.strip() if scheme.lower() == "bearer" else None)


async def asker(context: Context[Any, Any]) -> Asker:
    """Who calls."""
    face = context.mcp_server
    assert isinstance(face, Face)
    return Asker(gateway_for(face.http, face.token, context.headers), context)


Who = Annotated[Asker, Resolve(asker)]
ClusterTag = Annotated[
    SkipValidation[str | None],
    Field(description="The cluster's tag, e.g. demo-1130a. Absent: the default that cluster_switch set."),
]
