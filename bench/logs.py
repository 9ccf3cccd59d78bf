"""One pod's log and 50 watchers: how far behind they are at a given pace, and how many lines they get at most.

The log comes from a stand-in of the Kubernetes API (``tests/activities/kubelet.py``); Temporal, the worker's activities
and the gateway are real. The baseline is 50 watchers that follow the pod themselves, as ``kubectl logs -f`` does: 50
connections to the cluster's API where the platform has one.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from datetime import timedelta
from typing import Any, cast

from temporalio.client import Client
from temporalio.worker import Worker

from activities.interceptor import ActivityInterceptor
from activities.logs.follow import LogFollowing
from activities.logs.read import LogReading
from activities.settings import Settings
from bench.report import Report, percentile
from bench.scratch import scratch
from contracts import queues
from tests.activities.kubelet import CONTAINER, FakeClients, Kubelet
from tests.api.conftest import dev_server, running_gateway, running_worker, start_cluster

WATCHERS = 50
PACES = (200, 1000)
"""Lines a second."""
SECONDS = 8
FLAT_OUT = 40_000
POD = "solo"
DIRECT = "each follows the pod"


def run(report: Report) -> None:
    """Add what was found to the report."""
    asyncio.run(_run(report))


async def _run(report: Report) -> None:
    kubelet = Kubelet()
    kubelet.step = 1000
    telling = timedelta(seconds=0.2)  # as worker/platform.py has it
    with scratch() as folder, kubelet.served() as url:
        clients = cast(Any, FakeClients(url))
        follower, reading = LogFollowing(clients, Settings()), LogReading(cast(Any, None), clients)
        async with (
            dev_server() as client,
            running_worker(client),
            Worker(
                client,
                task_queue=queues.WAIT,
                activities=[follower.follow, reading.read],
                interceptors=[ActivityInterceptor(client)],
                max_heartbeat_throttle_interval=telling,
                default_heartbeat_throttle_interval=telling,
            ),
            running_gateway(folder, client) as gateway,
        ):
            tag = await _cluster(client)
            stream = f"{gateway.url}/api/v1/clusters/{tag}/pods/default/{POD}/logs/stream?tail=0"
            token = gateway.tokens["viewer"]
            for pace in PACES:
                await _paced(report, kubelet, stream, token, pace)
            await _flat_out(report, kubelet, "gateway", stream, token)
            direct = f"{url}/api/v1/namespaces/default/pods/{POD}/log?follow=true&timestamps=true&container={CONTAINER}"
            await _flat_out(report, kubelet, DIRECT, f"{direct}&tailLines=0", "")


async def _cluster(client: Client) -> str:
    plane = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
    return await start_cluster(client, "bench", control_plane=plane)


async def _paced(report: Report, kubelet: Kubelet, url: str, token: str, pace: int) -> None:
    kubelet.pod(POD)
    watching = await _watchers(url, token, pace * SECONDS)
    began, written = time.monotonic(), 0
    while written < pace * SECONDS:
        due = min(int((time.monotonic() - began) * pace), pace * SECONDS)
        if due > written:
            _write(kubelet, written, due)
            written = due
        await asyncio.sleep(0.01)
    found = await _result(watching)
    lags = sorted(lag for each in found for lag in each["lags"])
    name = f"{WATCHERS} watchers of one pod, {pace} lines/s: behind by"
    report.add(f"{name}, p50", "s", [statistics.median(lags)])
    report.add(f"{name}, p95", "s", [percentile(lags, 0.95)], "p95 ≤ 1 s")
    report.add(f"{name}, at most", "s", [lags[-1]])
    _complete(report, name, found, pace * SECONDS)
    kubelet.delete(POD)


async def _flat_out(report: Report, kubelet: Kubelet, how: str, url: str, token: str) -> None:
    kubelet.pod(POD)
    watching = await _watchers(url, token, FLAT_OUT)
    readers = kubelet.readers
    began = time.monotonic()
    for start in range(0, FLAT_OUT, 2000):
        _write(kubelet, start, start + 2000)
        await asyncio.sleep(0)
    found = await _result(watching)
    seconds = time.monotonic() - began
    name = f"{WATCHERS} watchers, {FLAT_OUT} lines at once, {how}"
    alone = how == DIRECT
    report.add(f"{name}: until all have all", "s", [seconds], baseline=alone)
    report.add(f"{name}: for each watcher", "lines/s", [FLAT_OUT / seconds], baseline=alone)
    report.add(f"{name}: connections to the cluster", "", [readers], baseline=alone)
    _complete(report, name, found, FLAT_OUT)
    kubelet.delete(POD)


def _write(kubelet: Kubelet, start: int, end: int) -> None:
    now = time.time()
    kubelet.write(POD, *(f"line {number} of the benchmark, written at {now:.6f}" for number in range(start, end)))


async def _watchers(url: str, token: str, lines: int) -> asyncio.subprocess.Process:
    """So many watchers, all of whom have begun."""
    arguments = ("-m", "bench.log_watchers", url, token, str(WATCHERS), str(lines))
    started = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, limit=1 << 26
    )
    assert started.stdout is not None
    for _ in range(WATCHERS):
        line = await started.stdout.readline()
        assert line == b"ready\n", line
    await asyncio.sleep(2)
    return started


async def _result(started: asyncio.subprocess.Process) -> list[dict[str, Any]]:
    assert started.stdout is not None
    async with asyncio.timeout(300):
        found: list[dict[str, Any]] = json.loads(await started.stdout.read())
        await started.wait()
    return found


def _complete(report: Report, name: str, found: list[dict[str, Any]], lines: int) -> None:
    missing = sum(lines - int(each["lines"]) for each in found)
    if missing:
        report.note(f"{name}: {missing} lines too few or too many")
