"""What a browser reads by itself through the console: logs while they are written, and files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from temporalio.worker import Worker

from activities.interceptor import ActivityInterceptor
from activities.logs import follow as following
from activities.logs.follow import LogFollowing
from activities.logs.read import LogReading
from activities.settings import Settings as ActivitySettings
from client.events import events
from contracts import queues
from contracts.access import SESSION_COOKIE
from contracts.names import LABEL_TRAINING
from tests.activities.kubelet import FakeClients, Kubelet
from tests.ui.conftest import PATIENCE, Console, texts
from tests.ui.serving_page import PLANE
from ui import log_routes


@dataclass
class Place:
    """A cluster whose pods are those of ``kubelet``, and a browser with a session."""

    console: Console
    kubelet: Kubelet
    tag: str
    browser: TestClient


def browser_of(console: Console) -> TestClient:
    found = TestClient(Starlette(routes=log_routes.ROUTES), base_url=console.gateway.url)
    if console.token is not None:
        found.cookies.set(SESSION_COOKIE, console.token)
    return found


@pytest.fixture
def place(console: Console, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(following, "ENDED_SECONDS", 1.0)
    telling = timedelta(milliseconds=100)
    kubelet = Kubelet()
    with kubelet.served() as url:
        clients = cast(Any, FakeClients(url))

        async def worker() -> Worker:
            reading = LogReading(cast(Any, None), clients)
            follower = LogFollowing(clients, ActivitySettings(poll_seconds=0.2))
            return Worker(
                console.temporal,
                task_queue=queues.WAIT,
                activities=[reading.read, follower.follow],
                interceptors=[ActivityInterceptor(console.temporal)],
                max_heartbeat_throttle_interval=telling,
                default_heartbeat_throttle_interval=telling,
                graceful_shutdown_timeout=timedelta(seconds=5),
            )

        running = console.wait(worker())
        console.wait(running.__aenter__())
        try:
            yield Place(console, kubelet, console.cluster(control_plane=PLANE), browser_of(console))
        finally:
            console.wait(asyncio.wait_for(running.__aexit__(None, None, None), PATIENCE))


def heard(place: Place, last: str | None = None, **query: str) -> tuple[list[str], list[str], str | None]:
    """Texts of all lines until the log has ended, names of the events, and the last event's id."""
    lines: list[str] = []
    names: list[str] = []
    headers = {"Last-Event-ID": last} if last else {}
    with place.browser.stream("GET", log_routes.STREAM, params={"tag": place.tag, **query}, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        for event in events(answer.iter_lines()):
            names.append(event.name)
            last = event.id or last
            if event.name == "lines":
                lines += [line["text"] for line in json.loads(event.data)["lines"]]
    return lines, names, last


def test_a_log_is_handed_on_to_its_end_and_resumed_behind_what_was_seen(place: Place) -> None:
    place.kubelet.pod("qwen-0", labels={LABEL_TRAINING: "qwen"})
    place.kubelet.write("qwen-0", "INFO one", "ERROR two")
    place.kubelet.finish("qwen-0")
    place.kubelet.end_owner()

    lines, names, last = heard(place, name="qwen", namespace="default")
    assert lines == ["INFO one", "ERROR two"]
    assert names[-1] == "end"
    assert heard(place, last, name="qwen", namespace="default")[0] == []
    assert heard(place, name="qwen", namespace="default", level="error")[0] == ["ERROR two"]


def test_a_log_is_downloaded_as_a_file(place: Place) -> None:
    place.kubelet.pod("solo")
    place.kubelet.write("solo", "<b>one</b>", "two")
    query = {"tag": place.tag, "namespace": "default", "pod": "solo", "timestamps": "false"}
    answer = place.browser.get(log_routes.DOWNLOAD, params=query)
    assert answer.text == "<b>one</b>\ntwo\n"
    assert answer.headers["content-disposition"] == 'attachment; filename="solo.log"'
    assert answer.headers["content-type"].startswith("text/plain")


def test_pages_of_a_log_are_read_one_after_the_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.logs._LINES", 2)
    place.kubelet.pod("solo")
    place.kubelet.write("solo", "one", "two", "three")
    page = place.console.page("pod", cluster=place.tag, namespace="default", pod="solo").run()
    (frame,) = page.get("iframe")
    assert f"/logs/live?tag={place.tag}&namespace=default&pod=solo" in frame.proto.src

    key = f"log/{place.tag}/default/solo"
    page.segmented_control(f"{key}/how").set_value("From its beginning").run()
    assert not page.exception
    assert [line.split(" ", 1)[1] for line in page.code[0].value.splitlines()] == ["one", "two"]
    page.button(f"{key}/pages/next").click().run()
    assert [line.split(" ", 1)[1] for line in page.code[0].value.splitlines()] == ["three"]
    page.text_input(f"{key}/search").set_value("nothing of the kind").run()
    assert "No line is like that" in texts(page)


def test_what_the_gateway_refuses_is_a_problem_here_too(place: Place) -> None:
    query = {"tag": place.tag, "namespace": "default", "pod": "nobody"}
    answer = place.browser.get(log_routes.STREAM, params=query)
    assert answer.status_code == 404
    assert "nobody" in answer.json()["detail"]
    unnamed = place.browser.get(log_routes.STREAM, params={"tag": place.tag})
    assert unnamed.status_code == 422


def test_without_a_session_nothing_is_handed_on(console: Console) -> None:
    tag = console.cluster(control_plane=PLANE)
    console.role = "nobody"
    for path in (log_routes.STREAM, log_routes.DOWNLOAD, log_routes.RUNS):
        query = {"tag": tag, "namespace": "default", "pod": "solo", "tracking_server": "research"}
        assert browser_of(console).get(path, params=query).status_code == 401


def test_another_sites_page_is_handed_nothing(console: Console) -> None:
    for site in ("cross-site", "same-site"):
        answer = browser_of(console).get(log_routes.RUNS, headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403


def test_runs_are_handed_on_as_csv(console: Console) -> None:
    tag = console.cluster(control_plane=PLANE)
    answer = browser_of(console).get(log_routes.RUNS, params={"tag": tag, "tracking_server": "research"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines()[0].startswith("run_id,")
    assert len(answer.text.splitlines()) == 8


def test_the_page_of_a_log_runs_its_own_script_alone_and_says_nothing_as_html(console: Console) -> None:
    answer = browser_of(console).get(log_routes.LIVE, params={"pod": "<script>alert(1)</script>"})
    assert "<script>alert(1)" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert f'<script nonce="{nonce}">' in answer.text
    assert "innerHTML" not in answer.text


def test_a_gateway_that_does_not_answer_is_said_to(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(self: httpx.AsyncClient, *arguments: Any, **options: Any) -> httpx.Response:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx.AsyncClient, "send", refused)
    answer = browser_of(console).get(log_routes.RUNS, params={"tag": "demo", "tracking_server": "research"})
    assert answer.status_code == 503
    assert "cannot be reached" in answer.json()["detail"]
