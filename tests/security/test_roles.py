"""Who may do what: every route and every tool, called by everybody, does what ``docs/roles.md`` says."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from api.app import create_app
from api.settings import Settings
from mcp_server.server import definitions
from tests.api.conftest import Gateway, MakeCluster, start_cluster
from tests.security.roles import CALLERS, CONTROL_PLANE, GRAVE, HYPERPOD, ended, request_of, routes, table

ROUTES, TOOLS = table("Routes"), table("Tools")
ALL = routes(create_app(Settings(data_dir=Path("/nonexistent"))))
STARTS = sorted(route for route, cells in ROUTES.items() if cells["agent"] in ("asks", "may ask"))


def test_every_route_is_in_the_table() -> None:
    assert set(ROUTES) == set(ALL)


def test_every_tool_is_in_the_table() -> None:
    assert set(TOOLS) == {definition.name for definition in definitions()}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tag(temporal: Client, worker: Worker) -> str:
    """A cluster that is there."""
    return await start_cluster(temporal, "roles", control_plane=CONTROL_PLANE, hyperpod=HYPERPOD)


async def sent(gateway: Gateway, caller: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Status and JSON of the answer; streams and files are not read."""
    http: httpx.AsyncClient = getattr(gateway, caller)
    async with http.stream(**request) as answer:
        if "json" not in answer.headers.get("Content-Type", ""):
            return answer.status_code, {}
        await answer.aread()
    body: dict[str, Any] = answer.json()
    return answer.status_code, body


@pytest.mark.parametrize("route", sorted(ROUTES))
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_route_is_for_those_whom_the_table_names(
    gateway: Gateway, temporal: Client, tag: str, route: str, caller: str
) -> None:
    cell = ROUTES[route][caller]
    status, body = await sent(gateway, caller, request_of(route, tag, *ALL[route]))
    match cell:
        case "401":
            assert (status, body["code"]) == (401, "credentials")
        case "no":
            assert (status, body["code"]) == (403, "denied")
            assert "takes one of" in body["detail"]
        case "asks":
            assert (status, body["phase"]) == (202, "waiting_for_approval"), body
        case "may ask" | "yes" | "own":
            assert status not in (401, 403), body
            if status == 202:
                assert body["phase"] != "waiting_for_approval"
    if status == 202 and "id" in body:
        await ended(temporal, body["id"])


@pytest.mark.parametrize("route", STARTS)
async def test_what_waits_for_an_agents_approver_goes_on_at_once_for_a_person(
    gateway: Gateway, temporal: Client, tag: str, route: str
) -> None:
    status, body = await sent(gateway, "operator", request_of(route, tag, *ALL[route]))
    assert (status, body.get("phase")) == (202, "running"), body
    await ended(temporal, body["id"])


def test_whatever_may_ask_is_asked_about() -> None:
    assert set(GRAVE) == {route for route, cells in ROUTES.items() if cells["agent"] == "may ask"}


@pytest.mark.parametrize("route", sorted(GRAVE))
async def test_an_agent_waits_for_a_person_where_a_request_is_grave(
    gateway: Gateway, temporal: Client, tag: str, route: str
) -> None:
    request = {**request_of(route, tag, *ALL[route]), "json": GRAVE[route]}
    status, body = await sent(gateway, "agent", request)
    assert (status, body.get("phase")) == (202, "waiting_for_approval"), body
    await ended(temporal, body["id"])


@pytest.mark.parametrize("route", sorted(route for route, cells in ROUTES.items() if cells["agent"] == "own"))
async def test_an_agent_answers_its_own_operations_alone(
    gateway: Gateway, temporal: Client, make_cluster: MakeCluster, route: str
) -> None:
    method, path = ALL[route]
    body = {"answer": {"choice": "wait"}} if route == "decide_operation" else {}
    for starter, refused in (("operator", True), ("agent", False)):
        tag = await make_cluster(f"own-{uuid.uuid4().hex[:6]}")
        _, operation = await sent(gateway, starter, request_of("verify_access", tag, *ALL["verify_access"]))
        url = path.replace("{id:path}", operation["id"].replace("/", "%2F"))
        status, answer = await sent(gateway, "agent", {"method": method, "url": url, "json": body})
        assert ((status, answer["code"]) == (403, "denied")) if refused else status not in (401, 403), answer
        if refused:
            assert "operations that it started" in answer["detail"]
        if route != "abort_operation" or refused:
            await ended(temporal, operation["id"])
