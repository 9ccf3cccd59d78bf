"""What an overview page asks of the gateway, with 200 clusters and 2,000 operations present.

The workflows are stand-ins under the real names, with memos and search attributes as operations and clusters leave
them: entities and open operations rest without a worker, the others have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from temporalio import workflow
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.report import Report, percentile
from bench.scratch import scratch
from contracts import queues, visibility
from contracts.catalogue import CREATE_CLUSTER
from contracts.cluster import MEMO_RECORD, MEMO_SUMMARY, ClusterRecord, ClusterSummary
from contracts.decision import Decision
from contracts.eks import ControlPlane
from contracts.hyperpod import HyperPodCluster, Node
from contracts.names import cluster_id
from contracts.operation import MEMO_LABEL, MEMO_PROGRESS, Label, Phase, Progress, Stage, StageState
from contracts.problem import ProblemCode, problem
from tests.api.conftest import dev_server, running_gateway

CLUSTERS = 200
OPERATIONS = 2000
NODES = 32
"""Of each cluster; its record, which lists carry along, is as large as that makes it."""
SAMPLES = 60
AT_ONCE = 20
GOAL = "p95 ≤ 300 ms"
RESTING = "bench-resting"
"""A queue that nobody asks."""
STAGES = (
    *("preflight", "network", "identity", "egress", "control_plane", "access", "dependencies", "capacity"),
    *("hyperpod", "storage", "verification"),
)
OPEN = {0: Phase.WAITING_FOR_DECISION, 1: Phase.BLOCKED, 2: Phase.RUNNING}
"""Of every hundred operations these are open; the next ones have failed or were aborted, the rest succeeded."""
ENDED = {3: Phase.FAILED, 4: Phase.FAILED, 5: Phase.ABORTED}


@workflow.defn(name=CREATE_CLUSTER.name)
class Over:
    """An operation that has done everything before it began."""

    @workflow.run
    async def run(self) -> None:
        return


def run(report: Report) -> None:
    asyncio.run(_run(report))


async def _run(report: Report) -> None:
    quiet()
    async with dev_server() as client:
        began = time.perf_counter()
        await fill(client)
        report.note(f"{CLUSTERS} clusters and {OPERATIONS} operations in {time.perf_counter() - began:.0f} s")
        with scratch() as folder:
            async with running_gateway(folder, client) as gateway:
                await all_listed(gateway.viewer)
                for name, path, query in _QUESTIONS:
                    samples = [await _milliseconds(_ask(gateway.viewer, path, query)) for _ in range(SAMPLES)]
                    _add(report, name, samples, GOAL)
                together = [await _milliseconds(_page(gateway.viewer)) for _ in range(SAMPLES)]
                _add(report, "all of these at once", together)
        listed = [await _milliseconds(_list(client)) for _ in range(SAMPLES)]
        _add(report, "Temporal's own list of 50 such operations", listed)


_QUESTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("clusters, page of 50", "/clusters", {"page_size": 50}),
    ("clusters by search, page of 50", "/clusters", {"page_size": 50, "search": "-19"}),
    ("operations that need a person, page of 50", "/operations", {"needs_attention": "true", "page_size": 50}),
    ("operations, page of 50", "/operations", {"page_size": 50}),
    ("failed operations, page of 50", "/operations", {"phase": "failed", "page_size": 50}),
    ("open operations, page of 50", "/operations", {"phase": ["running", "queued", "blocked"], "page_size": 50}),
)


def _add(report: Report, name: str, samples: list[float], goal: str = "") -> None:
    report.add(f"{name}, p50", "ms", [percentile(samples, 0.5)])
    report.add(f"{name}, p95", "ms", [percentile(samples, 0.95)], goal)


async def _milliseconds(work: Awaitable[None]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


async def _ask(viewer: httpx.AsyncClient, path: str, query: dict[str, Any]) -> None:
    (await viewer.get(f"/api/v1{path}", params=query)).raise_for_status()


async def _page(viewer: httpx.AsyncClient) -> None:
    await asyncio.gather(*(_ask(viewer, path, query) for _, path, query in _QUESTIONS))


async def _list(client: Client) -> None:
    """The baseline: one call of Temporal, none of the gateway's work."""
    rows = client.list_workflows(f"WorkflowType = '{CREATE_CLUSTER.name}'", page_size=50)
    await rows.fetch_next_page()


def quiet() -> None:
    """No warnings of Temporal's client: of every memo above 2 KiB, as many are here, it gives one."""
    errors = TelemetryConfig(logging=LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR")))
    Runtime.set_default(Runtime(telemetry=errors), error_if_already_set=False)


async def all_listed(viewer: httpx.AsyncClient) -> None:
    """Wait until the lists, which come a moment late, hold everything that :func:`fill` has made."""
    for noun, expected in (("clusters", CLUSTERS), ("operations", OPERATIONS)):
        while await _count(viewer, noun) < expected:
            await asyncio.sleep(0.2)


async def _count(viewer: httpx.AsyncClient, noun: str) -> int:
    count, page = 0, {"page_size": "200"}
    while True:
        answer = (await viewer.get(f"/api/v1/{noun}", params=page)).raise_for_status().json()
        count += len(answer[noun])
        if "next_page_token" not in answer:
            return count
        page["page_token"] = answer["next_page_token"]


async def fill(client: Client) -> None:
    """Make the clusters and the operations."""
    worker = Worker(client, task_queue=queues.WORKFLOWS, workflows=[Over], workflow_runner=UnsandboxedWorkflowRunner())
    room = asyncio.Semaphore(AT_ONCE)

    async def within(making: Any) -> None:
        async with room:
            await making

    async with worker:
        await asyncio.gather(
            *(within(_cluster(client, number)) for number in range(CLUSTERS)),
            *(within(_operation(client, number)) for number in range(OPERATIONS)),
        )


def _tag(number: int) -> str:
    return f"fleet-{number % CLUSTERS:03}"


async def _cluster(client: Client, number: int) -> None:
    now, tag = datetime.now(UTC), _tag(number)
    record = ClusterRecord(
        tag=tag,
        region="us-west-2",
        created_by="bench",
        created_at=now,
        updated_at=now,
        control_plane=ControlPlane(name=f"eks-{tag}", arn=f"arn:eks:{tag}", status="ACTIVE", kubernetes_version="1.34"),
        hyperpod=HyperPodCluster(name=f"hp-{tag}", arn=f"arn:aws:sagemaker:::cluster/{tag}", status="InService"),
        nodes=[_node(each) for each in range(NODES)],
    )
    summary = ClusterSummary(
        tag=tag,
        region=record.region,
        eks_status="ACTIVE",
        hyperpod_status="InService",
        nodes=record.node_total,
        nodes_ready=record.nodes_ready,
        accelerators=record.accelerator_total,
        created_by="bench",
        created_at=now,
        updated_at=now,
    )
    await client.start_workflow(
        "cluster",
        record,
        id=cluster_id(tag),
        task_queue=queues.ENTITIES,
        memo={MEMO_RECORD: record, MEMO_SUMMARY: summary},
    )


def _node(number: int) -> Node:
    instance = f"i-{number:017x}"
    return Node(
        name=f"hyperpod-{instance}",
        instance_id=instance,
        instance_group="workers",
        instance_type="ml.p5.48xlarge",
        zone="us-west-2b",
        capacity_type="on-demand",
        ready=True,
        accelerators=8,
        accelerator_resource="nvidia.com/gpu",
        efa_interfaces=32,
        health="Schedulable",
    )


async def _operation(client: Client, number: int) -> None:
    phase = OPEN.get(number % 100) or ENDED.get(number % 100, Phase.SUCCEEDED)
    tag, now = _tag(number), datetime.now(UTC)
    label = Label(
        kind=CREATE_CLUSTER.name,
        cluster=tag,
        region="us-west-2",
        started_by="bench",
        spec_hash="0123456789abcdef",
        request_id=f"bench-{number}",
    )
    handle = await client.start_workflow(
        CREATE_CLUSTER.name,
        id=f"{CREATE_CLUSTER.name}/{tag}/{number}",
        task_queue=queues.WORKFLOWS if phase.ended else RESTING,
        memo={MEMO_LABEL: label, MEMO_PROGRESS: _progress(phase, now)},
        search_attributes=_attributes(tag, phase),
    )
    if phase.ended:
        await handle.result()


def _progress(phase: Phase, now: datetime) -> Progress:
    short = problem(ProblemCode.CAPACITY, "no ml.p5.48xlarge left in us-west-2b", remedy="Choose another zone.")
    reached = STAGES.index("hyperpod")
    state = {Phase.BLOCKED: StageState.BLOCKED, Phase.WAITING_FOR_DECISION: StageState.WAITING}.get(phase)
    stages = [
        Stage(
            name=name,
            title=name.replace("_", " ").title(),
            state=StageState.DONE if phase is Phase.SUCCEEDED or place < reached else StageState.PENDING,
            attempt=1,
            started_at=now + timedelta(minutes=place),
            finished_at=now + timedelta(minutes=place + 1),
            detail=f"{name}-0123456789abcdef0 is there",
        )
        for place, name in enumerate(STAGES)
    ]
    if state is not None:
        stages[reached] = stages[reached].model_copy(
            update={"state": state, "finished_at": None, "problem": short if state is StageState.BLOCKED else None}
        )
    return Progress(
        version=20,
        phase=phase,
        stages=stages,
        decision=_decision(now) if phase is Phase.WAITING_FOR_DECISION else None,
        problem=short if phase in (Phase.BLOCKED, Phase.FAILED) else None,
        result={"nodes": NODES} if phase is Phase.SUCCEEDED else None,
        updated_at=now,
    )


def _decision(now: datetime) -> Decision:
    types = [f"ml.p{number}.48xlarge" for number in range(30)]
    zones = [{"instance_type": each, "availability_zone": f"us-west-2{zone}"} for each in types for zone in "abcd"]
    return Decision(
        id="hyperpod",
        question="Which capacity?",
        answer_schema={"type": "object"},
        options={"instance_type": list(types), "combinations": list(zones)},
        asked_at=now,
    )


def _attributes(tag: str, phase: Phase) -> TypedSearchAttributes:
    keywords = {
        visibility.CLUSTER: tag,
        visibility.KIND: CREATE_CLUSTER.name,
        visibility.PHASE: phase.value,
        visibility.STARTED_BY: "bench",
        visibility.REGION: "us-west-2",
    }
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(SearchAttributeKey.for_keyword(name), value) for name, value in keywords.items()
    ]
    attention = SearchAttributeKey.for_bool(visibility.NEEDS_ATTENTION)
    return TypedSearchAttributes([*pairs, SearchAttributePair(attention, phase.needs_attention)])
