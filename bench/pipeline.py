"""The pipeline's wall clock against a bare script, against its critical path, and against Temporal's own no-op."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.registry import Activities
from bench import bare, noop
from bench.report import Report
from bench.scratch import scratch
from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ClusterSpec
from sandbox import timings
from tests.local_stack import LocalStack, local_stack

REGION = "us-west-2"
SPEED = 10.0
GROUPS = [InstanceGroupSpec(instance_type="ml.g5.8xlarge", count=2)]
POD_START = 22.0
"""Image pull and start of a pod in the sandbox."""

CRITICAL_PATH = (
    timings.EKS_CREATE
    + timings.ADDON_CREATE
    + timings.HYPERPOD_CREATE
    + timings.NODE_BOOT
    + timings.NODE_LIFECYCLE
    + timings.NODE_REGISTER
    + POD_START
)
"""Sandbox seconds: control plane, an add-on, the HyperPod cluster, a node, its pods. Everything else fits beside it."""


def run(report: Report, rounds: int) -> None:
    """Alternate pipeline and bare script on one sandbox, so that both see the same machine."""
    with scratch() as folder, local_stack(folder, SPEED) as stack:
        stack.sandbox.put("/quotas", json={"vpcs": 500, "elastic-ips": 500, "ml.g5.8xlarge": 500})
        pipelines: list[float] = []
        scripts: list[float] = []
        per_activity: list[float] = []
        noops: list[float] = []
        for number in range(rounds):
            seconds, activities = pipeline(stack, f"bench-{number}")
            pipelines.append(seconds)
            scripts.append(script(stack, f"bare-{number}"))
            per_activity.append(orchestration(stack, f"bench-{number}"))
            noops.append(asyncio.run(noop_seconds(stack, activities)))
        path = CRITICAL_PATH / SPEED
        report.add("create-cluster, clock ×10", "s", pipelines)
        report.add("bare asyncio script, same calls", "s", scripts, baseline=True)
        report.add("critical path of the dependency graph", "s", [path], baseline=True)
        ratios = [ours / theirs for ours, theirs in zip(pipelines, scripts, strict=True)]
        report.add("create-cluster / bare script", "", ratios, "≤ 1.05")
        report.add("create-cluster / critical path", "", [ours / path for ours in pipelines], "≤ 1.10")
        report.add("orchestration per activity in create-cluster", "ms", [value * 1000 for value in per_activity])
        report.add(
            "Temporal's no-op activity, as many in a row", "ms", [value * 1000 for value in noops], baseline=True
        )
        added = [ours / theirs for ours, theirs in zip(per_activity, noops, strict=True)]
        report.add("orchestration / no-op", "", added, "≤ 1.20")


def pipeline(stack: LocalStack, tag: str) -> tuple[float, int]:
    """Wall clock of one creation through the gateway, and how many activities it had."""
    began = time.perf_counter()
    body = {"tag": tag, "instance_groups": [group.model_dump(mode="json") for group in GROUPS]}
    stack.gateway.post("/clusters", json=body).raise_for_status()
    ended = stack.until(f"create-cluster/{tag}", lambda o: o["phase"] in ("succeeded", "blocked", "aborted", "failed"))
    if ended["phase"] != "succeeded":
        raise RuntimeError(f"create-cluster/{tag} {ended['phase']}: {ended['problem']}")
    return time.perf_counter() - began, len(asyncio.run(_activities(stack, tag)))


def script(stack: LocalStack, tag: str) -> float:
    """Wall clock of the bare script on the same sandbox."""
    environment = stack.environment("worker")
    os.environ.update({k: v for k, v in environment.items() if k.startswith(("AWS_", "INSTANTSTART_", "KUBE"))})
    activities = Activities()
    began = time.perf_counter()
    asyncio.run(bare.create(activities, ClusterSpec(tag=tag, instance_groups=GROUPS), REGION))
    return time.perf_counter() - began


def orchestration(stack: LocalStack, tag: str) -> float:
    """Seconds that Temporal and the engine take for an activity: from scheduled to started, and from completed to the
    workflow's next word. Median over the activities of one creation."""
    spans = asyncio.run(_activities(stack, tag))
    ordered: list[float] = sorted(span["overhead"] for span in spans)
    return ordered[len(ordered) // 2]


async def noop_seconds(stack: LocalStack, count: int) -> float:
    """Median overhead, measured in the same way, of ``count`` no-op activities in a row on the same server."""
    client = await _client(stack)
    async with Worker(
        client,
        task_queue="bench-noop",
        workflows=[noop.NoOps],
        activities=[noop.no_op],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        handle = await client.start_workflow(
            noop.NoOps.run, count, id=f"noop-{time.time_ns()}", task_queue="bench-noop"
        )
        await handle.result()
    spans = await spans_of(client, handle.id)
    ordered: list[float] = sorted(span["overhead"] for span in spans)
    return ordered[len(ordered) // 2]


async def spans_of(client: Client, workflow_id: str) -> list[dict[str, Any]]:
    """Of each activity in a history: how long it waited to start, and how long its completion waited to be seen."""
    scheduled: dict[int, datetime] = {}
    started: dict[int, datetime] = {}
    finished: list[tuple[int, datetime]] = []
    spans: list[dict[str, Any]] = []
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        at = event.event_time.ToDatetime()
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled[event.event_id] = at
        elif event.HasField("activity_task_started_event_attributes"):
            started[event.activity_task_started_event_attributes.scheduled_event_id] = at
        elif event.HasField("activity_task_completed_event_attributes"):
            finished.append((event.activity_task_completed_event_attributes.scheduled_event_id, at))
        elif event.HasField("workflow_task_completed_event_attributes"):
            for number, done in finished:
                waited = (started[number] - scheduled[number]).total_seconds()
                spans.append({"overhead": waited + (at - done).total_seconds()})
            finished = []
    return spans


async def _activities(stack: LocalStack, tag: str) -> list[dict[str, Any]]:
    return await spans_of(await _client(stack), f"create-cluster/{tag}")


async def _client(stack: LocalStack) -> Client:
    return await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}", data_converter=pydantic_data_converter)
