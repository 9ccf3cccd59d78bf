"""Logs through the gateway: pages, live streams and downloads, with the real workflows and activities on a Kubernetes
API that does what tests say."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from activities.interceptor import ActivityInterceptor
from activities.logs import follow as following
from activities.logs.follow import LogFollowing
from activities.logs.read import LogReading
from activities.settings import Settings as ActivitySettings
from api import log_feed
from contracts import queues
from contracts.log_lines import Position, Positions, StreamKey
from contracts.logs import Watching
from contracts.names import LABEL_TRAINING
from tests.activities.kubelet import FakeClients, Kubelet
from tests.api.conftest import Gateway, MakeCluster, running_gateway
from workflows import logs as log_workflows

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
RUN = {LABEL_TRAINING: "qwen"}


@pytest.fixture
def kubelet() -> Iterator[tuple[Kubelet, str]]:
    there = Kubelet()
    with there.served() as url:
        yield there, url


@dataclass
class Place:
    """A cluster whose pods are those of ``kubelet``."""

    kubelet: Kubelet
    tag: str

    @property
    def pod(self) -> str:
        return f"/api/v1/clusters/{self.tag}/pods/default/solo/logs"

    @property
    def run(self) -> str:
        return f"/api/v1/clusters/{self.tag}/training-runs/qwen/logs"


@pytest_asyncio.fixture(loop_scope="session")
async def place(
    temporal: Client, kubelet: tuple[Kubelet, str], make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    there, url = kubelet
    monkeypatch.setattr(following, "ENDED_SECONDS", 1.0)
    clients = cast(Any, FakeClients(url))
    reading, follower = LogReading(cast(Any, None), clients), LogFollowing(clients, ActivitySettings(poll_seconds=0.2))
    telling = timedelta(milliseconds=100)
    async with Worker(
        temporal,
        task_queue=queues.WAIT,
        activities=[reading.read, follower.follow],
        interceptors=[ActivityInterceptor(temporal)],
        max_heartbeat_throttle_interval=telling,
        default_heartbeat_throttle_interval=telling,
        graceful_shutdown_timeout=timedelta(seconds=5),
    ):
        yield Place(there, await make_cluster(control_plane=CONTROL_PLANE))


class Stream:
    """What a watcher has got."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.events: list[tuple[str, Any]] = []
        self.last_id: str | None = None
        self.ids: list[tuple[str, int]] = []
        """Each with how many lines had come by its event."""

    @property
    def texts(self) -> list[str]:
        return [line["text"] for line in self.lines]

    async def read(self, response: httpx.Response) -> None:
        event, data = "", ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
            elif line.startswith("id: "):
                self.last_id = line[4:]
            elif not line and event:
                document = json.loads(data)
                self.events.append((event, document))
                if event == "lines":
                    self.lines += document["lines"]
                if self.last_id is not None:
                    self.ids.append((self.last_id, len(self.lines)))
                event = ""


@asynccontextmanager
async def watching(
    caller: httpx.AsyncClient, path: str, since: Stream | None = None, **query: Any
) -> AsyncIterator[Stream]:
    stream = since or Stream()
    headers = {"Last-Event-ID": stream.last_id} if stream.last_id else {}
    async with caller.stream("GET", f"{path}/stream", params=query, headers=headers, timeout=60) as response:
        assert response.status_code == 200, await response.aread()
        reading = asyncio.create_task(stream.read(response))
        try:
            yield stream
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def settled(stream: Stream, count: int, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while len(stream.lines) < count:
            await asyncio.sleep(0.02)


async def heard(stream: Stream, event: str) -> Any:
    async with asyncio.timeout(30):
        while not (found := [document for name, document in stream.events if name == event]):
            await asyncio.sleep(0.02)
    return found[-1]


async def test_pages_of_a_pods_log_lead_through_it_and_searches_narrow_them(gateway: Gateway, place: Place) -> None:
    place.kubelet.pod("solo")
    place.kubelet.write("solo", *(f"INFO line {number}" for number in range(25)), "ERROR NCCL timeout")
    found: list[str] = []
    cursor = None
    while True:
        query = {"limit": 10, **({"cursor": cursor} if cursor else {})}
        page = (await gateway.viewer.get(place.pod, params=query)).json()
        found += [line["text"] for line in page["lines"]]
        cursor = page["cursor"]
        if page["end"]:
            break
    assert found == [*(f"INFO line {number}" for number in range(25)), "ERROR NCCL timeout"]
    page = (await gateway.viewer.get(place.pod, params={"search": r"line 1\d$", "regex": "true"})).json()
    assert len(page["lines"]) == 10
    page = (await gateway.viewer.get(place.pod, params={"level": "error"})).json()
    assert [(line["text"], line["level"]) for line in page["lines"]] == [("ERROR NCCL timeout", "error")]
    page = (await gateway.viewer.get(place.pod, params={"tail": 1})).json()
    assert [line["text"] for line in page["lines"]] == ["ERROR NCCL timeout"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"search": "(a)\\1", "regex": "true"}, "/search"),
        ({"search": "(", "regex": "true"}, "/search"),
        ({"search": "(?:){4000000000}", "regex": "true"}, "/search"),
        ({"search": "loss\0"}, "/search"),
        ({"search": "\x1b\\[31m", "regex": "true"}, "/search"),
        ({"search": "one\ntwo"}, "/search"),
        ({"cursor": "nonsense"}, "/cursor"),
        ({"cursor": Positions({StreamKey("solo", "c", "u"): Position(0, 10**30, 0)}).sealed()}, "/cursor"),
        ({"level": "loud"}, "/level"),
        ({"tail": "-1"}, "/tail"),
        ({"limit": "100000"}, "/limit"),
    ],
)
async def test_what_cannot_be_looked_for_is_refused_at_its_field(
    gateway: Gateway, place: Place, query: dict[str, str], field: str
) -> None:
    answer = await gateway.viewer.get(place.pod, params=query)
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == [field]


async def test_a_log_that_is_not_there_is_a_problem_before_anything_streams(gateway: Gateway, place: Place) -> None:
    for ending in ("", "/stream", "/download"):
        answer = await gateway.viewer.get(place.pod + ending)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        answer = await gateway.viewer.get(place.run + ending)
        assert answer.status_code == 404
    place.kubelet.pod("solo")
    answer = await gateway.viewer.get(place.pod, params={"container": "other"})
    assert answer.status_code == 404
    assert "pytorch" in answer.json()["remedy"]


async def test_an_execution_that_never_was_is_not_one_without_lines(
    gateway: Gateway, temporal: Client, place: Place
) -> None:
    operation = f"run-training/{place.tag}/qwen"
    begun = await temporal.start_workflow("run-training", id=operation, task_queue="nobody")
    try:
        for query in ({}, {"run": begun.first_execution_run_id}):
            answer = await gateway.viewer.get(place.run, params=query)
            assert (answer.status_code, answer.json()["lines"]) == (200, [])
        for run in ("nope", str(uuid.uuid4())):
            answer = await gateway.viewer.get(place.run, params={"run": run})
            assert (answer.status_code, answer.json()["field"]) == (404, "/run")
            assert str(begun.first_execution_run_id) in answer.json()["remedy"]
    finally:
        await begun.terminate()


async def test_a_pod_of_a_run_is_looked_for_also_while_others_watch_the_run(gateway: Gateway, place: Place) -> None:
    for number in range(2):
        place.kubelet.pod(f"qwen-pods-{number}", RUN)
        place.kubelet.write(f"qwen-pods-{number}", *(f"{number}: {line}" for line in range(3)))
    async with watching(gateway.viewer, place.run) as whole:
        await settled(whole, 6)
        place.kubelet.write("qwen-pods-1", *(f"1: {line}" for line in range(3, 60)))
        await settled(whole, 63)
        async with watching(gateway.viewer, place.run, pod="qwen-pods-0", tail=2) as first:
            await settled(first, 2)
        assert first.texts == ["0: 1", "0: 2"]
        answer = await gateway.viewer.get(f"{place.run}/stream", params={"pod": "qwen-pods-7"})
    assert (answer.status_code, answer.json()["field"]) == (404, "/pod")


async def test_a_stream_begins_with_the_newest_lines_and_goes_on_live_to_the_pods_end(
    gateway: Gateway, place: Place
) -> None:
    pod = place.kubelet.pod("solo")
    place.kubelet.write("solo", "old", "new")
    async with watching(gateway.viewer, place.pod, tail=1) as stream:
        await settled(stream, 1)
        assert stream.texts == ["new"]
        place.kubelet.write("solo", "live")
        await settled(stream, 2)
        place.kubelet.start("solo")
        place.kubelet.write("solo", "after a restart")
        await settled(stream, 3)
        assert [(line["text"], line["restart"]) for line in stream.lines] == [
            ("new", 0),
            ("live", 0),
            ("after a restart", 1),
        ]
        place.kubelet.finish("solo")
        assert (await heard(stream, "end"))["reason"] == "ended"
        assert place.kubelet.printed(pod)[1:] == stream.texts


async def test_a_watcher_that_comes_back_misses_nothing_and_sees_nothing_twice(gateway: Gateway, place: Place) -> None:
    place.kubelet.pod("solo")
    place.kubelet.step = 3
    stream = Stream()
    written = 0
    for round in range(4):
        async with watching(gateway.viewer, place.pod, stream, tail=0):
            place.kubelet.write("solo", *(f"line {written + number}" for number in range(300)))
            written += 300
            await settled(stream, written - 100 if round % 2 else written)
        place.kubelet.write("solo", f"line {written}")
        written += 1
    async with watching(gateway.viewer, place.pod, stream):
        await settled(stream, written)
    assert stream.texts == [f"line {number}" for number in range(written)]


async def test_every_event_says_where_to_go_on_behind_its_own_lines(gateway: Gateway, place: Place) -> None:
    for name in ("qwen-pods-0", "qwen-pods-1"):
        place.kubelet.pod(name, RUN)
    for number in range(700):
        place.kubelet.write(f"qwen-pods-{number % 2}", f"line {number}")
    async with watching(gateway.viewer, place.run, tail=1100) as stream:
        await settled(stream, 700)
        place.kubelet.write("qwen-pods-0", *(f"line {number}" for number in range(700, 1900)))
        await settled(stream, 1900)
        ids = [(each, lines) for each, lines in stream.ids if lines < 1900]
    assert stream.texts == [f"line {number}" for number in range(1900)]
    assert {lines for _, lines in ids} > {0, 500, 700}
    for last_id, lines in ids[-3:] + ids[:3]:
        again = Stream()
        again.last_id = last_id
        async with watching(gateway.viewer, place.run, again):
            await settled(again, 1900 - lines)
        assert again.texts == stream.texts[lines:]


async def test_a_watcher_that_says_it_has_seen_the_future_blinds_nobody_else(gateway: Gateway, place: Place) -> None:
    pod = place.kubelet.pod("solo")
    place.kubelet.write("solo", "first")
    forged = Stream()
    future = Positions({StreamKey("solo", "pytorch", pod.uid): Position(7, 4_102_444_800_000_000_000, 0)})
    forged.last_id = future.sealed()
    async with watching(gateway.operator, place.pod, forged):
        await heard(forged, "pods")
        async with watching(gateway.viewer, place.pod) as stream:
            await settled(stream, 1)
            place.kubelet.write("solo", *(f"line {number}" for number in range(1200)))
            await settled(stream, 1201)
    assert stream.texts == ["first", *(f"line {number}" for number in range(1200))]
    assert [name for name, _ in stream.events if name == "gap"] == []


async def test_fifty_watchers_at_two_gateways_are_served_by_one_reader(
    gateway: Gateway, temporal: Client, place: Place, tmp_path: Path
) -> None:
    place.kubelet.pod("solo")
    place.kubelet.write("solo", "first")
    async with running_gateway(tmp_path, temporal) as other:
        streams: list[Stream] = []
        async with asyncio.TaskGroup() as group, asyncio.timeout(60):
            done = asyncio.Event()

            async def watch(at: Gateway) -> None:
                async with watching(at.viewer, place.pod) as stream:
                    streams.append(stream)
                    await done.wait()

            for number in range(50):
                group.create_task(watch(other if number % 2 else gateway))
            while len(streams) < 50 or not all(stream.lines for stream in streams):
                await asyncio.sleep(0.05)
            place.kubelet.write("solo", *(f"line {number}" for number in range(500)))
            for stream in streams:
                await settled(stream, 501)
            done.set()
        expected = ["first", *(f"line {number}" for number in range(500))]
        assert all(stream.texts == expected for stream in streams)
    readers = [
        each.id async for each in temporal.list_workflows("WorkflowType = 'follow-logs'") if place.tag in each.id
    ]
    assert readers == [f"log/{place.tag}/default/solo/"]


async def test_a_slow_watcher_holds_up_nobody_and_gets_everything_in_the_end(
    gateway: Gateway, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_feed, "KEPT_CHARACTERS", 200_000)
    place.kubelet.pod("solo")
    filler = "x" * 900
    async with gateway.viewer.stream("GET", f"{place.pod}/stream", params={"tail": 0}, timeout=60) as slow:
        async with watching(gateway.operator, place.pod, tail=0) as quick:
            await heard(quick, "pods")
            for part in range(8):
                place.kubelet.write("solo", *(f"{part}.{number} {filler}" for number in range(500)))
                await settled(quick, (part + 1) * 500)
        late = Stream()
        reading = asyncio.create_task(late.read(slow))
        await settled(late, 4_000, 60)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert late.texts == quick.texts
    assert [name for name, _ in late.events if name == "gap"] == []


async def test_a_runs_pods_are_one_stream_and_a_rank_is_picked_from_it(gateway: Gateway, place: Place) -> None:
    for number in range(8):
        place.kubelet.pod(f"qwen-pods-{number}", RUN)
        place.kubelet.write(f"qwen-pods-{number}", f"begin {number}")
    async with (
        watching(gateway.viewer, place.run) as whole,
        watching(gateway.viewer, place.run, rank=3) as third,
        watching(gateway.viewer, place.run, search="STEP 1 ") as some,
    ):
        await settled(whole, 8)
        assert whole.texts == [f"begin {number}" for number in range(8)]
        await heard(third, "pods")
        await heard(some, "pods")
        for step in range(3):
            for number in range(8):
                place.kubelet.write(f"qwen-pods-{number}", f"step {step} of {number}")
        await settled(whole, 32)
        await settled(third, 4)
        await settled(some, 8)
        place.kubelet.pod("qwen-pods-8", RUN)
        place.kubelet.write("qwen-pods-8", "a spare")
        await settled(whole, 33)
        for number in range(9):
            place.kubelet.finish(f"qwen-pods-{number}")
        place.kubelet.end_owner()
        assert (await heard(whole, "end"))["reason"] == "ended"
    assert third.texts == ["begin 3", "step 0 of 3", "step 1 of 3", "step 2 of 3"]
    assert {line["rank"] for line in third.lines} == {3}
    assert some.texts == [f"step 1 of {number}" for number in range(8)]
    assert sorted(whole.texts[8:]) == sorted([*(f"step {s} of {n}" for s in range(3) for n in range(8)), "a spare"])


async def test_a_download_is_the_whole_log_as_text(gateway: Gateway, place: Place) -> None:
    pod = place.kubelet.pod("solo")
    place.kubelet.write("solo", *(f"line {number}" for number in range(12_000)))
    answer = await gateway.viewer.get(f"{place.pod}/download", params={"timestamps": "false"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-disposition"] == 'attachment; filename="solo.log"'
    assert answer.text.splitlines() == place.kubelet.printed(pod)


async def test_nothing_of_a_log_is_in_any_history(gateway: Gateway, temporal: Client, place: Place) -> None:
    place.kubelet.pod("solo")
    chance = random.Random(1)
    noise = [chance.randbytes(100).hex() for _ in range(400)]  # does not compress to less than 40 KB
    place.kubelet.write("solo", *noise[:200])
    async with watching(gateway.viewer, place.pod, tail=1000) as stream:
        await settled(stream, 200)
        place.kubelet.write("solo", *noise[200:])
        await settled(stream, 400)
        place.kubelet.finish("solo")
        await heard(stream, "end")
    await gateway.viewer.get(place.pod)
    histories = 0
    async for found in temporal.list_workflows("WorkflowType = 'read-logs' OR WorkflowType = 'follow-logs'"):
        if place.tag not in found.id:
            continue
        handle = temporal.get_workflow_handle(found.id, run_id=found.run_id)
        await handle.result()
        history = await handle.fetch_history()
        histories += 1
        assert sum(event.ByteSize() for event in history.events) < 8_000
        assert "heartbeatDetails" not in history.to_json()
        described = await handle.describe()
        assert not described.raw_description.pending_activities
    assert histories >= 3


async def test_a_reader_that_nobody_watches_any_more_ends(
    gateway: Gateway, temporal: Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_workflows, "WATCHING", Watching(patience=1.0))
    place.kubelet.pod("solo")
    place.kubelet.write("solo", "line")
    async with watching(gateway.viewer, place.pod) as stream:
        await settled(stream, 1)
        async with asyncio.timeout(30):
            while place.kubelet.readers != 1:
                await asyncio.sleep(0.05)
    async with asyncio.timeout(60):
        while place.kubelet.readers:
            await asyncio.sleep(0.05)
    handle = temporal.get_workflow_handle(f"log/{place.tag}/default/solo/")
    assert (await handle.result())["reason"] == "left"


async def test_who_watches_a_pod_that_was_made_anew_sees_nothing_of_the_one_before(
    gateway: Gateway, place: Place
) -> None:
    place.kubelet.pod("solo")
    async with watching(gateway.viewer, place.pod) as first:
        place.kubelet.write("solo", *(f"old {number}" for number in range(50)))
        await settled(first, 50)
        place.kubelet.delete("solo")
        assert (await heard(first, "end"))["reason"] == "gone"
    place.kubelet.pod("solo")
    async with watching(gateway.viewer, place.pod) as second:
        place.kubelet.write("solo", "new")
        await settled(second, 1)
        assert second.texts == ["new"]
        place.kubelet.finish("solo")
        assert (await heard(second, "end"))["reason"] == "ended"
    assert second.texts == ["new"]
