"""A server that is told to stop ends what is open by itself."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from temporalio.client import Client as Temporal
from temporalio.worker import Worker
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.mcp.conftest import client_of
from tests.server.conftest import PATIENCE, Name, drawn, serving


async def read(page: ClientConnection) -> None:
    """As a browser does: whoever does not read never sees the end."""
    while True:
        await page.recv()


async def test_open_polls_streams_pages_and_calls_do_not_hold_it(
    temporal: Temporal, worker: Worker, name: Name, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(4 * PATIENCE):
        served = await stack.enter_async_context(serving(tmp_path, temporal, "api,mcp,console"))
        http = await stack.enter_async_context(served.caller())
        operation = (await http.post("/api/v1/clusters", json={"tag": name("run")})).json()["id"]
        url = f"/api/v1/operations/{operation}"
        while (seen := await http.get(url)).json().get("phase") != "running":
            await asyncio.sleep(0.05)

        since = seen.headers["operation-version"]
        poll = asyncio.create_task(http.get(url, params={"wait": 50, "since": since}))
        stream = await stack.enter_async_context(http.stream("GET", f"{url}/events"))
        lines = stream.aiter_lines()
        await anext(line async for line in lines if line.startswith("data:"))
        page = await stack.enter_async_context(served.page(await served.session()))
        await drawn(page, "operator-1")
        told = asyncio.Event()

        async def progress(*_: Any) -> None:
            told.set()

        client = await stack.enter_async_context(client_of(f"{served.url}/mcp", served.token))
        waiting = asyncio.create_task(
            client.call_tool(
                "operation_wait", {"operation": operation, "timeout_seconds": 50}, progress_callback=progress
            )
        )
        telling = asyncio.create_task(told.wait())
        await asyncio.wait([telling, waiting], return_when=asyncio.FIRST_COMPLETED)
        assert not waiting.done(), waiting.result()

        served.process.send_signal(signal.SIGTERM)
        assert (await poll).json()["phase"] == "running"
        assert [line async for line in lines if line == "event: end"] == []
        with pytest.raises(ConnectionClosed):
            await read(page)
        with pytest.raises(MCPError):
            await waiting
        assert await served.process.wait() in (0, -signal.SIGTERM)
    assert "Traceback" not in served.log.read_text()
