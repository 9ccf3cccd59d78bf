"""The server over HTTP: whose requests it takes, and what outlives it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import MCPError
from mcp_types import ElicitResult, InputRequiredResult
from starlette.applications import Starlette
from temporalio.client import Client as Temporal

from api.__main__ import configuration
from mcp_server.http import PATH
from tests.api.conftest import Eventually, Gateway, running_gateway
from tests.mcp.conftest import Begin, Connect, answered, client_of, serving
from tests.mcp.people import User

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"Accept": "application/json, text/event-stream"}
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("shown", "challenge"),
    [
        ({}, 'Bearer realm="instantstart"'),
        ({"Authorization": "Bearer isk_wrong"}, 'Bearer realm="instantstart", error="invalid_token"'),
        ({"Authorization": "Basic aXNrOng="}, 'Bearer realm="instantstart", error="invalid_token"'),
    ],
    ids=["none", "unknown", "no bearer"],
)
async def test_who_shows_no_token_that_is_known_gets_the_gateways_problem(
    gateway: Gateway, mcp_url: str, shown: dict[str, str], challenge: str
) -> None:
    async with httpx2.AsyncClient() as http:
        answer = await http.post(mcp_url, json=LIST, headers=HEADERS | shown)
    theirs = (await gateway.anonymous.get("/api/v1/me", headers=shown)).json()
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == challenge
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["code"], answer.json()["detail"]) == ("credentials", theirs["detail"])


async def test_clients_with_different_tokens_at_once_never_mix(connect_over_http: Connect, gateway: Gateway) -> None:
    roles = ("viewer", "agent", "operator", "admin")

    async def ask_often(role: str) -> set[str]:
        async with connect_over_http(role) as client:
            calls = [answered(client, "access_get_caller") for _ in range(12)]
            return {caller["name"] for caller in await asyncio.gather(*calls)}

    assert await asyncio.gather(*map(ask_often, roles)) == [{f"{role}-1"} for role in roles]


def test_idle_connections_are_kept_for_longer_than_clients_keep_them() -> None:
    """Otherwise a request can meet the closing of its connection, and is lost."""
    kept = configuration(Starlette(), "127.0.0.1", 0).timeout_keep_alive
    for limits in (httpx.Limits(), httpx2.Limits()):
        assert limits.keepalive_expiry is not None
        assert kept > limits.keepalive_expiry


async def test_without_authentication_only_this_machines_own_pages_are_served(
    temporal: Temporal, worker: Any, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path, temporal, auth="off") as gateway, serving(gateway.url) as address:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            for foreign in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
                answer = await http.post(address, json=LIST, headers=foreign)
                assert (answer.status_code, answer.json()["code"]) == (403, "denied")
            for own in ({}, {"Origin": "http://localhost:3099"}):
                assert (await http.post(address, json=LIST, headers=own)).status_code != 403
        async with client_of(address, None) as client:
            assert (await answered(client, "access_get_caller"))["name"] == "local"


async def test_older_clients_over_http_cannot_be_asked_and_get_the_question(
    connect_over_http: Connect, begin: Begin
) -> None:
    operation = await begin("drain")
    user = User()
    async with connect_over_http(mode="legacy", elicitation_callback=user) as client:
        result = await client.call_tool("operation_decide", {"operation": operation})
    assert result.is_error
    assert "Three pods do not leave" in str(result.content)
    assert user.asked == []


async def first_round(client: Any, tool: str, arguments: dict[str, Any]) -> InputRequiredResult:
    asked = await client.session.call_tool(tool, arguments, allow_input_required=True)
    assert isinstance(asked, InputRequiredResult), asked
    return asked


async def second_round(
    client: Any, tool: str, arguments: dict[str, Any], asked: InputRequiredResult, content: dict[str, Any]
) -> Any:
    responses = {key: ElicitResult(action="accept", content=content) for key in asked.input_requests or {}}
    return await client.session.call_tool(
        tool, arguments, input_responses=responses, request_state=asked.request_state, allow_input_required=True
    )


async def test_the_state_of_a_question_is_its_callers_and_its_keys_only(gateway: Gateway, begin: Begin) -> None:
    call = ("operation_decide", {"operation": await begin("drain")})
    key = secrets.token_hex(32)
    form = {"elicitation_callback": User()}
    async with (
        serving(gateway.url, key) as one,
        serving(gateway.url, key) as other,
        serving(gateway.url) as stranger,
        client_of(one, gateway.tokens["operator"], **form) as asker,
        client_of(other, gateway.tokens["admin"], **form) as somebody_else,
        client_of(stranger, gateway.tokens["operator"], **form) as elsewhere,
        client_of(other, gateway.tokens["operator"], **form) as further,
    ):
        asked = await first_round(asker, *call)
        for client in (somebody_else, elsewhere):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await second_round(client, *call, asked, {"choice": "wait"})
        assert not (await second_round(further, *call, asked, {"choice": "wait"})).is_error


@asynccontextmanager
async def process(port: int, url: str, key: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """``python -m server`` with the MCP server alone, killed at the end without a word before it."""
    settings = {"FACES": "mcp", "URL": url, "PORT": str(port), "HOST": "127.0.0.1", "MCP_STATE_KEY": key}
    env = {**os.environ, **{f"INSTANTSTART_{name}": value for name, value in settings.items()}}
    with log.open("ab") as file:
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "server"), cwd=ROOT, env=env, stdout=file, stderr=file
        )
    try:
        async with asyncio.timeout(90), httpx2.AsyncClient() as http:
            while True:
                assert running.returncode is None, f"see {log}"
                try:
                    await http.post(f"http://127.0.0.1:{port}{PATH}", json=LIST)
                    break
                except httpx2.TransportError:
                    await asyncio.sleep(0.1)
        yield running
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGKILL)
        await running.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def test_a_killed_server_loses_no_conversation_and_logs_neither_tokens_nor_what_is_said(
    gateway: Gateway, begin: Begin, eventually: Eventually, tmp_path: Path
) -> None:
    operation = await begin("short")
    call = ("operation_decide", {"operation": operation})
    port, key, log, token = free_port(), secrets.token_hex(32), tmp_path / "log", gateway.tokens["operator"]
    address, marker = f"http://127.0.0.1:{port}{PATH}", "tell-nobody"
    async with AsyncExitStack() as stack:
        async with process(port, gateway.url, key, log):
            client = await stack.enter_async_context(client_of(address, token, elicitation_callback=User()))
            await answered(client, "operation_list", cluster=marker)
            asked = await first_round(client, *call)
        async with process(port, gateway.url, key, log):
            result = await second_round(client, *call, asked, {"remedy": '{"kind": "wait"}'})
            assert not result.is_error, result.content
            await client.call_tool("operation_abort", {"operation": operation, "reason": marker})
            url = f"/api/v1/operations/{operation}"
            done = await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "succeeded")
            # The connections of the client end before the server that they lead to.
            await stack.aclose()
    assert done.json()["result"]["answer"] == {"remedy": {"kind": "wait"}}
    said = log.read_text()
    assert "Uvicorn running" in said
    assert [secret for secret in (token, key, marker, "remedy", "HTTP Request") if secret in said] == []
