"""Logs are kept: every line once, and what is lost is told."""

from __future__ import annotations

import asyncio
import random
from itertools import repeat
from typing import cast

import pytest
from temporalio import activity
from temporalio.activity import ActivityCancellationDetails
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError

from activities import fence as fences
from activities.fence import Fence, fence
from activities.logs import keep as keeping
from activities.logs.chunks import Chunks
from activities.registry import Activities
from contracts.log_lines import Line, stamp
from contracts.logs import (
    ReadLogs,
)
from tests.activities.conftest import REGION
from tests.activities.logs.desk import Desk, Killed, texts
from tests.activities.temporal import GONE, Temporal
from tests.activities.world import until


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


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("seed", range(4))
def test_a_keeper_killed_at_any_moment_keeps_every_line_exactly_once(desk: Desk, seed: int) -> None:
    chance, kubelet = random.Random(seed), desk.kubelet
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


RUNNING, COMPLETED = WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED


@pytest.mark.parametrize(
    ("told", "status", "kept"),
    [
        (ActivityCancellationDetails(cancel_requested=True), RUNNING, ["one", "two"]),
        (ActivityCancellationDetails(not_found=True), COMPLETED, ["one", "two"]),
        (ActivityCancellationDetails(not_found=True), RUNNING, []),
    ],
    ids=["asked to end", "its operation has ended", "another keeper has taken its place"],
)
async def test_what_is_gathered_is_kept_when_a_run_is_given_up_unless_another_keeps_it(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    told: ActivityCancellationDetails,
    status: WorkflowExecutionStatus,
    kept: list[str],
) -> None:
    monkeypatch.setattr(keeping, "UNWRITTEN_SECONDS", (600.0, 600.0))
    monkeypatch.setattr(keeping, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(fences, "FRESH_SECONDS", 0.02)
    runner, temporal = desk._runner, Temporal()
    pod = desk.kubelet.pod("a-pods-0")
    desk.kubelet.write(pod.name, "one", "two")

    async def keep() -> None:
        fence.set(Fence(cast(Client, temporal), activity.info(), tuple))
        await desk.keeper.keep(desk.request)

    def gathered() -> bool:
        return any("2 about to be" in said["detail"] for (said,) in runner.heartbeats)

    environment = runner.environment()
    keeper = asyncio.create_task(environment.run(keep))
    await asyncio.to_thread(until, gathered)
    temporal.answers, temporal.status = repeat(GONE), status
    environment.cancel(told)
    with pytest.raises((asyncio.CancelledError, ApplicationError)):
        await keeper
    assert (await asyncio.to_thread(desk.kept)).get(pod.name, []) == kept


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


@pytest.mark.usefixtures("soon")
def test_a_pod_that_is_made_anew_under_its_name_is_kept_behind_the_first(desk: Desk) -> None:
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


@pytest.mark.usefixtures("soon")
def test_a_pod_that_vanished_while_nobody_kept_its_log_is_counted_as_a_gap(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    desk.killed_after(pod, "kept")
    kubelet.write(pod.name, "lost")
    kubelet.delete(pod.name)
    kubelet.end_owner()
    kept = desk.keep()
    assert (kept.lines, kept.gaps) == (1, 1)
    assert gaps_met(desk) == [(stamp(desk.pages(desk.run_source())[0].position.at), ["kept"])]


@pytest.mark.usefixtures("soon")
def test_a_log_that_its_node_rotated_away_meanwhile_is_counted_as_a_gap(desk: Desk) -> None:
    kubelet = desk.kubelet
    pod = kubelet.pod("a-pods-0")
    desk.killed_after(pod, "kept")
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
