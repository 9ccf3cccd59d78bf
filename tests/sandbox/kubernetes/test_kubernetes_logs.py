"""Logs of pods: streams, their ends, where they are taken up again, how much is kept, and what outlives a restart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes_support import Standalone, wait_for
from training_support import LONG, Trainings, container, training_job

from sandbox.clock import Clock
from sandbox.kubernetes.clusterset import SingleCluster
from sandbox.kubernetes.logs import KEEP_LINES, Log, PodLogs
from sandbox.state import State

STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z .*")
STEP = re.compile(r"Batch (\d+) Loss")


@contextmanager
def stream(trainings: Trainings, pod: str, query: str = "") -> Iterator[Iterator[str]]:
    """The lines of a log that is followed."""
    path = f"/api/v1/namespaces/{trainings.namespace}/pods/{pod}/log?follow=true&{query}"
    server = trainings.standalone
    answer = server.http.request("GET", server.url + path, preload_content=False)
    assert answer.status == 200

    def lines() -> Iterator[str]:
        rest = ""
        for piece in answer.stream(65536):
            *whole, rest = (rest + piece.decode()).split("\n")
            yield from whole
        assert rest == ""

    try:
        yield lines()
    finally:
        answer.close()


def test_following_a_job_gives_every_line_once_and_ends_with_the_container(trainings: Trainings) -> None:
    trainings.create(training_job("followed", words=LONG, cleanPodPolicy="All"))
    wait_for(lambda: trainings.is_true("followed", "Running"))
    with stream(trainings, "followed-pods-0", "timestamps=true") as lines:
        found = list(lines)
    assert all(STAMPED.fullmatch(line) for line in found)
    stamps = [line.split(" ")[0] for line in found]
    assert stamps == sorted(set(stamps))
    steps = [int(match[1]) for line in found if (match := STEP.search(line))]
    assert steps == list(range(1, 401))
    assert found[-1].endswith("AgentState.COMPLETED")


def test_a_stream_is_taken_up_again_by_time_without_a_gap(trainings: Trainings) -> None:
    trainings.create(training_job("resumed", words=LONG))
    wait_for(lambda: trainings.is_true("resumed", "Running"))
    first: list[str] = []
    with stream(trainings, "resumed-pods-0", "timestamps=true") as lines:
        for line in lines:
            first.append(line)
            if "Batch 20 " in line:
                break
    since = first[-1].split(" ")[0]
    with stream(trainings, "resumed-pods-0", f"timestamps=true&sinceTime={since}") as lines:
        second = list(lines)
    # Whole seconds: what was there already in that second comes once more.
    again = [line for line in second if line.split(" ")[0] > since]
    steps = [int(match[1]) for line in [*first, *again] if (match := STEP.search(line))]
    assert steps == list(range(1, 401))


def test_tail_bytes_and_times_choose_among_the_lines(trainings: Trainings) -> None:
    trainings.create(training_job("chosen"))
    trainings.wait("chosen", "Completed")
    whole = trainings.log("chosen-pods-0")
    lines = whole.splitlines()
    assert trainings.log("chosen-pods-0", "tailLines=3").splitlines() == lines[-3:]
    assert trainings.log("chosen-pods-0", "tailLines=0") == ""
    assert trainings.log("chosen-pods-0", "limitBytes=100").encode() == whole.encode()[:100]
    with stream(trainings, "chosen-pods-0", "tailLines=2") as followed:
        assert list(followed) == lines[-2:]
    path = f"/api/v1/namespaces/{trainings.namespace}/pods/chosen-pods-0/log?"
    for query in ("sinceTime=2026-01-01T00:00:00Z&sinceSeconds=3", "tailLines=-1", "limitBytes=x"):
        assert trainings.standalone.request("GET", path + query)[0] == 400
    assert trainings.log("chosen-pods-0", "sinceTime=2099-01-01T00:00:00Z") == ""


def test_the_previous_run_is_read_with_times_and_tail(trainings: Trainings) -> None:
    body = {
        "metadata": {"name": "again", "annotations": {"sandbox/exit-code": "1", "sandbox/log": "one\ntwo"}},
        "spec": {"restartPolicy": "OnFailure", "containers": [container(("sh",), 0)]},
    }
    trainings.standalone.request("POST", f"/api/v1/namespaces/{trainings.namespace}/pods", body)

    def restarts() -> int:
        statuses = trainings.pods()["again"]["status"].get("containerStatuses", [])
        return int(statuses[0]["restartCount"]) if statuses else 0

    wait_for(lambda: restarts() >= 1, "a restart", 30)
    assert trainings.log("again", "previous=true&tailLines=1").strip() == "exit 1"
    assert all(STAMPED.fullmatch(line) for line in trainings.log("again", "previous=true&timestamps=true").splitlines())


def test_thousands_of_lines_a_second_are_followed_without_loss(trainings: Trainings) -> None:
    # 20 lines in each sandbox second are 4,000 in a real one.
    job = training_job("noisy", 1, LONG, annotations={"sandbox/log-rate": "20"})
    trainings.create(job)
    wait_for(lambda: trainings.is_true("noisy", "Running"))
    with stream(trainings, "noisy-pods-0") as lines:
        numbers = [int(match[1]) for line in lines if (match := re.search(r"batch (\d+), ", line))]
    assert len(numbers) > 1000
    assert numbers == list(range(len(numbers)))


def test_many_followers_of_many_pods_all_see_the_end(trainings: Trainings) -> None:
    job = training_job("wide", 8, LONG)
    trainings.create(job)
    wait_for(lambda: trainings.is_true("wide", "Running"), "all pods to run", 30)
    opened = [stream(trainings, f"wide-pods-{number % 8}") for number in range(16)]
    entered = [each.__enter__() for each in opened]
    for lines in entered:
        assert [int(match[1]) for line in lines if (match := STEP.search(line))] == list(range(1, 401))
    for each in opened:
        each.__exit__(None, None, None)


def test_a_million_steps_cost_nothing_until_they_are_read_and_then_what_a_log_keeps(operators: Standalone) -> None:
    log = Log()
    log.add((float(number), str(number)) for number in range(2 * KEEP_LINES))
    kept = log.since(0)
    assert KEEP_LINES <= len(kept) <= KEEP_LINES * 5 // 4
    assert log.end == 2 * KEEP_LINES
    assert kept[-1][1] == str(2 * KEEP_LINES - 1)
    assert log.since(log.end - 2) == kept[-2:]


def test_logs_are_as_they_were_after_a_restore() -> None:
    logs, restored = PodLogs(), PodLogs()
    logs.write("pod", "main", 1.0, "one", "two")
    logs.restart("pod", "main")
    logs.write("pod", "main", 2.0, "three")
    restored.load(logs.dump())
    assert [text for _, text in restored.lines("pod", "main")] == ["three"]
    previous = restored.previous("pod", "main")
    assert previous is not None
    assert [text for _, text in previous.since(0)] == ["one", "two"]


def test_a_training_goes_on_after_a_restore_and_prints_no_line_twice(trainings: Trainings, tmp_path: Path) -> None:
    trainings.create(training_job("kept", words=LONG))
    wait_for(lambda: trainings.is_true("kept", "Running"))
    wait_for(lambda: "Batch 10 " in trainings.log("kept-pods-0"))
    standalone = trainings.standalone
    with standalone.clock.still, standalone.cluster.lock:
        clock, dumped = standalone.clock.dump(), standalone.clusters.dump()
    read: list[Any] = []
    other = Clock(2000.0)
    clusters = SingleCluster(other)
    clusters.load(dumped)
    other.load(clock)
    cluster = clusters.by_id["sandbox"]
    pod = next(
        pod
        for (namespace, name), pod in cluster.store.objects(cluster.registry.type("pods")).items()
        if (namespace, name) == (trainings.namespace, "kept-pods-0")
    )

    def lines() -> list[str]:
        with cluster.lock:
            live = cluster.store.by_uid(pod["metadata"]["uid"])
            if live is not None:
                cluster.training.print_due(live, "main")
            return [text for _, text in cluster.logs.lines(pod["metadata"]["uid"], "main")]

    other.start()
    try:
        wait_for(lambda: any("Batch 400 " in line for line in lines()), "the training to end", 30)
    finally:
        other.stop()
    read = [int(match[1]) for line in lines() if (match := STEP.search(line))]
    assert read == list(range(1, 401))


@pytest.mark.parametrize("image", [True, False])
def test_what_has_not_started_has_no_log(trainings: Trainings, image: bool) -> None:
    annotations = {"sandbox/image-error": "true"} if image else {}
    words = ("torchrun", "t.py")
    job = training_job("early", 1, words, annotations)
    if not image:
        job["spec"]["replicaSpecs"][0]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    trainings.create(job)
    wait_for(lambda: "early-pods-0" in trainings.pods())
    path = f"/api/v1/namespaces/{trainings.namespace}/pods/early-pods-0/log"
    expected = "trying and failing to pull image" if image else "ContainerCreating"
    answer = wait_for(lambda: (found := trainings.standalone.request("GET", path)) and expected in str(found) and found)
    assert answer[0] == 400


def test_the_time_is_noted_also_while_nothing_changes(tmp_path: Path) -> None:
    clock, state = Clock(1000.0), State(tmp_path)
    assert state.noted_time() == 0.0
    state.now = clock.timestamp
    begun = clock.timestamp()
    state.start()
    try:
        wait_for(lambda: state.noted_time() > begun + 500, "a later time")
    finally:
        state.stop()
