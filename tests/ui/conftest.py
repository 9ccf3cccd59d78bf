"""The console's pages against a gateway that runs: fake workflows, real HTTP.

``console`` is the whole of it. A test makes what it needs with :meth:`Console.cluster` and :meth:`Console.start`, draws
a page with :meth:`Console.page`, and clicks::

    def test_…(console: Console) -> None:
        page = console.page("operation", id=console.start("block")).run()
        page.button("retry").click().run()

The gateway lives in a thread of its own, so tests are plain functions.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import httpx
import pytest
from streamlit.testing.v1 import AppTest
from temporalio.client import Client

from contracts.operation import Phase
from contracts.sealing import new_key
from tests.api.conftest import Gateway, dev_server, running_gateway, running_worker, start_cluster
from ui import session
from ui.app import SCRIPT
from ui.settings import settings

PATIENCE = 60.0
"""Seconds that a page, or what a test waits for, may take."""

T = TypeVar("T")


class Console:
    """A gateway, and the console as somebody with one of its tokens sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gateway: Gateway, temporal: Client) -> None:
        self._loop = loop
        self.gateway = gateway
        self.temporal = temporal
        self.role = "operator"

    @property
    def token(self) -> str | None:
        """Of who looks; None: nobody has signed in."""
        return self.gateway.tokens.get(self.role)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Carry something out where the gateway lives."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def http(self, role: str = "operator") -> httpx.Client:
        """The gateway itself, to see what the console has done."""
        token = self.gateway.tokens[role]
        return httpx.Client(
            base_url=f"{self.gateway.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE
        )

    def cluster(self, first: str = "known", **parts: Any) -> str:
        """A managed cluster with these parts of its record; its tag begins with ``first``."""
        tag = self.wait(start_cluster(self.temporal, f"{first}-{uuid.uuid4().hex[:8]}", **parts))
        self.until(lambda: tag in [each["tag"] for each in self.get("/clusters", search=tag)["clusters"]])
        return tag

    def start(self, first: str, role: str = "operator", **spec: Any) -> str:
        """An operation that creates a cluster; what the fake workflow does follows from ``first``. Gives its id."""
        body = {"tag": f"{first}-{uuid.uuid4().hex[:8]}", **spec}
        with self.http(role) as http:
            answer = http.post("/clusters", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def get(self, path: str, **query: Any) -> Any:
        """What the gateway answers to an operator."""
        with self.http() as http:
            answer = http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def operation(self, id: str, *phases: Phase) -> Any:
        """The operation, once it is in one of the phases."""
        return self.until(lambda: self.get(f"/operations/{id}"), lambda seen: not phases or seen["phase"] in phases)

    def audit(self, operation: str) -> list[Any]:
        """What people have done to an operation, the newest first."""
        with self.http("admin") as http:
            entries = http.get("/audit", params={"page_size": 200}).json()["entries"]
        return [each for each in entries if each["operation"] == operation and each["method"] != "GET"]

    def until(self, look: Callable[[], T], satisfies: Callable[[T], Any] = bool) -> T:
        """Look until what is seen satisfies."""
        deadline = time.monotonic() + PATIENCE
        while not satisfies(seen := look()):
            assert time.monotonic() < deadline, seen
            time.sleep(0.03)
        return seen

    def main(self) -> AppTest:
        """The console as a browser opens it: sidebar and the first page. Call its ``run``."""
        return AppTest.from_file(str(SCRIPT), default_timeout=PATIENCE)

    def page(self, name: str, **query: Any) -> AppTest:
        """The page of the module ``ui.pages.<name>`` at an address with this query. Call its ``run``."""
        drawn = AppTest.from_function(_draw, kwargs={"name": name}, default_timeout=PATIENCE)
        drawn.query_params.update({key: str(value) for key, value in query.items()})
        return drawn


def _draw(name: str) -> None:
    # Streamlit runs this body as a script of its own, with nothing of this module around it.
    from importlib import import_module

    import streamlit as st

    from ui.pages import navigation

    st.navigation(navigation(), position="hidden")
    import_module(f"ui.pages.{name}").page()


def texts(page: AppTest) -> str:
    """All text on the page, to look for what must be there."""
    kinds = (page.title, page.header, page.subheader, page.markdown, page.caption, page.error, page.warning, page.info)
    return "\n".join(str(each.value) for kind in kinds for each in kind)


@pytest.fixture(scope="session")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway")
    thread.start()
    stack = AsyncExitStack()

    async def begin() -> Console:
        temporal = await stack.enter_async_context(dev_server())
        await stack.enter_async_context(running_worker(temporal))
        folder = tmp_path_factory.mktemp("console")
        key = folder / "seal.key"
        key.write_text(new_key())
        gateway = await stack.enter_async_context(running_gateway(folder, temporal, seal_key_file=key))
        return Console(loop, gateway, temporal)

    async def end() -> None:
        await stack.aclose()
        # What watches over event streams ends with nobody.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    try:
        yield asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def console(_running: Console, monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    """The console, looked at by an operator; a test sets ``console.role`` to look as somebody else, or as nobody."""
    _running.role = "operator"
    monkeypatch.setenv("INSTANTSTART_URL", _running.gateway.url)
    # AppTest has no cookies.
    monkeypatch.setattr(session, "session_token", lambda: _running.token)
    settings.cache_clear()
    yield _running
    settings.cache_clear()
