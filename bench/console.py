"""How long the console takes to draw a page again, with 200 clusters and 2,000 operations present.

Once as Streamlit runs a page's script, against a gateway in a process of its own; once as somebody sees it who clicks
from page to page in a browser, where console and gateway share a process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import httpx
from playwright.sync_api import Page, expect, sync_playwright
from streamlit.testing.v1 import AppTest
from temporalio.client import Client

from api.settings import Settings
from api.tokens import TokenStore
from bench.faces import all_listed, fill, quiet
from bench.report import Report, percentile
from bench.scratch import scratch
from cli.stack.ports import free_port
from client.sync import Gateway
from contracts.access import Role
from tests.api.conftest import dev_server, running_worker
from tests.browser.conftest import BROWSERS, SIZE
from ui import session
from ui.settings import settings

RERUNS = 40
ROUNDS = 12
GOAL = "p95 < 1 s"
PATIENCE = 60.0
TAG = "fleet-007"
PAGES: dict[str, dict[str, str]] = {
    "overview": {},
    "operations": {},
    "operation": {"id": f"create-cluster/{TAG}/7"},
    "cluster": {"cluster": TAG},
    "capacity": {"cluster": TAG},
    "nodes": {"cluster": TAG},
    "features": {"cluster": TAG},
    "create": {},
}


@dataclass(frozen=True)
class Running:
    """A gateway with its console, and the token of somebody."""

    url: str
    token: str


def run(report: Report) -> None:
    asyncio.run(_run(report))


async def _run(report: Report) -> None:
    quiet()
    # Readable, for a gateway in a process of its own, which has no keys.
    async with dev_server(keys=()) as client:
        await fill(client)
        async with running_worker(client), _server(client) as running:
            headers = {"Authorization": f"Bearer {running.token}"}
            async with httpx.AsyncClient(base_url=running.url, headers=headers, timeout=PATIENCE) as http:
                await all_listed(http)
            await asyncio.to_thread(_scripts, report, running)
            await asyncio.to_thread(_clicks, report, running)


@asynccontextmanager
async def _server(client: Client) -> AsyncIterator[Running]:
    with scratch() as folder:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        token = TokenStore(Settings(data_dir=folder).tokens_path).add("bench", Role.OPERATOR)
        env = {
            **os.environ,
            "TEMPORAL_ADDRESS": client.service_client.config.target_host,
            "INSTANTSTART_PORT": str(port),
            "INSTANTSTART_DATA_DIR": str(folder),
            "INSTANTSTART_FACES": "api,console",
        }
        with (folder / "server.log").open("w") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "server", env=env, stdout=log, stderr=log
            )
        try:
            async with httpx.AsyncClient(base_url=url) as http:
                while not await _answers(http):
                    if process.returncode is not None:
                        raise RuntimeError((folder / "server.log").read_text())
                    await asyncio.sleep(0.2)
            yield Running(url, token)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _answers(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/health")).is_success
    except httpx.TransportError:
        return False


def _add(report: Report, name: str, samples: list[float]) -> None:
    report.add(f"{name}, p50", "ms", [percentile(samples, 0.5)])
    report.add(f"{name}, p95", "ms", [percentile(samples, 0.95)], GOAL)


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


@contextmanager
def _signed_in(running: Running) -> Iterator[None]:
    """The console's modules in this process, as somebody who is signed in sees them."""
    with (
        patch.dict(os.environ, {"INSTANTSTART_URL": running.url}),
        patch.object(session, "session_token", lambda: running.token),
    ):
        settings.cache_clear()
        try:
            yield
        finally:
            settings.cache_clear()


def _scripts(report: Report, running: Running) -> None:
    with _signed_in(running):
        for name, query in PAGES.items():
            page = AppTest.from_string(_SCRIPT.format(name=name), default_timeout=PATIENCE)
            page.query_params.update(query)
            first = _milliseconds(page.run)
            if page.exception:
                raise RuntimeError(f"{name}: {page.exception[0].value}")
            report.add(f"{name}, first run", "ms", [first])
            with patch.object(Gateway, "reply", autospec=True, side_effect=Gateway.reply) as calls:
                _add(report, f"{name}, rerun", [_milliseconds(page.run) for _ in range(RERUNS)])
            report.add(f"{name}, calls of the gateway in a rerun", "calls", [calls.call_count / RERUNS])


_SCRIPT = """
import streamlit as st
from ui import session
from ui.pages import navigation, {name}

session.signed_in()
st.navigation(navigation(), position="hidden")
{name}.page()
"""


def _clicks(report: Report, running: Running) -> None:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        report.note("no Chromium is here: nothing was measured in a browser")
        return
    with sync_playwright() as playwright, httpx.Client(base_url=running.url) as http:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        page.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)
        made = http.post("/api/v1/tickets", headers={"Authorization": f"Bearer {running.token}"}).raise_for_status()
        page.goto(f"{running.url}/signin?ticket={made.json()['ticket']}")
        _sees(page, "Clusters")
        # The cluster's page begins with a choice as long as nobody has chosen.
        page.goto(f"{running.url}/cluster?cluster={TAG}")
        page.get_by_role("button", name="Make default").click()
        _sees(page, TAG)
        samples: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for link, heading in (("Overview", "Overview"), ("Operations", "Operations"), ("Cluster", TAG)):
                samples.setdefault(link, []).append(_milliseconds(lambda: _follow(page, link, heading)))  # noqa: B023
        for link, taken in samples.items():
            _add(report, f"{link}, clicked in a browser until its script has ended", taken)
        browser.close()


def _follow(page: Page, link: str, heading: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=link, exact=True).click()
    _sees(page, heading)
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")


def _sees(page: Page, heading: str) -> None:
    expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
