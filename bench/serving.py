"""Serving: reading commands, two hundred deployments on one cluster, and a pool's worker against a new rollout."""

from __future__ import annotations

import json
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.report import Report, percentile
from bench.scale import resident
from bench.scratch import scratch
from contracts.command_report import ParseRequest
from contracts.command_report import report as reported
from contracts.commands import parse
from tests.local_stack import LocalStack, local_stack

TAG = "serving"
SPLIT = "shlex.split alone"
TYPE, GPUS = "ml.p5.48xlarge", 8
DEPLOYMENTS, NODES = 200, 27
SETUP_SPEED, SPEED = 240.0, 30.0
AT_ONCE = 8
SAMPLES = 30
LIMIT = 1800.0
ENDED = ("succeeded", "blocked", "aborted", "failed")
MODEL = "Qwen/Qwen3-0.6B"
COMMAND = f"vllm serve {MODEL} --port 8000 --max-model-len 1280"
LONG = (
    "vllm serve /s3/models/meta-llama-3-70b --served-model-name llama --host 0.0.0.0 --port 8000 -tp 8 "
    """--hf-overrides '{"rope_scaling": {"type": "yarn", "factor": 4.0}}' --compilation-config '{"level": 3}' \\\n"""
    "  --max-model-len 32768 --gpu-memory-utilization=0.92 --enable-prefix-caching --trust-remote-code"
)


def run(report: Report, rounds: int) -> None:
    commands(report)
    with scratch() as folder, local_stack(folder, SETUP_SPEED) as stack:
        _cluster(stack)
        stack.sandbox.post("/clock", json={"speed": SPEED}).raise_for_status()
        pools(stack, report, rounds)
        many(stack, report)


def commands(report: Report) -> None:
    """Commands read each second; the baseline is the standard library's split alone."""
    for name, work in (
        (SPLIT, lambda: shlex.split(LONG)),
        ("parse", lambda: parse(LONG)),
        ("parse and lint", lambda: reported(ParseRequest(command=LONG, gpu_count=8, port=8000))),
    ):
        samples = []
        for _ in range(5):
            began, count = time.perf_counter(), 0
            while (took := time.perf_counter() - began) < 0.5:
                work()
                count += 1
            samples.append(count / took)
        baseline = name == SPLIT
        report.add(f"{name}, a command of {len(LONG)} characters", "/s", samples, baseline=baseline)


def pools(stack: LocalStack, report: Report, rounds: int) -> None:
    """One worker from a service to another, against a deployment of the same command made anew: both until the model
    has answered."""
    _create(stack, "model-pools", {"name": "pool", "command": COMMAND, "gpu_count": 1, "replicas": 2})
    _ended(stack, f"create-model-pool/{TAG}/pool")
    _assign(stack, {"one": 1})
    moves, rollouts = [], []
    for number in range(rounds):
        wish = {"two": 2} if number % 2 == 0 else {"one": 2}
        moves.append(_timed(lambda wish=wish: _assign(stack, wish)))
        name = f"fresh-{number}"
        rollouts.append(_timed(lambda name=name: _deploy(stack, name)))
        _delete(stack, f"deployments/{name}", f"delete-deployment/{TAG}/{name}")
    report.add(f"a pool's workers to another service, clock ×{SPEED:g}", "s", moves)
    report.add("the same model as a new deployment", "s", rollouts, baseline=True)
    ratios = [move / rollout for move, rollout in zip(moves, rollouts, strict=True)]
    report.add("reassignment / new rollout", "", ratios, "< 1")
    _delete(stack, "model-pools/pool", f"delete-model-pool/{TAG}/pool")


def many(stack: LocalStack, report: Report) -> None:
    """Two hundred deployments, each an operation of its own, then the views of them."""
    before = resident(stack.pid("worker"))
    names = [f"model-{number}" for number in range(DEPLOYMENTS)]
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(lambda name: _deploy(stack, name), names))
    report.add(
        f"{DEPLOYMENTS} deployments until each has answered, {AT_ONCE} at once", "s", [time.perf_counter() - began]
    )
    report.add("memory of the worker before", "MiB", [before])
    report.add("memory of the worker after", "MiB", [resident(stack.pid("worker"))])
    for path in ("deployments", "services", f"deployments/{names[0]}"):
        samples, size = [], 0
        for _ in range(SAMPLES):
            began = time.perf_counter()
            size = len(stack.gateway.get(f"/clusters/{TAG}/{path}").raise_for_status().content)
            samples.append((time.perf_counter() - began) * 1000)
        shown = path.replace(names[0], "{name}")
        report.add(f"GET …/{shown} with {DEPLOYMENTS}, {size / 1024:.0f} KiB, p50", "ms", [percentile(samples, 0.5)])
        report.add(f"GET …/{shown}, p95", "ms", [percentile(samples, 0.95)])


def _cluster(stack: LocalStack) -> None:
    stack.sandbox.put(
        "/quotas", json={"vpcs": 50, "elastic-ips": 50, TYPE: NODES, "ml.g5.8xlarge": 2}
    ).raise_for_status()
    groups: list[dict[str, Any]] = [
        {"name": "base", "instance_type": "ml.g5.8xlarge", "count": 1},
        {"name": "gpus", "instance_type": TYPE, "count": NODES},
    ]
    stack.gateway.post("/clusters", json={"tag": TAG, "instance_groups": groups}).raise_for_status()
    _ended(stack, f"create-cluster/{TAG}")


def _deploy(stack: LocalStack, name: str) -> None:
    _create(stack, "deployments", {"name": name, "command": COMMAND, "gpu_count": 1, "instance_types": [TYPE]})
    _ended(stack, f"create-deployment/{TAG}/{name}")


def _assign(stack: LocalStack, wish: dict[str, int]) -> None:
    stack.gateway.put(f"/clusters/{TAG}/model-pools/pool/assignments", json={"assignments": wish}).raise_for_status()
    _ended(stack, f"assign-model-pool/{TAG}/pool")


def _create(stack: LocalStack, path: str, body: dict[str, Any]) -> None:
    stack.gateway.post(f"/clusters/{TAG}/{path}", json=body).raise_for_status()


def _delete(stack: LocalStack, path: str, identifier: str) -> None:
    stack.gateway.delete(f"/clusters/{TAG}/{path}").raise_for_status()
    _ended(stack, identifier)


def _ended(stack: LocalStack, identifier: str) -> None:
    ended = stack.until(identifier, lambda operation: operation["phase"] in ENDED, limit=LIMIT)
    if ended["phase"] != "succeeded":
        raise RuntimeError(f"{identifier} {ended['phase']}: {json.dumps(ended['problem'])}")


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
