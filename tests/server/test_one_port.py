"""Gateway, tools and console answer on one port, or each in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client as Temporal

from server.app import create_app
from server.faces import Face
from tests.mcp.conftest import answered, client_of
from tests.server.conftest import Name, Served, drawn, free_port, process, serving

PATHS = {Face.API: "/health", Face.MCP: "/mcp", Face.CONSOLE: "/signin"}


async def test_all_faces_answer_on_one_port(everything: Served) -> None:
    async with everything.caller() as http:
        assert (await http.get("/api/v1/me")).json()["name"] == "operator-1"
        assert (await http.get("/ready")).headers["content-type"] == "application/json"
        assert "<title>Streamlit</title>" in (await http.get("/")).text
        assert "Sign in" in (await http.get("/signin")).text
    async with client_of(f"{everything.url}/mcp", everything.token) as client:
        assert (await answered(client, "access_get_caller"))["name"] == "operator-1"
    async with everything.page(await everything.session()) as page:
        await drawn(page, "operator-1")


@pytest.mark.parametrize(
    "served", [{Face.API}, {Face.MCP}, {Face.API, Face.MCP}], ids=lambda served: "+".join(sorted(served))
)
async def test_only_the_chosen_faces_are_served(
    everything: Served, served: Collection[Face], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTANTSTART_DATA_DIR", str(tmp_path))
    transport = httpx.ASGITransport(create_app(served, everything.url))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answering = {face for face, path in PATHS.items() if (await http.get(path)).status_code != 404}
    assert answering == served


async def test_faces_in_a_process_of_their_own_speak_to_the_gateway_elsewhere(
    everything: Served, temporal: Temporal, tmp_path: Path
) -> None:
    async with serving(tmp_path, temporal, "mcp,console", everything) as faces:
        async with faces.http() as http:
            assert (await http.get("/api/v1/me")).status_code == 404
            assert (await http.get("/ready")).status_code == 404
        async with client_of(f"{faces.url}/mcp", everything.token) as client:
            assert (await answered(client, "access_get_caller"))["name"] == "operator-1"
        async with faces.page(await everything.session()) as page:
            await drawn(page, "operator-1")


async def test_event_streams_pass_through_as_they_come(everything: Served, temporal: Temporal, name: Name) -> None:
    async with everything.caller() as http:
        tag = name("run")
        started = await http.post("/api/v1/clusters", json={"tag": tag})
        operation = started.json()["id"]
        async with asyncio.timeout(60), http.stream("GET", f"/api/v1/operations/{operation}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.aiter_lines()
            await anext(line async for line in lines if line.startswith("data:"))
            # What the operation says next is caused by what is done now: nothing held the first event back.
            await temporal.get_workflow_handle(operation).signal("nudge", "one of two nodes is Ready")
            await anext(line async for line in lines if "one of two nodes is Ready" in line)
            await temporal.get_workflow_handle(operation).signal("finish")
            await anext(line async for line in lines if line == "event: end")


async def test_a_port_that_is_taken_ends_with_what_to_do(
    everything: Served, temporal: Temporal, tmp_path: Path
) -> None:
    port, log = int(everything.url.rpartition(":")[2]), tmp_path / "log"
    async with process(port, log, FACES="api", DATA_DIR=str(tmp_path)) as running, asyncio.timeout(60):
        assert await running.wait() != 0
    said = log.read_text()
    assert f"cannot listen on port {port} of 127.0.0.1" in said
    assert "INSTANTSTART_PORT" in said
    assert "Traceback" not in said


async def test_an_unknown_face_is_refused_by_name(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with process(free_port(), log, FACES="api,desktop", DATA_DIR=str(tmp_path)) as running, asyncio.timeout(60):
        assert await running.wait() == 2
    assert "desktop" in log.read_text()
