"""Hundreds of training runs watched by one worker, their logs kept: what each costs while nothing happens to it.

Waits look every 15 seconds, as in a deployment, and the sandbox's clock goes at its own pace: a run prints a line every
three seconds. The baseline is the same worker before it has runs, and a hundred runs against five hundred. Requests are
counted at the Kubernetes API, by a fault that does nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from temporalio.client import Client

from bench.report import Report
from bench.scale import resident
from bench.scratch import scratch
from contracts.catalogue import RUN_TRAINING
from contracts.names import operation_id
from tests.local_stack import LocalStack, local_stack

TAG = "many"
TYPE, NODES = "ml.p5.48xlarge", 8
SETUP_SPEED = 240.0
STEPS = (100, 500)
AT_ONCE = 8
POLL_SECONDS = 15.0
MEASURED_SECONDS = 90.0
LIMIT = 1200.0
ENDED = ("succeeded", "blocked", "aborted", "failed")
COUNTING = {"id": "count", "api": "kubernetes", "operation": "GET .*", "action": "latency", "latency": 0.0}


def run(report: Report) -> None:
    """Add what was found to the report."""
    polling = {"INSTANTSTART_POLL_SECONDS": str(POLL_SECONDS)}
    with scratch() as folder, local_stack(folder, SETUP_SPEED, polling) as stack:
        _cluster(stack)
        stack.sandbox.post("/clock", json={"speed": 1}).raise_for_status()
        base_memory, base_cpu = resident(stack.pid("worker")), _cpu(stack, 20.0)["worker"]
        report.note(f"worker without runs: {base_memory:.0f} MiB, {base_cpu:.1%} of a core")
        started = 0
        for target in STEPS:
            _submit(stack, report, started, target)
            started = target
            _steady(stack, report, target, base_memory, base_cpu)
        _ending(stack, report)
        report.note(f"load of the machine in the end: {os.getloadavg()[0]:.1f}")


def _cluster(stack: LocalStack) -> None:
    quotas = {"vpcs": 50, "elastic-ips": 50, TYPE: NODES}
    stack.sandbox.put("/quotas", json=quotas).raise_for_status()
    groups = [{"name": "gpus", "instance_type": TYPE, "count": NODES}]
    stack.gateway.post("/clusters", json={"tag": TAG, "instance_groups": groups}).raise_for_status()
    _succeeded(stack, f"create-cluster/{TAG}")
    answer = stack.gateway.patch(f"/clusters/{TAG}/features", json={"training_operator": {"enabled": True}})
    _succeeded(stack, answer.raise_for_status().json()["id"])


def _name(number: int) -> str:
    return f"run-{number:03d}"


def _operation(number: int) -> str:
    return operation_id(RUN_TRAINING.name, TAG, _name(number))


def _submit(stack: LocalStack, report: Report, first: int, last: int) -> None:
    """Runs ``first`` to ``last``, until each has told of its first step."""
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(lambda number: _post(stack, number), range(first, last)))
    report.add(f"runs {first} to {last}: asked for, {AT_ONCE} at once", "/s", [(last - first) / _since(began)])
    deadline = time.monotonic() + LIMIT
    for number in range(first, last):
        while "1 of 1 pods run" not in _live(stack, number):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{_operation(number)}: {stack.operation(_operation(number))}")
            time.sleep(0.5)
    report.add(f"runs {first} to {last}: asked for, submitted, running", "/s", [(last - first) / _since(began)])


def _post(stack: LocalStack, number: int) -> None:
    body: dict[str, Any] = {
        "name": _name(number),
        "recipe": {"kind": "pytorch", "script_path": "/s3/train.py", "arguments": ["--max-steps=1000000"]},
        "instance_types": [TYPE],
        "gpus_per_node": 0,
        "resources": {"cpu": 1, "memory_gib": 1},
        "shm_gib": 1,
        "image": "public.ecr.aws/bench/trainer:1.0",
        "storage": [],
    }
    deadline = time.monotonic() + LIMIT
    while (answer := stack.gateway.post(f"/clusters/{TAG}/training-runs", json=body)).status_code == 503:
        # So much is asked for at once that the plan's look-ups wait too long for their turn.
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    answer.raise_for_status()


def _live(stack: LocalStack, number: int) -> str:
    stages = {each["name"]: each for each in stack.operation(_operation(number))["stages"]}
    return str(stages["run"]["detail"]) if "run" in stages else ""


def _steady(stack: LocalStack, report: Report, runs: int, base_memory: float, base_cpu: float) -> None:
    """What so many runs cost while nothing happens to them."""
    before = asyncio.run(_histories(stack, runs))
    stack.sandbox.post("/faults", json=[COUNTING]).raise_for_status()
    cpu = _cpu(stack, MEASURED_SECONDS)
    fired = stack.sandbox.get("/faults").json()["fired"]
    stack.sandbox.delete("/faults").raise_for_status()
    after = asyncio.run(_histories(stack, runs))
    memory = (resident(stack.pid("worker")) - base_memory) * 1024 / runs
    report.add(f"memory of the worker per run, {runs} runs", "KiB", [memory], "flat")
    report.add(f"CPU of the worker per run, {runs} runs", "ms/s", [(cpu["worker"] - base_cpu) * 1000 / runs], "flat")
    report.add(f"CPU of Temporal per run, {runs} runs", "ms/s", [cpu["temporal"] * 1000 / runs], "flat")
    minutes = MEASURED_SECONDS / 60
    report.add(f"requests to the Kubernetes API, {runs} runs", "/min", [len(fired) / minutes])
    looks = runs * 60 / POLL_SECONDS
    kinds = Counter(re.sub(r"run-\d+", "{run}", entry["operation"]) for entry in fired)
    shown = ", ".join(
        f"{operation.partition('/namespaces')[2] or operation} {count / minutes:.0f}"
        for operation, count in kinds.most_common(6)
    )
    report.note(f"{runs} runs: {shown} a minute; each run looking at job and pods by itself: {2 * looks:.0f}")
    report.add(f"connections to the Kubernetes API, {runs} runs", "", [_connections(stack)])
    hours = MEASURED_SECONDS / 3600
    grown = [now[0] - then[0] for then, now in zip(before, after, strict=True)]
    bytes_ = [now[1] - then[1] for then, now in zip(before, after, strict=True)]
    report.add(f"events of history per hour of a run, {runs} runs", "", [sum(grown) / runs / hours], "0")
    report.add(f"bytes of history per hour of a run, {runs} runs", "", [sum(bytes_) / runs / hours], "0")
    report.add(f"events of a run until then, {runs} runs", "", [sum(events for events, _ in after) / runs])
    report.add(f"bytes of a run until then, {runs} runs", "KiB", [sum(size for _, size in after) / runs / 1024])


def _ending(stack: LocalStack, report: Report) -> None:
    """Stop some of them: how long until jobs and pods are gone, and how long their histories are in the end."""
    began = time.perf_counter()
    for number in range(AT_ONCE):
        stack.gateway.post(f"/clusters/{TAG}/training-runs/{_name(number)}/stop").raise_for_status()
    for number in range(AT_ONCE):
        stack.until(_operation(number), lambda found: found["phase"] in ENDED, limit=LIMIT)
    report.add(f"{AT_ONCE} of them stopped, until their operations have ended", "s", [_since(began)])
    ended = asyncio.run(_histories(stack, AT_ONCE))
    report.add("events of a run that was stopped", "", [sum(events for events, _ in ended) / AT_ONCE])


async def _histories(stack: LocalStack, runs: int) -> list[tuple[int, int]]:
    """Events and bytes of the history of each run."""
    client = await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}")
    found = []
    for number in range(runs):
        described = await client.get_workflow_handle(_operation(number)).describe()
        info = described.raw_description.workflow_execution_info
        found.append((info.history_length, info.history_size_bytes))
    return found


def _cpu(stack: LocalStack, seconds: float) -> dict[str, float]:
    """Share of one core of worker and Temporal over so many seconds."""
    names = ("worker", "temporal")
    before = {name: _used(stack.pid(name)) for name in names}
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {name: (_used(stack.pid(name)) - before[name]) / took for name in names}


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _connections(stack: LocalStack) -> int:
    """Open connections of the worker to the Kubernetes API."""
    inodes = set()
    for link in Path(f"/proc/{stack.pid('worker')}/fd").iterdir():
        try:
            inodes.add(os.readlink(link).removeprefix("socket:[").rstrip("]"))
        except FileNotFoundError:
            continue
    port = f"{stack.settings.ports.kubernetes:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[2].endswith(f":{port}") and row[9] in inodes for row in rows)


def _succeeded(stack: LocalStack, identifier: str) -> None:
    ended = stack.until(identifier, lambda operation: operation["phase"] in ENDED, limit=LIMIT)
    if ended["phase"] != "succeeded":
        raise RuntimeError(f"{identifier} {ended['phase']}: {ended['problem']}")


def _since(began: float) -> float:
    return time.perf_counter() - began
