"""How soon a worker and a gateway work again after ``kill -9``, and what their start costs."""

from __future__ import annotations

import time

from bench.report import Report
from bench.scale import cpu_used, resident
from bench.scratch import scratch
from tests.local_stack import local_stack

ROUNDS = 7
SPEED = 60.0
NAMES = ("worker", "gateway")


def run(report: Report) -> None:
    """Kill and start each some times beside a stack that has nothing to do. A worker works when it hosts all queues, a
    gateway when it is ready."""
    took: dict[str, list[float]] = {name: [] for name in NAMES}
    cost: dict[str, list[float]] = {name: [] for name in NAMES}
    memory: dict[str, list[float]] = {name: [] for name in NAMES}
    with scratch() as folder, local_stack(folder, SPEED) as stack:
        for _ in range(ROUNDS):
            for name in NAMES:
                stack.kill(name)
                began = time.perf_counter()
                stack.start(name)
                took[name].append(time.perf_counter() - began)
                cost[name].append(cpu_used(stack.pid(name)))
                memory[name].append(resident(stack.pid(name)))
    for name in NAMES:
        report.add(f"a killed {name}, from its start until it works", "s", took[name])
        report.add(f"CPU of a {name}'s start", "s", cost[name])
        report.add(f"memory of a {name} that has just started", "MiB", memory[name])
