"""Waiting for an operation: until it needs somebody or has ended, whatever happens to the gateway meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from temporalio.client import Client as Temporal

from client.aio import Gateway as Caller
from client.aio import connections
from contracts.endpoints import GET_CALLER
from mcp_server import operations
from mcp_server.server import create_server
from tests.api.conftest import Eventually, Gateway, running_gateway
from tests.mcp.conftest import EVERY, Begin, Connect, answered, refused
from tests.mcp.people import MODES


def watched_by(gateway: Gateway, operation: str) -> bool:
    return operation in gateway.long_polls.opened


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("first", "phase"), [("drain", "waiting_for_decision"), ("block", "blocked")])
async def test_it_answers_at_once_where_somebody_is_needed(
    connect: Connect, begin: Begin, first: str, phase: str
) -> None:
    operation = await begin(first, phase)
    async with asyncio.timeout(40), connect("viewer") as client:
        now = await answered(client, "operation_wait", operation=operation, timeout_seconds=50)
    assert (now["operation"]["phase"], now["ended"]) == (phase, False)


async def test_hundreds_of_waits_at_once_keep_nobody_else_out() -> None:
    reached, all_there = [0], asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached[0] += 1
        if reached[0] == 300:
            all_there.set()
        await all_there.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with server, connections(f"http://{host}:{port}", "test") as http:
        caller = Caller(http, None)
        calls = [asyncio.create_task(caller.call(GET_CALLER)) for _ in range(300)]
        async with asyncio.timeout(60):
            await all_there.wait()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_it_answers_when_the_time_is_over(connect: Connect, begin: Begin) -> None:
    operation = await begin("run", "running")
    async with connect("viewer") as client:
        for seconds in (0, 0.2):
            now = await answered(client, "operation_wait", operation=operation, timeout_seconds=seconds)
            assert (now["operation"]["phase"], now["ended"]) == ("running", False)


@MODES
async def test_progress_grows_while_it_waits_and_says_what_goes_on(
    connect_either: Connect, begin: Begin, temporal: Temporal, mode: str
) -> None:
    operation = await begin("run", "running")
    run = temporal.get_workflow_handle(operation)
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with connect_either("viewer", mode=mode) as client:
        waiting = asyncio.create_task(
            client.call_tool("operation_wait", {"operation": operation}, progress_callback=note)
        )
        await until(lambda: told)
        for detail in ("one of two nodes is Ready", "both nodes are Ready"):
            await run.signal("nudge", detail)
            await until(lambda detail=detail: told[-1][2] == detail)
        await run.signal("finish")
        result = await waiting
    assert result.structured_content is not None
    assert result.structured_content["ended"] is True
    done = [each[0] for each in told]
    assert done == sorted(set(done))
    assert {each[1] for each in told} == {2}
    assert all(1 <= each < 2 for each in done[:-1])


async def test_an_approval_is_waited_for(
    connect: Connect, gateway: Gateway, begin: Begin, eventually: Eventually
) -> None:
    operation = await begin("drain", "waiting_for_approval", by="agent")
    async with connect("agent") as agent, connect("operator") as operator:
        waiting = asyncio.create_task(answered(agent, "operation_wait", operation=operation, timeout_seconds=50))
        await until(lambda: watched_by(gateway, operation))
        plan_hash = (await answered(operator, "operation_get", operation=operation))["operation"]["plan_hash"]
        await answered(operator, "operation_approve", operation=operation, plan_hash=plan_hash)
        assert (await waiting)["operation"]["phase"] == "waiting_for_decision"


async def test_several_waits_at_once_end_each_with_its_own_operation(
    connect_over_http: Connect, begin: Begin, temporal: Temporal, gateway: Gateway
) -> None:
    started = [await begin("run", "running") for _ in range(3)]
    async with connect_over_http("viewer") as client:
        waits = [asyncio.create_task(answered(client, "operation_wait", operation=each)) for each in started * 2]
        await until(lambda: all(watched_by(gateway, each) for each in started))
        for each in started:
            await temporal.get_workflow_handle(each).signal("finish")
        assert [(await wait)["operation"]["id"] for wait in waits] == started * 2


async def test_a_restart_of_the_gateway_in_the_middle_is_not_noticed(
    temporal: Temporal, worker: Any, tmp_path: Path, begin: Begin
) -> None:
    operation = await begin("run", "running")
    sent: list[httpx.Request] = []

    async def note(request: httpx.Request) -> None:
        sent.append(request)

    async with AsyncExitStack() as stack:
        first = running_gateway(tmp_path, temporal)
        gateway = await first.__aenter__()
        face = create_server(gateway.url, gateway.tokens["viewer"], EVERY)
        face.http.event_hooks["request"].append(note)
        await stack.enter_async_context(face.http)
        client = await stack.enter_async_context(Client(face))
        waiting = asyncio.create_task(answered(client, "operation_wait", operation=operation, timeout_seconds=50))
        await until(lambda: watched_by(gateway, operation))
        await first.__aexit__(None, None, None)
        before = len(sent)
        await until(lambda: len(sent) >= before + 2)
        assert not waiting.done()
        again = await stack.enter_async_context(running_gateway(tmp_path, temporal, known=gateway.tokens))
        face.http.base_url = httpx.URL(again.url)
        await until(lambda: watched_by(again, operation))
        await temporal.get_workflow_handle(operation).signal("finish")
        assert (await waiting)["operation"]["phase"] == "succeeded"


async def test_a_gateway_that_stays_away_is_a_problem_once_the_time_is_over() -> None:
    face = create_server("http://127.0.0.1:9", "nobody", EVERY)
    async with face.http, Client(face) as client:
        for seconds in (0, 0.7):
            told = await refused(client, "operation_wait", operation="create-cluster/x", timeout_seconds=seconds)
            assert told["problem"]["code"] == "unavailable"
            assert told["next"]["tool"] == "operation_wait"


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("operation_wait", {"operation": "create-cluster/x", "timeout_seconds": 51}, "/timeout_seconds"),
        ("operation_wait", {"operation": "create-cluster/x", "timeout_seconds": -1}, "/timeout_seconds"),
        ("wait_seconds", {"seconds": -1}, "/seconds"),
    ],
)
async def test_a_wait_of_no_possible_length_is_refused_at_its_field(
    connect: Connect, tool: str, arguments: dict[str, Any], field: str
) -> None:
    async with connect("viewer") as client:
        told = await refused(client, tool, **arguments)
    assert (told["problem"]["code"], told["problem"]["errors"][0]["field"]) == ("invalid", field)


async def test_a_pause_is_capped_and_says_so(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "LONGEST_PAUSE", 0.01)
    async with connect("viewer") as client:
        assert await answered(client, "wait_seconds", seconds=400) == {"seconds": 0.01, "asked": 400.0}
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert "300 seconds at most" in (listed["wait_seconds"].description or "")
