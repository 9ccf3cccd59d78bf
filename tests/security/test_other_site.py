"""A page of another origin, in a real browser whose owner is signed in to the console, tries what it can."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from contracts.access import SESSION_COOKIE
from tests.browser.conftest import BROWSERS
from tests.server.conftest import PATIENCE, Served

EVIL = "evil.example"
PATIENCE_MS = PATIENCE * 1000
ATTACK = """
async target => {
  const told = {};
  const tries = async (name, act) => { try { told[name] = await act(); } catch (error) { told[name] = "refused"; } };
  const asks = (path, options = {}) => fetch(target + path, {credentials: "include", ...options}).then(a => a.text());
  await tries("reads who is signed in", () => asks("/api/v1/me"));
  await tries("starts something", () => asks("/api/v1/clusters", {method: "POST", body: '{"tag": "stolen"}',
    headers: {"Content-Type": "application/json"}}));
  await tries("starts something as a form", () => asks("/api/v1/clusters",
    {method: "POST", body: '{"tag": "stolen"}'}));
  await tries("reads the console", () => asks("/overview"));
  await tries("reads a log", () => asks("/logs/stream?tag=a&namespace=b&pod=c"));
  await tries("calls a tool", () => asks("/mcp", {method: "POST", body: "{}"}));
  await tries("signs out", () => fetch(target + "/signout", {method: "POST", credentials: "include", mode: "no-cors"}));
  await tries("signs in as another", () => fetch(target + "/signin", {method: "POST", credentials: "include",
    mode: "no-cors", body: new URLSearchParams({token: "isk_of_the_attacker"})}));
  await tries("uploads", () => asks("/_stcore/upload_file/a/b", {method: "PUT", body: "x"}));
  await tries("draws a picture", () => new Promise((done, failed) => {
    const picture = new Image(); picture.onload = () => done("shown"); picture.onerror = failed;
    picture.src = target + "/signout"; }));
  await tries("opens the console's connection", () => new Promise((done, failed) => {
    const socket = new WebSocket(target.replace("http", "ws") + "/_stcore/stream", ["streamlit"]);
    socket.onopen = () => done("open"); socket.onerror = failed; }));
  await tries("looks into a window", async () => {
    const other = window.open(target + "/overview");
    // Its own until the other page has come.
    for (;;) {
      const text = other.document.body?.innerText;
      if (text) return text;
      await new Promise(done => setTimeout(done, 20)); } });
  return told;
}
"""
FRAME = """
url => { const frame = document.createElement("iframe"); frame.src = url; document.body.append(frame); }
"""
BLIND = {"signs out", "signs in as another"}
"""Their answers are seen by no page, whatever they are: what came of them is looked at from the other side."""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>A site</title><p>Nothing to see.</p>")

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """The port of another site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@dataclass
class Visit:
    """A browser, signed in to the console."""

    context: BrowserContext
    console: Page
    session: str

    async def goes_to(self, address: str) -> Page:
        page = await self.context.new_page()
        await page.goto(address)
        return page


@pytest.fixture
async def visit(everything: Served) -> AsyncIterator[Visit]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium is here")
        pytest.skip("no Chromium is here")
    rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser: Browser = await playwright.chromium.launch(executable_path=path, args=[rules, *root])
        context = await browser.new_context()
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        await page.goto(f"{everything.url}/signin")
        await page.get_by_label("Token").fill(everything.token)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("operator-1").first).to_be_visible(timeout=PATIENCE_MS)
        cookies = {each["name"]: each["value"] for each in await context.cookies()}
        yield Visit(context, page, cookies[SESSION_COOKIE])
        await browser.close()


@pytest.mark.parametrize("host", [EVIL, "127.0.0.1"], ids=["another site", "another port of this host"])
async def test_a_page_of_another_origin_reads_nothing_and_changes_nothing(
    everything: Served, visit: Visit, site: int, host: str
) -> None:
    page = await visit.goes_to(f"http://{host}:{site}/")
    told = await page.evaluate(ATTACK, everything.url)
    assert {name: answer for name, answer in told.items() if answer != "refused" and name not in BLIND} == {}
    async with everything.http(Authorization=f"Bearer {visit.session}") as http:
        assert (await http.get("/api/v1/me")).status_code == 200
        assert (await http.get("/api/v1/operations/create-cluster/stolen")).status_code == 404
    cookies = {each["name"]: each["value"] for each in await visit.context.cookies()}
    assert cookies[SESSION_COOKIE] == visit.session


@pytest.mark.parametrize("host", [EVIL, "127.0.0.1"], ids=["another site", "another port of this host"])
async def test_a_page_of_another_origin_shows_no_page_of_ours_in_a_frame(
    everything: Served, visit: Visit, site: int, host: str
) -> None:
    page = await visit.goes_to(f"http://{host}:{site}/")
    for path in ("/overview", "/signin", "/docs", "/logs/live?pod=a"):
        async with page.expect_console_message(lambda message: "frame" in message.text.lower()):
            await page.evaluate(FRAME, everything.url + path)


async def test_the_console_works_within_its_policy_and_asks_nobody_else(everything: Served, visit: Visit) -> None:
    said: list[str] = []
    asked: list[str] = []
    page = await visit.context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{everything.url}/operations")
    await expect(page.get_by_text("operator-1").first).to_be_visible(timeout=PATIENCE_MS)
    assert [each for each in said if "Content Security Policy" in each] == []
    assert [each for each in asked if not each.startswith((everything.url, "data:", "blob:"))] == []


async def test_signing_out_takes_a_click_on_a_page_of_the_console(everything: Served, visit: Visit) -> None:
    await visit.console.get_by_role("link", name="Sign out").first.click()
    await expect(visit.console.get_by_label("Token")).to_be_visible(timeout=PATIENCE_MS)
    async with everything.http(Authorization=f"Bearer {visit.session}") as http:
        assert (await http.get("/api/v1/me")).status_code == 401
