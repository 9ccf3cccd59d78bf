"""``python -m server`` as a process of its own, in front of Temporal with fake workflows."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from streamlit.proto.BackMsg_pb2 import BackMsg
from temporalio.client import Client
from temporalio.worker import Worker
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from api.settings import Settings
from api.tokens import TokenStore
from contracts.access import SESSION_COOKIE, Role
from tests.api.conftest import CODEC_KEY, Name, name, temporal, worker

__all__ = ["Name", "name", "temporal", "worker"]

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0
"""Seconds that a process may take to answer, or to end."""


@dataclass
class Served:
    """A process that answers at ``url``, and a token of the gateway."""

    url: str
    token: str
    process: asyncio.subprocess.Process
    log: Path

    def http(self, **headers: str) -> httpx.AsyncClient:
        """A client without a token, which does not follow redirections."""
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE)

    def caller(self) -> httpx.AsyncClient:
        return self.http(Authorization=f"Bearer {self.token}")

    async def session(self) -> str:
        """A session as the console's cookie holds it."""
        async with self.caller() as http:
            return str((await http.post("/api/v1/sessions")).json()["token"])

    def page(self, session: str | None, origin: str | None = None, name: str = "127.0.0.1") -> connect:
        """The console's connection to a page, as a browser with that session opens it. ``name``: what leads here."""
        port = int(self.url.rpartition(":")[2])
        return connect(
            f"ws://{name}:{port}/_stcore/stream",
            host="127.0.0.1",
            port=port,
            additional_headers={
                **({"Cookie": f"{SESSION_COOKIE}={session}"} if session else {}),
                **({"Origin": origin} if origin else {}),
            },
            subprotocols=[Subprotocol("streamlit")],
            max_size=None,
            proxy=None,
        )


async def drawn(page: ClientConnection, what: str) -> None:
    """Draw the page, until ``what`` is on it."""
    wish = BackMsg()
    wish.rerun_script.query_string = ""
    await page.send(wish.SerializeToString())
    async with asyncio.timeout(PATIENCE):
        while what.encode() not in await page.recv(decode=False):
            pass


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@asynccontextmanager
async def process(port: int, log: Path, **settings: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """``python -m server`` with these settings of INSTANTSTART_…; killed at the end if it still runs."""
    given = {"HOST": "127.0.0.1", "PORT": str(port), "REGIONS": "us-west-2", **settings}
    env = {name: value for name, value in os.environ.items() if not name.startswith("INSTANTSTART_")}
    env |= {name if name.startswith("TEMPORAL_") else f"INSTANTSTART_{name}": value for name, value in given.items()}
    with log.open("ab") as file:
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "server"), cwd=ROOT, env=env, stdout=file, stderr=file
        )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGKILL)
        await running.wait()


@asynccontextmanager
async def serving(
    folder: Path, temporal: Client, faces: str, gateway: Served | None = None, **settings: str
) -> AsyncIterator[Served]:
    """A process that serves ``faces``; where the gateway is none of them, they speak to ``gateway``."""
    port, log = free_port(), folder / "log"
    if gateway is None:
        token = TokenStore(Settings(data_dir=folder).tokens_path).add("operator-1", Role.OPERATOR)
    else:
        token = gateway.token
    key = folder / "codec.key"
    key.write_text(base64.b64encode(CODEC_KEY.secret).decode() + "\n")
    key.chmod(0o600)
    address = temporal.service_client.config.target_host
    settings |= {"FACES": faces, "DATA_DIR": str(folder), "TEMPORAL_ADDRESS": address, "TOOLSETS": "all"}
    settings["CODEC_KEY_FILE"] = str(key)
    if gateway is not None:
        settings["URL"] = gateway.url
    async with process(port, log, **settings) as running:
        served = Served(f"http://127.0.0.1:{port}", token, running, log)
        async with asyncio.timeout(PATIENCE), served.http() as http:
            while True:
                assert running.returncode is None, log.read_text()
                try:
                    await http.get("/")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield served


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def everything(
    temporal: Client, worker: Worker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """All faces on one port."""
    async with serving(tmp_path_factory.mktemp("everything"), temporal, "api,mcp,console") as served:
        yield served
