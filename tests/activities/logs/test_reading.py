"""Logs are read in pages, from what is kept and from pods."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.errors import problem_of
from activities.logs import read as reading
from activities.logs.parts import merged
from contracts.log_lines import Line
from contracts.logs import (
    LogSearch,
    ReadLogs,
)
from contracts.problem import ProblemCode
from tests.activities.kubelet import CONTAINER
from tests.activities.logs.desk import Desk, texts


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


@pytest.mark.usefixtures("soon")
def test_a_running_log_is_read_from_what_is_kept_and_on_from_its_pod(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    desk.killed_after(pod, "one", "two")
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
