"""Logs are followed by one reader, whoever it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from contracts.log_lines import Line, Positions, unpack
from contracts.logs import (
    FollowLogs,
    ReadLogs,
    WindowTold,
)
from tests.activities.conftest import Sandbox
from tests.activities.kubelet import CONTAINER
from tests.activities.logs.desk import Desk, stop, texts
from tests.activities.world import until


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
