"""An instance group from none to a thousand nodes: calls, wall clock and memory of the operation, and the views after.

The baselines are bare loops on the same group of the same cluster. One adds the nodes and polls DescribeCluster until
SageMaker counts them; the other goes on until Kubernetes shows each Ready with its accelerator, as the operation does.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from kubernetes import client

from activities.hyperpod.observe import LABEL_GROUP
from activities.instance_types import NVIDIA
from activities.nodes.sight import count, is_ready, items
from bench.drift_checks import measure
from bench.ledger import called
from bench.report import Report
from bench.scale import resident
from bench.scratch import scratch
from cli.stack.environment import POLL_SECONDS
from sandbox import timings
from tests.chaos.world import World
from tests.local_stack import LocalStack, local_stack

TAG, GROUP, NODES = "capacity", "many", 1000
REGION = "us-west-2"
SPEED, SETUP_SPEED = 10.0, 120.0
MOST_ADDED = 50
"""Nodes of one BatchAddClusterNodes. (SageMaker API)"""
SAMPLES = 20
LIMIT = 1800.0
ENDED = ("succeeded", "blocked", "aborted", "failed")
NODE_TIME = timings.NODE_BOOT + timings.NODE_LIFECYCLE + timings.NODE_REGISTER
SCALE = f"scale-instance-group/{TAG}/{GROUP}"


def run(report: Report, rounds: int) -> None:
    """Alternate the bare loop and the operation on one group, which is emptied in between."""
    with scratch() as folder, local_stack(folder, SETUP_SPEED) as stack:
        _cluster(stack)
        loops: list[tuple[float, float]] = []
        operations: list[float] = []
        emptied: list[float] = []
        calls: list[Counter[str]] = []
        memory: list[tuple[float, float, float]] = []
        for number in range(rounds):
            if number:
                emptied.append(_timed(stack, lambda: _start(stack, 0)))
            loops.append(_bare(stack))
            emptied.append(_timed(stack, lambda: _start(stack, 0)))
            stack.sandbox.delete("/ledger")
            before = resident(stack.pid("worker"))
            with _peak(stack.pid("worker")) as peak:
                operations.append(_timed(stack, lambda: _start(stack, NODES)))
            calls.append(called(stack))
            memory.append((before, max(peak), resident(stack.pid("worker"))))
        _report(report, loops, operations)
        report.add(f"scale {NODES} → 0, clock ×{SPEED:g}", "s", emptied)
        _report_calls(report, calls)
        for position, name in enumerate(("before", "at its peak", "after")):
            report.add(f"memory of the worker {name}", "MiB", [each[position] for each in memory])
        _views(stack, report)
        measure(report, stack, TAG, f"{NODES} nodes")


def _report(report: Report, loops: list[tuple[float, float]], operations: list[float]) -> None:
    counted, ready = ([each[position] for each in loops] for position in (0, 1))
    report.add(f"scale 0 → {NODES}, clock ×{SPEED:g}", "s", operations)
    report.add("bare loop until SageMaker counts them", "s", counted, baseline=True)
    report.add("bare loop until each is Ready with its accelerator", "s", ready, baseline=True)
    report.add("a single node's boot, lifecycle script and registration", "s", [NODE_TIME / SPEED], baseline=True)
    for name, baseline, goal in (("counted", counted, ""), ("Ready", ready, "≤ 1.10")):
        ratios = [ours / theirs for ours, theirs in zip(operations, baseline, strict=True)]
        report.add(f"scale / bare loop until {name}", "", ratios, goal)


def _report_calls(report: Report, calls: list[Counter[str]]) -> None:
    least = NODES // MOST_ADDED
    name = "sagemaker:BatchAddClusterNodes"
    report.add("BatchAddClusterNodes of the operation", "", [each[name] for each in calls], f"{least}")
    report.add("all AWS calls of the operation", "", [each.total() for each in calls])
    looks = [each["sagemaker:DescribeCluster"] for each in calls]
    reads = [each.total() - each[name] for each in calls]
    report.add(
        f"reads for each DescribeCluster (one look, every {POLL_SECONDS:g} s)",
        "",
        [read / look for read, look in zip(reads, looks, strict=True)],
        f"≤ {1 + -(-NODES // 100)} while nodes change",
    )
    said = ", ".join(f"{name} {count}" for name, count in calls[-1].most_common())
    report.note(f"AWS calls of the last scale: {said}")


def _cluster(stack: LocalStack) -> None:
    """A cluster with two nodes for its components, and an empty group beside them."""
    stack.sandbox.put("/quotas", json={"vpcs": 50, "elastic-ips": 50, "ml.g5.8xlarge": 2 * NODES})
    body = {
        "tag": TAG,
        "network": {"vpc_cidr": "10.90.0.0/16", "compute_subnet_prefix": 17},
        "instance_groups": [
            {"name": "base", "instance_type": "ml.g5.8xlarge", "count": 2},
            {"name": GROUP, "instance_type": "ml.g5.8xlarge", "count": 0},
        ],
    }
    stack.gateway.post("/clusters", json=body).raise_for_status()
    _ended(stack, f"create-cluster/{TAG}")


def _timed(stack: LocalStack, work: Any) -> float:
    """Wall clock of ``work`` on the measured clock; the cluster is made on a fast one."""
    stack.sandbox.post("/clock", json={"speed": SPEED}).raise_for_status()
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    print(f"{took:.1f} s", flush=True)
    return took


def _bare(stack: LocalStack) -> tuple[float, float]:
    """Add the nodes, then look at the cluster until they are there, then at Kubernetes until they work. Seconds until
    the one and the other."""
    stack.sandbox.post("/clock", json={"speed": SPEED}).raise_for_status()
    world = World(stack)
    sagemaker = world.aws("sagemaker", REGION)
    record = stack.gateway.get(f"/clusters/{TAG}").json()["record"]
    name, eks = record["hyperpod"]["name"], record["control_plane"]["name"]
    began = time.perf_counter()
    for _ in range(NODES // MOST_ADDED):
        sagemaker.batch_add_cluster_nodes(
            ClusterName=name, NodesToAdd=[{"InstanceGroupName": GROUP, "IncrementTargetCountBy": MOST_ADDED}]
        )
    while True:
        groups = sagemaker.describe_cluster(ClusterName=name)["InstanceGroups"]
        if next(each["CurrentCount"] for each in groups if each["InstanceGroupName"] == GROUP) == NODES:
            break
        time.sleep(POLL_SECONDS)
    counted = time.perf_counter() - began
    with world.kubernetes(REGION, eks) as api:
        while sum(map(_works, items(client.CoreV1Api(api).list_node, label_selector=f"{LABEL_GROUP}={GROUP}"))) < NODES:
            time.sleep(POLL_SECONDS)
    took = counted, time.perf_counter() - began
    print(", ".join(f"{each:.1f} s" for each in took), flush=True)
    return took


def _works(node: dict[str, Any]) -> bool:
    return is_ready(node) and count(node["status"].get("allocatable"), NVIDIA) > 0


def _start(stack: LocalStack, nodes: int) -> None:
    stack.gateway.post(f"/clusters/{TAG}/instance-groups/{GROUP}/scale", json={"count": nodes}).raise_for_status()
    _ended(stack, SCALE)


def _ended(stack: LocalStack, identifier: str) -> None:
    ended = stack.until(identifier, lambda operation: operation["phase"] in ENDED, limit=LIMIT)
    if ended["phase"] != "succeeded":
        raise RuntimeError(f"{identifier} {ended['phase']}: {json.dumps(ended['problem'])}")


@contextmanager
def _peak(pid: int) -> Iterator[list[float]]:
    """Resident memory (MiB) of a process while the block runs, four times a second."""
    seen, over = [resident(pid)], threading.Event()

    def look() -> None:
        while not over.wait(0.25):
            seen.append(resident(pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _views(stack: LocalStack, report: Report) -> None:
    stack.sandbox.post("/clock", json={"speed": SPEED}).raise_for_status()
    for name, path in (
        ("GET …/nodes?page_size=50", f"/clusters/{TAG}/nodes?page_size=50"),
        ("GET /clusters/{tag}", f"/clusters/{TAG}"),
        ("GET …/instance-groups", f"/clusters/{TAG}/instance-groups"),
        ("GET /operations/{id}", f"/operations/{SCALE}"),
    ):
        samples, size, late = [], 0, 0
        for _ in range(SAMPLES):
            began = time.perf_counter()
            answer = stack.gateway.get(path)
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                late += 1
                continue
            samples.append((time.perf_counter() - began) * 1000)
            size = len(answer.raise_for_status().content)
        if samples:
            report.add(f"{name} with {NODES} nodes, {size / 1024:.0f} KiB", "ms", samples)
        if late:
            report.note(f"{name}: {late} of {SAMPLES} were not answered in time (503)")
