"""What the watches of a cluster share: one list for all of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from activities.training import board
from activities.training.board import Board
from contracts.training_parts import Submission

PATIENCE = 60.0
REF: Any = SimpleNamespace(
    scope=SimpleNamespace(region="us-west-2", cluster="demo"), eks_cluster="eks", namespace="default", name="sft"
)


class Path:
    """A path of submission whose lists can be held up."""

    submission = Submission.HYPERPOD

    def __init__(self) -> None:
        self.lists = 0
        self.looks = 0
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def list(self, site: Any, namespace: str | None) -> list[Any]:
        self.asked.set()
        assert self.go_on.wait(PATIENCE)
        self.lists += 1
        return [SimpleNamespace(namespace="default", name="sft", uid="uid-1", version=self.lists)]

    def find(self, site: Any, namespace: str, name: str) -> Any:
        self.looks += 1
        return None


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Path:
    found = Path()
    monkeypatch.setattr(board, "PATHS", {Submission.HYPERPOD: found})
    return found


def kept(max_age: float) -> Board:
    nothing: Any = None
    return Board(nothing, nothing, max_age)


def look(shared: Board, uid: str = "uid-1") -> Any:
    site: Any = None
    return shared.job(site, REF, Submission.HYPERPOD, uid)


def test_many_watches_have_the_jobs_listed_once(path: Path) -> None:
    shared = kept(max_age=3600)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: look(shared).version, range(40)))
    assert (set(found), path.lists) == ({1}, 1)


def test_who_comes_while_a_list_is_read_goes_on_with_the_one_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(board.time, "monotonic", lambda: now[0])
    shared = kept(max_age=10)
    assert look(shared).version == 1
    now[0] = 11
    path.asked.clear()
    path.go_on.clear()
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(look, shared)
        assert path.asked.wait(PATIENCE)
        assert look(shared).version == 1, "not held up"
        path.go_on.set()
        assert reading.result(PATIENCE).version == 2


def test_absence_is_never_told_from_a_list(path: Path) -> None:
    assert look(kept(max_age=3600), uid="uid-2") is None
    assert path.looks == 1


def test_what_is_forgotten_is_asked_for_by_its_name(path: Path) -> None:
    shared = kept(max_age=3600)
    assert look(shared) is not None
    shared.forget(REF)
    assert look(shared) is None
    assert (path.lists, path.looks) == (1, 1)
