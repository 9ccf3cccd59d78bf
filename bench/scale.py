"""Many operations on one two-core worker: parked ones cost little, and a hundred pipelines at once all finish."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.report import Report
from bench.scratch import scratch
from contracts import queues
from contracts.catalogue import CREATE_HYPERPOD, CREATE_STORAGE, HyperPodClusterSpec
from contracts.operation import Origin, Phase, StageState, Start
from contracts.storage import StorageSpec
from tests.local_stack import LocalStack, local_stack

REGION = "us-west-2"
STEPS = (250, 500, 1000)
IDLE_SECONDS = 10.0
PIPELINES = 100
FAST_CLOCK = 600.0


def parked(report: Report) -> None:
    """Memory and CPU of a worker with more and more operations that wait, half of them in a decision."""
    with scratch() as folder:
        stack = LocalStack(folder, speed=1.0)
        try:
            stack.start_only("temporal")
            with _parking_worker(stack) as worker:
                base_memory, base_cpu = resident(worker.pid), _cpu_share(worker.pid)
                started = 0
                for target in STEPS:
                    asyncio.run(_park(stack, started, target))
                    started = target
                    memory = (resident(worker.pid) - base_memory) * 1024 / target
                    cpu = (_cpu_share(worker.pid) - base_cpu) * 1000 / target
                    report.add(f"memory per parked operation, {target} parked", "KiB", [memory], "flat")
                    report.add(f"CPU per parked operation, {target} parked", "ms/s", [cpu], "flat")
                report.note(f"worker without operations: {base_memory:.0f} MiB, {base_cpu:.1%} of a core")
        finally:
            stack.stop()


def together(report: Report) -> None:
    """A hundred pipelines started together on a fast clock, against one alone on the same stack."""
    with scratch() as folder, local_stack(folder, FAST_CLOCK) as stack:
        stack.sandbox.put("/quotas", json={"vpcs": 500, "elastic-ips": 500, "ml.g5.8xlarge": 500})
        alone = _create_all(stack, ["alone"])
        everything = _create_all(stack, [f"many-{number}" for number in range(PIPELINES)])
        report.add("one pipeline alone, clock ×600", "s", [alone], baseline=True)
        report.add(f"{PIPELINES} pipelines together, clock ×600", "s", [everything], "all finish")
        report.add("time per pipeline, together", "s", [everything / PIPELINES])


def _create_all(stack: LocalStack, tags: list[str]) -> float:
    began = time.perf_counter()
    for tag in tags:
        body = {"tag": tag, "instance_groups": [{"instance_type": "ml.g5.8xlarge", "count": 1}]}
        stack.gateway.post("/clusters", json=body).raise_for_status()
    for tag in tags:
        ended = stack.until(
            f"create-cluster/{tag}",
            lambda o: o["phase"] in ("succeeded", "blocked", "aborted", "failed"),
            limit=3600,
        )
        if ended["phase"] != "succeeded":
            raise RuntimeError(f"create-cluster/{tag} {ended['phase']}: {ended['problem']}")
    return time.perf_counter() - began


async def _park(stack: LocalStack, first: int, last: int) -> None:
    """Start operations ``first`` to ``last`` and wait until every one of them waits."""
    client = await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}", data_converter=pydantic_data_converter)
    origin = Origin(by="bench", role="operator", request_id="bench")
    for number in range(first, last):
        if number % 2:
            storage = Start[StorageSpec](cluster=f"p{number}", region=REGION, spec=StorageSpec(), origin=origin)
            await client.start_workflow(
                CREATE_STORAGE.name, storage, id=f"create-storage/p{number}/x", task_queue=queues.WORKFLOWS
            )
        else:
            hyperpod = Start[HyperPodClusterSpec](
                cluster=f"p{number}", region=REGION, spec=HyperPodClusterSpec(), origin=origin
            )
            await client.start_workflow(
                CREATE_HYPERPOD.name, hyperpod, id=f"create-hyperpod/p{number}", task_queue=queues.WORKFLOWS
            )
    for number in range(first, last):
        identifier = f"create-storage/p{number}/x" if number % 2 else f"create-hyperpod/p{number}"
        while not await _waits(client, identifier):
            await asyncio.sleep(0.2)


async def _waits(client: Client, identifier: str) -> bool:
    description = await client.get_workflow_handle(identifier).describe()
    progress = (await description.memo()).get("progress") or {}
    if progress.get("phase") == Phase.WAITING_FOR_DECISION:
        return True
    pending = description.raw_description.pending_activities
    running = any(stage.get("state") == StageState.RUNNING for stage in progress.get("stages", []))
    return running and any("wait" in activity.activity_type.name for activity in pending)


@contextmanager
def _parking_worker(stack: LocalStack) -> Iterator[subprocess.Popen[bytes]]:
    environment = stack.environment("worker") | {"TEMPORAL_ADDRESS": f"127.0.0.1:{stack.settings.ports.temporal}"}
    with (stack.settings.folder.logs / "parked.log").open("wb") as log:
        worker = subprocess.Popen([sys.executable, "-m", "bench.parked_worker"], env=environment, stderr=log)
        try:
            time.sleep(5)
            yield worker
        finally:
            worker.kill()
            worker.wait()


def resident(pid: int) -> float:
    """Resident memory in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_used(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_share(pid: int) -> float:
    """Share of one core over some idle seconds."""
    before = cpu_used(pid)
    time.sleep(IDLE_SECONDS)
    return (cpu_used(pid) - before) / IDLE_SECONDS
