from __future__ import annotations

import asyncio
import gzip
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.errors import problem_of
from activities.logs import follow as following
from activities.logs import keep as keeping
from activities.logs import read as reading
from activities.logs.chunks import Chunks
from activities.logs.follow import LogFollowing
from activities.logs.keep import LogKeeping
from activities.logs.parts import merged
from activities.logs.read import LogReading
from activities.registry import Activities
from contracts.log_lines import Line, Positions, stamp, unpack
from contracts.logs import (
    FollowLogs,
    KeepLogs,
    KeptPlace,
    LogSearch,
    LogsKept,
    LogSource,
    OwnerRef,
    PageTold,
    ReadLogs,
    WindowTold,
)
from contracts.network import Scope
from contracts.problem import ProblemCode
from tests.activities.conftest import REGION, Runner, Sandbox, settings
from tests.activities.kubelet import CONTAINER, FakeClients, Kubelet
from tests.activities.world import until

OWNER = OwnerRef(api_version="sagemaker.amazonaws.com/v1", plural="hyperpodpytorchjobs", name="a")


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


class Desk:
    """The activities of logs on a fake cluster, with a bucket of the sandbox."""

    def __init__(self, kubelet: Kubelet, url: str, activities: Activities, run: Runner) -> None:
        clients: Any = FakeClients(url)
        self.kubelet, self._runner, self._activities = kubelet, run, activities
        self.bucket = f"logs-{run.operation.partition('/')[2]}"
        activities.aws.act.s3(REGION).create_bucket(
            Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        self.keeper = LogKeeping(activities.aws, clients, settings())
        self.reader = LogReading(activities.aws, clients)
        self.follower = LogFollowing(clients, settings())
        self.scope = Scope(cluster="t", region=REGION, created_by="tests", request_id="r")

    @property
    def request(self) -> KeepLogs:
        return KeepLogs(
            scope=self.scope,
            eks_cluster="t",
            namespace="default",
            selector={"run": "a"},
            owner=OWNER,
            prefix="training/default/a/run-1",
            bucket=self.bucket,
        )

    def source(self, **more: Any) -> LogSource:
        given: dict[str, Any] = {"cluster": "t", "region": REGION, "eks_cluster": "t", "namespace": "default", **more}
        return LogSource.model_validate(given)

    def run_source(self, **more: Any) -> LogSource:
        kept = KeptPlace(bucket=self.bucket, prefix="training/default/a")
        return self.source(selector={"run": "a"}, kept=kept, owners=[OWNER], **more)

    def page(self, request: ReadLogs) -> tuple[list[Line], PageTold]:
        told, _ = asyncio.run(self._runner.environment().run(self.reader.page, request))
        return unpack(told.lines), told

    def pages(self, source: LogSource, **more: Any) -> list[Line]:
        found: list[Line] = []
        position = None
        while True:
            lines, told = self.page(ReadLogs(source=source, position=position, **more))
            found += lines
            position = told.position
            if told.end:
                return found

    def keep(self) -> LogsKept:
        return asyncio.run(self._runner.environment().run(self.keeper.keep, self.request))

    def kept(self) -> dict[str, list[str]]:
        """What is in the bucket, by pod: read as anybody would, with gzip."""
        s3 = self._activities.aws.read.s3(REGION)
        found: dict[str, list[str]] = {}
        listed = [each["Key"] for each in s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]
        for key in sorted(each for each in listed if each.endswith(".log.gz")):
            body = gzip.decompress(s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()).decode()
            pod = key.split("/logs/")[1].split("/")[0]
            found.setdefault(pod, []).extend(line.partition(" ")[2] for line in body.splitlines())
        return found


@pytest.fixture
def desk(kubelet: Kubelet, activities: Activities, run: Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(following, "ENDED_SECONDS", 0.1)
    with kubelet.served() as url:
        yield Desk(kubelet, url, activities, run)


STOPPED: list[asyncio.AbstractEventLoop] = []
"""Loops that nobody runs any more: what stands in them is never to go on, not even to be cleared away."""


def stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    STOPPED.append(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


class Killed:
    """The keeper in a thread of its own, killed when a test says so: without a last word, as by SIGKILL."""

    def __init__(self, desk: Desk, runner: Runner) -> None:
        self._desk, self._runner = desk, runner
        self.result: LogsKept | None = None
        self.error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.result = self._loop.run_until_complete(
                self._runner.environment().run(self._desk.keeper.keep, self._desk.request)
            )
        except RuntimeError:
            pass  # its loop was stopped under it
        except BaseException as error:
            self.error = error

    def kill(self) -> None:
        stop(self._loop, self._thread)
        self._desk.kubelet.cut()  # its connections

    def wait(self) -> LogsKept:
        self._thread.join(60)
        assert self.error is None, self.error
        assert self.result is not None
        return self.result


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


# Keeping


def test_every_line_of_100_pods_is_kept_once_and_the_index_says_so(desk: Desk, activities: Activities) -> None:
    kubelet = desk.kubelet
    pods = [kubelet.pod(f"a-pods-{number}") for number in range(100)]
    keeper = Killed(desk, desk._runner)
    for step in range(20):
        for pod in pods:
            kubelet.write(pod.name, f"step {step} of {pod.name}")
    for pod in pods:
        kubelet.finish(pod.name)
    kubelet.end_owner()
    kept = keeper.wait()
    assert (kept.pods, kept.lines, kept.gaps) == (100, 2000, 0)
    assert desk.kept() == {pod.name: kubelet.printed(pod) for pod in pods}
    index = Chunks(activities.aws, REGION, desk.bucket, desk.request.prefix).index()
    assert index["complete"] is True
    assert [row["rank"] for row in index["streams"]] == list(range(100))
    assert all(row["ended"] and row["lines"] == 20 for row in index["streams"])
    assert sum(row["size"] for row in index["streams"]) == kept.size > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_keeper_killed_at_any_moment_keeps_every_line_exactly_once(
    desk: Desk, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, kubelet = random.Random(seed), desk.kubelet
    monkeypatch.setattr(keeping, "UNWRITTEN_SECONDS", (0.05, 0.05))
    kubelet.step = chance.choice((1, 1000, 7_000_001, 900_000_000))
    pods = [kubelet.pod(f"a-pods-{number}") for number in range(3)]
    keeper = Killed(desk, desk._runner)
    done = 0
    for _ in range(6):
        for _ in range(chance.randrange(1, 40)):
            kubelet.write(chance.choice(pods).name, *(f"line {done + n}" for n in range(chance.randrange(1, 30))))
            done += 30
        match chance.randrange(4):
            case 0:
                keeper.kill()
                keeper = Killed(desk, desk._runner)
            case 1:
                kubelet.cut()
            case 2:
                pod = chance.choice(pods)
                until(lambda pod=pod: len(desk.kept().get(pod.name, [])) == len(kubelet.printed(pod)))
                kubelet.start(pod.name)
    for pod in pods:
        kubelet.finish(pod.name)
    kubelet.end_owner()
    kept = keeper.wait()
    assert desk.kept() == {pod.name: kubelet.printed(pod) for pod in pods if kubelet.printed(pod)}
    assert kept.lines == sum(len(kubelet.printed(pod)) for pod in pods)
    assert kept.gaps == 0


def test_the_last_lines_of_pods_that_vanish_with_their_job_are_kept(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    keeper = Killed(desk, desk._runner)
    kubelet.write(pod.name, "first")
    until(lambda: kubelet.readers == 1)
    kubelet.write(pod.name, *(f"line {n}" for n in range(500)))
    kubelet.write(pod.name, "last, without a newline", end=b"")
    kubelet.owner = None
    kubelet.delete(pod.name)
    kept = keeper.wait()
    assert desk.kept() == {pod.name: kubelet.printed(pod)}
    assert kept.gaps == 0


@pytest.mark.parametrize("again", [True, False])
def test_a_pod_that_vanishes_as_its_log_is_opened_is_read_to_its_end_or_its_loss_is_told(
    desk: Desk, again: bool
) -> None:
    """Whether an open log is that of a pod or of the one that was made anew under its name is not known any more."""
    kubelet = desk.kubelet
    first = kubelet.pod("a-pods-0")
    kubelet.write(first.name, "one", "two")
    kubelet.vanishing = {first.name}
    kubelet.anew = again
    kubelet.end_owner()
    kept = desk.keep()
    assert (desk.kept(), kept.gaps) == ({}, 1) if again else ({first.name: ["one", "two"]}, 0)


def test_a_pod_that_is_made_anew_under_its_name_is_kept_behind_the_first(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "UNWRITTEN_SECONDS", (0.05, 0.05))
    kubelet = desk.kubelet
    first = kubelet.pod("a-pods-0")
    keeper = Killed(desk, desk._runner)
    kubelet.write(first.name, "one", "two")
    until(lambda: desk.kept() == {first.name: ["one", "two"]})
    kubelet.delete(first.name)
    second = kubelet.pod("a-pods-0")
    kubelet.write(second.name, "three")
    kubelet.finish(second.name)
    kubelet.end_owner()
    kept = keeper.wait()
    assert desk.kept() == {"a-pods-0": ["one", "two", "three"]}
    assert kept.pods == 2


def gaps_met(desk: Desk) -> list[tuple[str | None, list[str]]]:
    """Who goes through what was kept a line at a time: after which time something is missing, and what was read when
    that was told."""
    found: list[tuple[str | None, list[str]]] = []
    read: list[Line] = []
    position = None
    while True:
        lines, told = desk.page(ReadLogs(source=desk.run_source(), position=position, lines=1))
        read, position = read + lines, told.position
        found += [(gap.after, texts(read)) for gap in told.gaps]
        if told.end:
            return found


def test_a_pod_that_vanished_while_nobody_kept_its_log_is_counted_as_a_gap(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "UNWRITTEN_SECONDS", (0.05, 0.05))
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    keeper = Killed(desk, desk._runner)
    kubelet.write(pod.name, "kept")
    until(lambda: desk.kept() == {pod.name: ["kept"]})
    keeper.kill()
    kubelet.write(pod.name, "lost")
    kubelet.delete(pod.name)
    kubelet.end_owner()
    kept = desk.keep()
    assert (kept.lines, kept.gaps) == (1, 1)
    assert gaps_met(desk) == [(stamp(desk.pages(desk.run_source())[0].position.at), ["kept"])]


def test_a_log_that_its_node_rotated_away_meanwhile_is_counted_as_a_gap(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "UNWRITTEN_SECONDS", (0.05, 0.05))
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    keeper = Killed(desk, desk._runner)
    kubelet.write(pod.name, "kept")
    until(lambda: desk.kept() == {pod.name: ["kept"]})
    keeper.kill()
    kubelet.write(pod.name, "lost")
    kubelet.rotate(pod.name)
    kubelet.write(pod.name, "found")
    kubelet.finish(pod.name)
    kubelet.end_owner()
    kept = desk.keep()
    assert desk.kept() == {pod.name: ["kept", "found"]}
    assert kept.gaps == 1
    assert gaps_met(desk) == [(stamp(desk.pages(desk.run_source())[0].position.at), ["kept", "found"])]


def test_no_secret_that_a_program_prints_is_kept(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    kubelet.write(pod.name, "HF_TOKEN=hf_aaaaaaaaaaaaaaaaaaaaaa", "tokens/s: 5123")
    kubelet.finish(pod.name)
    kubelet.end_owner()
    desk.keep()
    assert desk.kept() == {pod.name: ["HF_TOKEN=[redacted]", "tokens/s: 5123"]}


# Reading


def test_pages_of_a_log_lead_through_all_of_it(desk: Desk) -> None:
    pod = desk.kubelet.pod("solo")
    desk.kubelet.step = 1
    desk.kubelet.write(pod.name, *(f"line {number}" for number in range(250)))
    found = desk.pages(desk.source(pod="solo"), lines=40)
    assert texts(found) == desk.kubelet.printed(pod)


def test_the_newest_lines_lead_on_to_what_comes_after_them(desk: Desk) -> None:
    pod = desk.kubelet.pod("solo")
    desk.kubelet.step = 0  # all lines have one time
    desk.kubelet.write(pod.name, *(f"line {number}" for number in range(100)))
    lines, told = desk.page(ReadLogs(source=desk.source(pod="solo"), tail=3))
    assert texts(lines) == ["line 97", "line 98", "line 99"]
    desk.kubelet.write(pod.name, "line 100")
    lines, _ = desk.page(ReadLogs(source=desk.source(pod="solo"), position=told.position))
    assert texts(lines) == ["line 100"]


def test_a_log_is_read_over_the_restart_of_its_container(desk: Desk) -> None:
    pod = desk.kubelet.pod("solo")
    desk.kubelet.write(pod.name, "before")
    desk.kubelet.start(pod.name)
    desk.kubelet.write(pod.name, "after")
    found = desk.pages(desk.source(pod="solo"))
    assert [(line.position.restart, line.text) for line in found] == [(0, "before"), (1, "after")]
    lines, _ = desk.page(ReadLogs(source=desk.source(pod="solo"), previous=True))
    assert texts(lines) == ["before"]


def test_logs_of_many_pods_are_one_in_the_order_of_their_times(desk: Desk) -> None:
    pods = [desk.kubelet.pod(f"a-pods-{number}") for number in range(20)]
    order = [random.Random(3).choice(pods).name for _ in range(300)]
    for number, name in enumerate(order):
        desk.kubelet.write(name, f"line {number}")
    found = desk.pages(desk.run_source(), lines=70)
    assert texts(found) == [f"line {number}" for number in range(300)]
    only = desk.pages(desk.run_source(), wanted=LogSearch(rank=7))
    assert {line.stream.pod for line in only} == {"a-pods-7"}


def test_a_running_log_is_read_from_what_is_kept_and_on_from_its_pod(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "UNWRITTEN_SECONDS", (0.05, 0.05))
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    keeper = Killed(desk, desk._runner)
    kubelet.write(pod.name, "one", "two")
    until(lambda: desk.kept() == {pod.name: ["one", "two"]})
    keeper.kill()
    kubelet.rotate(pod.name)
    kubelet.write(pod.name, "three")
    assert texts(desk.pages(desk.run_source(), lines=1)) == ["one", "two", "three"]


def test_the_logs_of_a_run_outlive_its_pods(desk: Desk) -> None:
    kubelet = desk.kubelet
    pods = [kubelet.pod(f"a-pods-{number}") for number in range(3)]
    for number in range(90):
        kubelet.write(pods[number % 3].name, f"line {number}")
    for pod in pods:
        kubelet.finish(pod.name)
    kubelet.end_owner()
    desk.keep()
    for pod in pods:
        kubelet.delete(pod.name)
    assert texts(desk.pages(desk.run_source(), lines=7)) == [f"line {number}" for number in range(90)]
    lines, told = desk.page(ReadLogs(source=desk.run_source(), tail=4))
    assert texts(lines) == ["line 86", "line 87", "line 88", "line 89"]
    assert [(each.rank, each.state) for each in told.streams] == [(0, "kept"), (1, "kept"), (2, "kept")]
    lines, _ = desk.page(ReadLogs(source=desk.run_source(pod="a-pods-1"), tail=1))
    assert texts(lines) == ["line 88"]


def test_lines_are_searched_where_they_are_read(desk: Desk) -> None:
    pod = desk.kubelet.pod("solo")
    desk.kubelet.write(pod.name, "INFO loss 1.5", "ERROR NCCL timeout", "WARNING slow", "nccl fine")
    source = desk.source(pod="solo")
    assert texts(desk.pages(source, wanted=LogSearch(search="nccl"))) == ["ERROR NCCL timeout", "nccl fine"]
    assert texts(desk.pages(source, wanted=LogSearch(search=r"loss \d", regex=True))) == ["INFO loss 1.5"]
    found = texts(desk.pages(source, wanted=LogSearch.model_validate({"level": "warning"})))
    assert found == ["ERROR NCCL timeout", "WARNING slow"]


@pytest.mark.parametrize(
    ("source", "rank", "field", "told"),
    [
        ({"pod": "a-pods-7"}, None, "/pod", "a-pods-0, a-pods-1"),
        ({"container": "sidecar"}, None, "/container", CONTAINER),
        ({}, 9, "/rank", "from 0 to 1"),
    ],
)
def test_who_asks_a_run_for_what_it_does_not_have_is_told_what_it_has(
    desk: Desk, source: dict[str, Any], rank: int | None, field: str, told: str
) -> None:
    asked = ReadLogs(source=desk.run_source(**source), wanted=LogSearch(rank=rank))
    desk.kubelet.owner = {"spec": {"replicaSpecs": [{"replicas": 2, "spares": 1}]}}
    assert desk.page(asked)[0] == []  # nothing of the run is there yet: all may still come
    for number in range(2):
        desk.kubelet.write(desk.kubelet.pod(f"a-pods-{number}").name, "line")
    with pytest.raises(ApplicationError) as refused:
        desk.page(asked)
    found = problem_of(refused.value)
    assert found is not None
    assert (found.code, found.field) == (ProblemCode.NOT_FOUND, field)
    assert told in (found.remedy or "")


def test_a_rank_that_may_still_come_has_no_lines_yet(desk: Desk) -> None:
    desk.kubelet.owner = {"spec": {"replicaSpecs": [{"replicas": 2, "maxReplicas": 4}]}}
    desk.kubelet.pod("a-pods-0")
    asked = ReadLogs(source=desk.run_source(), wanted=LogSearch(rank=3))
    assert desk.page(asked)[0] == []
    desk.kubelet.end_owner()
    with pytest.raises(ApplicationError, match="rank 3"):
        desk.page(asked)


def test_a_page_has_its_time_for_reading_however_long_the_logs_took_to_open(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    async def slowly(parts: list[Any]) -> AsyncIterator[Line]:
        clock[0] += 10 * reading.SCANNED_SECONDS
        async for line in merged(parts):
            yield line

    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(reading, "merged", slowly)
    desk.kubelet.write(desk.kubelet.pod("solo").name, *(f"line {number}" for number in range(50)))
    lines, told = desk.page(ReadLogs(source=desk.source(pod="solo")))
    assert (len(lines), told.end) == (50, True)


def test_a_page_fits_into_a_payload_whatever_the_lines_are(desk: Desk) -> None:
    chance = random.Random(5)
    pod = desk.kubelet.pod("solo")
    noise = [bytes(chance.randrange(33, 127) for _ in range(20_000)) for _ in range(60)]
    desk.kubelet.write(pod.name, *noise)
    lines, told = desk.page(ReadLogs(source=desk.source(pod="solo"), lines=5000))
    assert len(told.model_dump_json()) < 1_000_000
    assert not told.end
    assert 0 < len(lines) < 60
    assert len(desk.pages(desk.source(pod="solo"), lines=5000)) == 60


# Following


class Watcher:
    """The reader in a thread, and what its heartbeats brought, as a gateway takes it."""

    def __init__(self, desk: Desk, request: FollowLogs, told: WindowTold | None = None) -> None:
        self._environment = desk._runner.environment(
            heartbeat_details=[told.model_dump(mode="json")] if told is not None else []
        )
        self._environment.on_heartbeat = self._heard
        self.lines: list[Line] = []
        self.told: WindowTold | None = None
        self.error: BaseException | None = None
        self.reason = ""
        self._next = 0 if told is None else told.first + len(told.pieces)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, args=(desk.follower.follow, request), daemon=True)
        self._thread.start()

    def _heard(self, *details: Any) -> None:
        self.told = WindowTold.model_validate(details[0])
        assert self.told.first <= self._next, "pieces fell out that nobody saw"
        for number, piece in enumerate(self.told.pieces, self.told.first):
            if number >= self._next:
                self.lines += unpack(piece)
                self._next = number + 1

    def _work(self, follow: Callable[..., Any], request: FollowLogs) -> None:
        try:
            self.reason = self._loop.run_until_complete(self._environment.run(follow, request)).reason
        except RuntimeError:
            pass
        except BaseException as error:
            self.error = error

    def kill(self) -> None:
        stop(self._loop, self._thread)

    def wait(self) -> str:
        self._thread.join(60)
        assert self.error is None, self.error
        return self.reason


def test_a_followed_log_goes_on_over_cut_connections_and_restarts(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("solo")
    kubelet.write(pod.name, "old")
    _, told = desk.page(ReadLogs(source=desk.source(pod="solo"), tail=0))
    watcher = Watcher(desk, FollowLogs(source=desk.source(pod="solo"), position=told.position))
    for number in range(5):
        kubelet.write(pod.name, *(f"line {number}.{part}" for part in range(50)))
        until(lambda: len(watcher.lines) == len(kubelet.printed(pod)) - 1)
        kubelet.start(pod.name) if number % 2 else kubelet.cut()
    kubelet.write(pod.name, "last", end=b"")
    kubelet.finish(pod.name)
    assert watcher.wait() == "ended"
    assert texts(watcher.lines) == kubelet.printed(pod)[1:]
    assert watcher.told is not None
    assert watcher.told.ended == "ended"


def test_a_reader_that_another_worker_takes_over_goes_on_in_its_window(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("solo")
    request = FollowLogs(source=desk.source(pod="solo"), position=Positions().sealed())
    watcher = Watcher(desk, request)
    kubelet.write(pod.name, "one", "two")
    until(lambda: len(watcher.lines) == 2)
    watcher.kill()
    kubelet.cut()
    kubelet.write(pod.name, "three")
    assert watcher.told is not None
    second = Watcher(desk, request, watcher.told)
    until(lambda: texts(second.lines) == ["three"])
    assert second.told is not None
    assert second.told.reader == watcher.told.reader
    kubelet.delete(pod.name)
    assert second.wait() == "gone"


def test_a_pod_that_has_not_started_is_waited_for(desk: Desk) -> None:
    pod = desk.kubelet.pod("solo", state="waiting")
    watcher = Watcher(desk, FollowLogs(source=desk.source(pod="solo")))
    until(lambda: watcher.told is not None and [each.state for each in watcher.told.streams] == ["waiting"])
    desk.kubelet.start(pod.name)
    desk.kubelet.write(pod.name, "begun")
    until(lambda: texts(watcher.lines) == ["begun"])
    desk.kubelet.finish(pod.name)
    assert watcher.wait() == "ended"


def test_200_pods_are_followed_as_one_within_bounds(desk: Desk) -> None:
    kubelet = desk.kubelet
    kubelet.step = 1000
    names = [f"a-pods-{number}" for number in range(200)]
    for name in names:
        kubelet.pod(name)
    watcher = Watcher(desk, FollowLogs(source=desk.run_source(), position=Positions().sealed()))
    until(lambda: kubelet.readers == 200, 60)
    for step in range(10):
        for name in names:
            kubelet.write(name, f"step {step}")
    until(lambda: len(watcher.lines) == 2000, 60)
    for name in names:
        assert texts([line for line in watcher.lines if line.stream.pod == name]) == [f"step {n}" for n in range(10)]
    assert watcher.told is not None
    assert len(watcher.told.model_dump_json()) < 512 * 1024
    assert sorted(each.rank or 0 for each in watcher.told.streams) == list(range(200))
    for name in names:
        kubelet.finish(name)
    kubelet.end_owner()
    assert watcher.wait() == "ended"


def test_a_line_may_be_long_binary_or_a_progress_bar(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("solo")
    watcher = Watcher(desk, FollowLogs(source=desk.source(pod="solo"), position=Positions().sealed()))
    kubelet.write(pod.name, "x" * 1_000_000, b"\xff\xfe\x00binary", "\r 1%|#\r 50%|#####", "\x1b[31mred\x1b[0m")
    until(lambda: len(watcher.lines) == 4)
    long, binary, bar, red = texts(watcher.lines)
    assert len(long) < 40_000
    assert long.endswith("more characters cut]")
    assert binary == "��binary"
    assert bar == " 50%|#####"
    assert red == "red"
    kubelet.finish(pod.name)
    watcher.wait()


def test_one_container_is_asked_for_once_while_it_is_followed(desk: Desk, sandbox: Sandbox) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("solo")
    watcher = Watcher(desk, FollowLogs(source=desk.source(pod="solo", container=CONTAINER)))
    until(lambda: kubelet.readers == 1)
    opened = kubelet.opened
    kubelet.write(pod.name, *(f"line {n}" for n in range(100)))
    until(lambda: len(watcher.lines) == 100)
    assert (kubelet.opened, kubelet.most_readers) == (opened, 1)
    kubelet.finish(pod.name)
    watcher.wait()
