"""Latency of the gateway with a thousand operations present."""

from __future__ import annotations

import time

import httpx

from bench.report import Report, percentile
from bench.scratch import scratch
from cli.stack import tokens
from tests.local_stack import LocalStack, local_stack

PRESENT = 1000
SAMPLES = 300


def run(report: Report) -> None:
    with scratch() as folder, local_stack(folder, 1.0) as stack, _agent(stack) as agent:
        # An agent's creation waits for a person: present, and at rest.
        for number in range(PRESENT):
            _post(agent, f"present-{number}")
        posts = [_post(agent, f"measured-{number}") for number in range(SAMPLES)]
        gets = [_get(agent, f"create-cluster/present-{number}") for number in range(SAMPLES)]
        lists = [_get(agent, "", page_size="20") for _ in range(30)]
    for name, samples, goal in (
        ("POST /clusters → 202", posts, "p95 ≤ 150 ms"),
        ("GET /operations/{id}", gets, "p95 ≤ 50 ms"),
        ("GET /operations, page of 20", lists, ""),
    ):
        report.add(f"{name}, p50, {PRESENT} operations present", "ms", [percentile(samples, 0.5)])
        report.add(f"{name}, p95, {PRESENT} operations present", "ms", [percentile(samples, 0.95)], goal)


def _agent(stack: LocalStack) -> httpx.Client:
    """A client with an agent's token, on one connection."""
    made = tokens.run(stack.settings.folder, "add", "bench-agent", "agent")
    return httpx.Client(
        base_url=f"{stack.settings.gateway_url}/api/v1",
        headers={"Authorization": f"Bearer {made.stdout.strip()}"},
        timeout=30,
    )


def _post(client: httpx.Client, tag: str) -> float:
    began = time.perf_counter()
    answer = client.post("/clusters", json={"tag": tag})
    milliseconds = (time.perf_counter() - began) * 1000
    if answer.status_code != 202:
        raise RuntimeError(f"{answer.status_code}: {answer.text}")
    return milliseconds


def _get(client: httpx.Client, identifier: str, **query: str) -> float:
    began = time.perf_counter()
    client.get(f"/operations/{identifier}" if identifier else "/operations", params=query).raise_for_status()
    return (time.perf_counter() - began) * 1000
