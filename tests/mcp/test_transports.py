"""The same tools over every transport, for whoever the token names."""

from __future__ import annotations

import httpx2
import pytest

from tests.mcp.conftest import Connect, answered, refused


async def test_over_http_every_request_is_its_own_callers(connect_over_http: Connect) -> None:
    async with connect_over_http("viewer") as viewer, connect_over_http("agent") as agent:
        assert (await answered(viewer, "access_get_caller"))["name"] == "viewer-1"
        assert (await answered(agent, "access_get_caller"))["role"] == "agent"


async def test_in_process_calls_are_those_of_the_servers_token(connect: Connect) -> None:
    async with connect("viewer") as viewer:
        assert (await answered(viewer, "access_get_caller"))["name"] == "viewer-1"


async def test_a_request_without_a_token_is_refused_before_any_tool(mcp_url: str) -> None:
    async with httpx2.AsyncClient() as http:
        answer = await http.post(mcp_url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["code"] == "credentials"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_old_and_new_clients_get_the_same_tools_over_both_transports(
    connect: Connect, connect_over_http: Connect, mode: str
) -> None:
    async with connect(mode=mode) as near, connect_over_http(mode=mode) as far:
        assert (await near.list_tools()).tools == (await far.list_tools()).tools


async def test_a_viewer_may_read_but_start_nothing(connect_over_http: Connect) -> None:
    async with connect_over_http("viewer") as viewer:
        assert "clusters" in await answered(viewer, "cluster_list_all")
        assert (await refused(viewer, "cluster_create", tag="never"))["problem"]["code"] == "denied"
