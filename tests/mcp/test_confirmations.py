"""Before something is destroyed, the person behind a person's own agent is asked."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, get_type_hints

import httpx
import pytest
from mcp import Client

from mcp_server.asking import Sure
from mcp_server.server import create_server, definitions
from tests.api.conftest import Gateway, MakeCluster
from tests.mcp.conftest import EVERY, answered, refused
from tests.mcp.people import MODES, User

SCALE = "hyperpod_scale_instance_group"


@asynccontextmanager
async def watched(gateway: Gateway, role: str, **options: Any) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client, and the changes that its server asks the gateway for."""
    face = create_server(gateway.url, gateway.tokens[role], EVERY)
    changes: list[str] = []

    async def note(request: httpx.Request) -> None:
        if request.method != "GET":
            changes.append(f"{request.method} {request.url.path}")

    face.http.event_hooks["request"].append(note)
    async with face.http, Client(face, **options) as client:
        yield client, changes


@pytest.mark.parametrize("tool", [each for each in definitions() if each.destroys], ids=lambda each: each.name)
def test_every_tool_that_destroys_asks_first(tool: Any) -> None:
    hints = get_type_hints(tool.function, include_extras=True)
    assert Sure in hints.values()
    asked = [name for name in inspect.signature(tool.function).parameters if hints[name] == Sure]
    assert not set(asked) & set(tool.tool().parameters["properties"])


@MODES
@pytest.mark.parametrize("said", [None, {"confirm": False}], ids=["declined", "no"])
async def test_a_user_who_says_no_ends_the_call_before_anything_is_asked_of_the_gateway(
    gateway: Gateway, make_cluster: MakeCluster, mode: str, said: dict[str, Any] | None
) -> None:
    tag = await make_cluster()
    user = User(said)
    async with watched(gateway, "operator", mode=mode, elicitation_callback=user) as (client, changes):
        told = await refused(client, SCALE, cluster=tag, group="workers", count=0)
    assert told["problem"]["code"] == "denied"
    assert "did not say yes" in told["problem"]["detail"]
    assert changes == []
    assert tag in user.asked[0].message
    assert "count: 0" in user.asked[0].message


@MODES
async def test_a_user_who_says_yes_has_it_done_once(gateway: Gateway, make_cluster: MakeCluster, mode: str) -> None:
    tag = await make_cluster()
    user = User({"confirm": True})
    async with watched(gateway, "operator", mode=mode, elicitation_callback=user) as (client, changes):
        started = await answered(client, SCALE, cluster=tag, group="workers", count=0)
    assert started["operation"] == f"scale-instance-group/{tag}/workers"
    assert len(changes) == len(user.asked) == 1


@MODES
async def test_the_question_names_the_default_cluster_and_holds_for_that_one_only(
    gateway: Gateway, make_cluster: MakeCluster, mode: str
) -> None:
    shown, other = await make_cluster(), await make_cluster()

    async def choose(tag: str) -> None:
        assert (await gateway.admin.put("/api/v1/me/default-cluster", json={"cluster": tag})).status_code == 200

    async def switched() -> dict[str, Any]:
        await choose(other)
        return {"confirm": True}

    await choose(shown)
    user = User(switched, {"confirm": True})
    async with watched(gateway, "admin", mode=mode, elicitation_callback=user) as (client, _):
        started = await answered(client, SCALE, group="workers", count=0)
    assert shown in user.asked[0].message
    assert started["cluster"] in user.asked[-1].message


async def test_an_agent_is_not_asked_since_a_person_approves(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    user = User()
    async with watched(gateway, "agent", elicitation_callback=user) as (client, _):
        started = await answered(client, SCALE, cluster=tag, group="workers", count=0)
        assert started["phase"] == "waiting_for_approval"
    assert "a person must approve" in started["next"]
    assert user.asked == []


@MODES
async def test_a_client_without_forms_asks_by_itself(gateway: Gateway, make_cluster: MakeCluster, mode: str) -> None:
    tag = await make_cluster()
    async with watched(gateway, "operator", mode=mode) as (client, _):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        annotations = listed[SCALE].annotations
        assert annotations is not None
        assert annotations.destructive_hint is True
        started = await answered(client, SCALE, cluster=tag, group="workers", count=0)
    assert started["cluster"] == tag


async def test_a_whole_cluster_is_deleted_only_by_its_name(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    assert (await gateway.admin.put("/api/v1/me/default-cluster", json={"cluster": tag})).status_code == 200
    async with watched(gateway, "admin") as (client, changes):
        for arguments in ({}, {"cluster": None}):
            told = await refused(client, "cluster_delete", **arguments)
            assert [error["field"] for error in told["problem"]["errors"]] == ["/cluster"]
    assert changes == []
