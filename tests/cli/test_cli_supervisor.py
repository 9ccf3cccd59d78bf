"""The supervisor, with small fake services: order, restarts, and that nothing is ever left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("stack_under_test.py")
RUNS = "ready(); signal.pause(); signal.pause()"
LIMIT = 15.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"not in {LIMIT} s: {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


class Stack:
    def __init__(self, folder: Path, services: list[dict[str, object]], *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), json.dumps(services), *options],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.end()

    def events(self, what: str) -> list[tuple[str, int]]:
        """Name and process of every service that noted ``what``, in order."""
        path = self.folder / "events"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(name, int(pid)) for name, noted, pid in lines if noted == what]

    def end(self) -> str:
        """Wait for the supervisor's end; what it said."""
        return self.process.communicate(timeout=LIMIT)[1]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    made: list[Stack] = []

    def make(services: list[dict[str, object]], *options: str) -> Stack:
        made.append(Stack(tmp_path, services, *options))
        return made[-1]

    yield make
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
        for stream in (each.process.stdin, each.process.stdout, each.process.stderr):
            if stream is not None:
                stream.close()
        each.process.wait()


def test_services_start_in_order_and_stop_in_the_opposite_one(stack: Callable[..., Stack]) -> None:
    running = stack([{"name": name, "code": RUNS} for name in ("temporal", "sandbox", "worker", "gateway")])
    running.wait_ready()
    running.process.send_signal(signal.SIGINT)
    running.end()
    assert running.process.returncode == 0
    assert [name for name, _ in running.events("started")] == ["temporal", "sandbox", "worker", "gateway"]
    assert [name for name, _ in running.events("stopped")] == ["gateway", "worker", "sandbox", "temporal"]
    assert not any(is_alive(pid) for _, pid in running.events("started"))


def test_each_waits_for_the_one_before(stack: Callable[..., Stack]) -> None:
    slow = "note('begun'); (FOLDER / 'go').exists() or time.sleep(0.3); " + RUNS
    running = stack([{"name": "first", "code": slow}, {"name": "second", "code": RUNS}])
    running.wait_ready()
    lines = [line.split()[:2] for line in (running.folder / "events").read_text().splitlines()]
    assert lines == [["first", "begun"], ["first", "started"], ["second", "started"]]


def test_a_service_that_dies_is_started_again(stack: Callable[..., Stack]) -> None:
    running = stack([{"name": "steady", "code": RUNS}, {"name": "frail", "code": RUNS}])
    running.wait_ready()
    (_, first) = running.events("started")[1]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(running.events("started")) == 3, "a second start of frail")
    name, second = running.events("started")[2]
    assert (name, is_alive(first), is_alive(second)) == ("frail", False, True)
    running.process.terminate()
    said = running.end()
    assert "frail was ended by SIGKILL; starting it again in 0.5 s" in said
    assert "frail works again" in said
    assert len(running.events("stopped")) == 2


def test_it_gives_up_on_a_service_that_keeps_dying(stack: Callable[..., Stack]) -> None:
    code = "ready(); time.sleep(0.05); print('the reason'); sys.exit(7)"
    running = stack([{"name": "steady", "code": RUNS}, {"name": "broken", "code": code}], "--quick")
    said = running.end()
    assert running.process.returncode == 1
    assert "broken has died 5 times in a row; it ended with exit code 7" in said
    assert "    the reason" in said
    assert len(running.events("stopped")) == 1, "the steady one was stopped in an orderly way"


def test_a_service_that_cannot_start_ends_the_stack_with_its_log(stack: Callable[..., Stack]) -> None:
    running = stack([{"name": "steady", "code": RUNS}, {"name": "broken", "code": "sys.exit('no such option')"}])
    said = running.end()
    assert running.process.returncode == 1
    assert "broken ended with exit code 1\n    no such option" in said
    assert not any(is_alive(pid) for _, pid in running.events("started"))


def test_nothing_is_left_when_the_supervisor_is_killed(stack: Callable[..., Stack]) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " + RUNS
    running = stack([{"name": "one", "code": RUNS}, {"name": "deaf", "code": deaf}])
    running.wait_ready()
    running.process.kill()
    wait_until(lambda: not any(is_alive(pid) for _, pid in running.events("started")), "every service has gone")


def test_a_service_that_ignores_the_signal_is_killed_with_all_that_it_started(stack: Callable[..., Stack]) -> None:
    parent = """
import subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
with open(FOLDER / "events", "a") as file: file.write(f"grandchild started {child.pid}\\n")
ready()
while True: signal.pause()
"""
    running = stack([{"name": "deaf", "code": parent, "grace": 0.3}])
    running.wait_ready()
    running.process.terminate()
    said = running.end()
    assert "deaf did not stop in 0 s and was killed" in said
    assert len(running.events("started")) == 2
    wait_until(lambda: not any(is_alive(pid) for _, pid in running.events("started")), "the whole group has gone")


def test_a_tied_stack_stops_when_its_starter_goes(stack: Callable[..., Stack]) -> None:
    running = stack([{"name": "one", "code": RUNS}], "--tied")
    running.wait_ready()
    assert running.process.stdin is not None
    running.process.stdin.close()
    wait_until(lambda: running.process.poll() is not None, "the supervisor has gone")
    assert [name for name, _ in running.events("stopped")] == ["one"]


def test_a_signal_during_the_start_stops_what_runs(stack: Callable[..., Stack]) -> None:
    running = stack([{"name": "one", "code": RUNS}, {"name": "never", "code": "note('begun'); signal.pause()"}])
    wait_until(lambda: running.events("begun"), "the second service has begun")
    running.process.terminate()
    running.end()
    assert running.process.returncode == 0
    assert [name for name, _ in running.events("stopped")] == ["never", "one"]
