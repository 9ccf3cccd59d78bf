"""Six features that do not need each other, switched on at once: against the longest of them, and one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.drift_checks import measure
from bench.report import Report
from bench.scratch import scratch
from sandbox import timings
from tests.local_stack import LocalStack, local_stack

TAG = "features"
FEATURES = ("metrics_server", "kuberay", "keda", "fsx_csi", "load_balancer_controller", "container_insights")
SPEED, SETUP_SPEED = 1.0, 60.0
ENDED = ("succeeded", "blocked", "aborted", "failed")

CRITICAL_PATH = timings.ADDON_CREATE
"""Sandbox seconds: an EKS add-on from its creation to ACTIVE. Roles take no time, and the pods of add-ons and charts
start within it."""


def run(report: Report, rounds: int) -> None:
    """All at once, then each by itself, on one cluster; everything is switched off in between."""
    with scratch() as folder, local_stack(folder, SETUP_SPEED) as stack:
        body = {"tag": TAG, "instance_groups": [{"instance_type": "ml.g5.8xlarge", "count": 2}]}
        stack.gateway.post("/clusters", json=body).raise_for_status()
        _ended(stack, f"create-cluster/{TAG}")
        together: list[float] = []
        apart: list[float] = []
        singles: dict[str, list[float]] = {name: [] for name in FEATURES}
        for _ in range(rounds):
            together.append(_measured(stack, FEATURES))
            if not apart:
                measure(report, stack, TAG, "two nodes and the six features")
            _switch(stack, FEATURES, on=False)
            for name in FEATURES:
                singles[name].append(_measured(stack, [name]))
            apart.append(sum(samples[-1] for samples in singles.values()))
            _switch(stack, FEATURES, on=False)
    path = CRITICAL_PATH / SPEED
    report.add(f"six features in one PATCH, clock ×{SPEED:g}", "s", together)
    report.add("critical path of the feature graph", "s", [path], baseline=True)
    report.add("the six one after another", "s", apart, baseline=True)
    for name, samples in singles.items():
        report.add(f"{name} alone", "s", samples)
    report.add("features / critical path", "", [each / path for each in together], "≤ 1.25")
    ratios = [ours / theirs for ours, theirs in zip(together, apart, strict=True)]
    report.add("features / one after another", "", ratios)


def _measured(stack: LocalStack, names: Sequence[str]) -> float:
    """Wall clock of switching features on, on the measured clock."""
    stack.sandbox.post("/clock", json={"speed": SPEED}).raise_for_status()
    took = _switch(stack, names, on=True)
    stack.sandbox.post("/clock", json={"speed": SETUP_SPEED}).raise_for_status()
    return took


def _switch(stack: LocalStack, names: Sequence[str], on: bool) -> float:
    began = time.perf_counter()
    answer = stack.gateway.patch(f"/clusters/{TAG}/features", json={name: {"enabled": on} for name in names})
    _ended(stack, answer.raise_for_status().json()["id"])
    return time.perf_counter() - began


def _ended(stack: LocalStack, identifier: str) -> None:
    ended = stack.until(identifier, lambda operation: operation["phase"] in ENDED, limit=1200)
    if ended["phase"] != "succeeded":
        raise RuntimeError(f"{identifier} {ended['phase']}: {ended['problem']}")
