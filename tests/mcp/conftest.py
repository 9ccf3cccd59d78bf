"""MCP servers in front of a real gateway with fake workflows, and real MCP clients of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from api.__main__ import Server, configuration
from mcp_server.http import PATH, create_app
from mcp_server.server import create_server
from mcp_server.toolsets import Toolset
from tests.api.conftest import Eventually, Gateway, Name, eventually, gateway, make_cluster, name, temporal, worker

__all__ = ["eventually", "gateway", "make_cluster", "name", "temporal", "worker"]

EVERY = tuple(Toolset)

Connect = Callable[..., AbstractAsyncContextManager[Client]]
"""Connects an MCP client with the token of ``role``; further options are those of ``mcp.Client``."""

Begin = Callable[..., Awaitable[str]]
"""Starts the creation of a cluster ``by`` a role and waits until it is in ``phase``; gives the operation's ID."""


@pytest.fixture
def connect(gateway: Gateway) -> Connect:
    """Clients of a server in this process."""

    @asynccontextmanager
    async def connected(
        role: str = "operator", toolsets: Collection[Toolset] = EVERY, **options: Any
    ) -> AsyncIterator[Client]:
        face = create_server(gateway.url, gateway.tokens[role], toolsets)
        async with face.http, Client(face, **options) as client:
            yield client

    return connected


@asynccontextmanager
async def serving(url: str, state_key: str | None = None) -> AsyncIterator[str]:
    """A server of all tools for the gateway at ``url``, behind streamable HTTP; gives its address."""
    app = create_app(url, EVERY, state_key)
    server = Server(configuration(app, "127.0.0.1", 0, log_level="warning"))
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
            if running.done():
                running.result()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{PATH}"
    finally:
        server.should_exit = True
        await asyncio.wait_for(running, 10)


@asynccontextmanager
async def client_of(address: str, token: str | None, **options: Any) -> AsyncIterator[Client]:
    """A client that sends ``token`` with every request."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http), **options) as client,
    ):
        yield client


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def mcp_url(gateway: Gateway) -> AsyncIterator[str]:
    """A server of all tools behind streamable HTTP."""
    async with serving(gateway.url) as address:
        yield address


@pytest.fixture
def connect_over_http(gateway: Gateway, mcp_url: str) -> Connect:
    """Clients of a server behind streamable HTTP."""
    return lambda role="operator", **options: client_of(mcp_url, gateway.tokens[role], **options)


@pytest.fixture(params=["in-process", "http"])
def connect_either(request: pytest.FixtureRequest, connect: Connect, connect_over_http: Connect) -> Connect:
    """Clients over one transport and over the other."""
    return connect_over_http if request.param == "http" else connect


@pytest.fixture
def begin(gateway: Gateway, name: Name, eventually: Eventually) -> Begin:
    """Operations that go on until they need somebody."""

    async def begun(first: str, phase: str = "waiting_for_decision", by: str = "operator") -> str:
        tag = name(first)
        started = await getattr(gateway, by).post("/api/v1/clusters", json={"tag": tag})
        assert started.status_code == 202, started.text
        url = f"/api/v1/operations/create-cluster/{tag}"
        await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == phase)
        return f"create-cluster/{tag}"

    return begun


async def answered(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What the tool answers, which must be no error."""
    result: CallToolResult = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return content(result)


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The problem, and the next tool, that the call must end in."""
    result: CallToolResult = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return content(result)


def content(result: CallToolResult) -> dict[str, Any]:
    """What the result says, as data."""
    document: dict[str, Any] | None = result.structured_content
    assert document is not None
    return document
