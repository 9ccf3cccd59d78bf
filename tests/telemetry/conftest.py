"""A stack that tells everything, and a cluster that was created on it while its worker was killed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from cli.stack.folder import ROOT
from cli.stack.ports import free_port, is_free
from tests.local_stack import LocalStack, local_stack
from tests.mcp.conftest import client_of
from tests.telemetry.collector import Collector, Span, collecting

OPERATION = "create-cluster/told"
THROTTLED = {"service": "ec2", "operation": "CreateVpc", "times": 1, "code": "RequestLimitExceeded"}
"""Met by a client that does not try again itself: the activity fails, and is tried again."""
ENDS = ("succeeded", "blocked", "aborted", "failed")

_LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')

Series = dict[str, set[frozenset[str]]]
"""Names of metrics as they are shown, with the sets of labels that they have."""


@dataclass
class Told:
    """What a run told."""

    stack: LocalStack
    collector: Collector
    ended: dict[str, Any]
    worker_metrics: int
    """Port."""
    gateway_metrics: int
    scraped: Series = field(default_factory=dict)
    before_kill: int = 0
    """Spans that had come when the worker was killed."""

    @property
    def trace(self) -> list[Span]:
        """The trace of the request that started the operation."""
        found = next(span for span in self.collector.spans if span.name == "StartWorkflow:create-cluster")
        return self.collector.traces()[found.trace]

    def scrape(self) -> None:
        """Add what the processes show now."""
        for port in (self.worker_metrics, self.gateway_metrics):
            _add(self.scraped, port)


@workflow.defn(name="fails")
class Fails:
    """A workflow with a defect: its task fails, as one does that cannot be replayed."""

    @workflow.run
    async def run(self) -> None:
        raise RuntimeError("a defect")


def _add(series: Series, port: int) -> None:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").raise_for_status().text
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition("{") if "{" in line else line.partition(" ")
            series.setdefault(name, set()).add(frozenset(_LABEL.findall(rest)))


async def _fail(temporal: str, series: Series) -> None:
    """What Temporal's SDK shows when a workflow task fails."""
    port = free_port()
    served = PrometheusConfig(
        bind_address=f"127.0.0.1:{port}", counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True
    )
    runtime = Runtime(telemetry=TelemetryConfig(metrics=served, attach_service_name=False))
    client = await Client.connect(temporal, runtime=runtime)
    async with Worker(client, task_queue="fails", workflows=[Fails], workflow_runner=UnsandboxedWorkflowRunner()):
        handle = await client.start_workflow(
            "fails", id="fails", task_queue="fails", execution_timeout=timedelta(minutes=5)
        )
        while "temporal_workflow_task_execution_failed_total" not in series:
            _add(series, port)
            await asyncio.sleep(0.1)
        await handle.terminate()


async def _call_a_tool(stack: LocalStack) -> None:
    async with client_of(f"{stack.settings.gateway_url}/mcp", stack.token) as client:
        answer = await client.call_tool("cluster_list_all", {})
        assert not answer.is_error


def _ask_on_the_command_line(stack: LocalStack, collector: Collector) -> None:
    """Start the operation as a person does whose command line traces."""
    env = {
        **os.environ,
        "INSTANTSTART_URL": stack.settings.gateway_url,
        "INSTANTSTART_TOKEN": stack.token,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
    }
    spec = ["--instance-type", "ml.g5.8xlarge", "--availability-zone", "us-west-2a"]
    command = [sys.executable, "-m", "cli", "cluster", "create", "told", *spec]
    subprocess.run(command, env=env, cwd=ROOT, check=True, capture_output=True)


def _running(operation: dict[str, Any], stage: str) -> bool:
    return any(each["name"] == stage and each["state"] == "running" for each in operation["stages"])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    worker, gateway = two_ports()
    with collecting() as collector, pytest.MonkeyPatch.context() as patched:
        patched.setenv("INSTANTSTART_METRICS_ADDRESS", f"127.0.0.1:{worker}")
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "INSTANTSTART_LOG_FORMAT": "json",
            "INSTANTSTART_POLL_SECONDS": "0.25",
        }
        with local_stack(tmp_path_factory.mktemp("told"), 200.0, env) as stack:
            found = Told(stack, collector, {}, worker, gateway)
            stack.sandbox.post("/faults", json=[THROTTLED]).raise_for_status()
            _ask_on_the_command_line(stack, collector)
            stack.until(OPERATION, lambda operation: _running(operation, "hyperpod"))
            found.scrape()
            collector.until(lambda spans: any(span.name == "sagemaker.CreateCluster" for span in spans))
            found.before_kill = len(collector.spans)
            stack.kill("worker")
            stack.start("worker")
            found.ended = stack.until(OPERATION, lambda operation: operation["phase"] in ENDS)
            assert found.ended["phase"] == "succeeded", found.ended
            asyncio.run(_call_a_tool(stack))
            refused = httpx.get(
                f"{stack.settings.gateway_url}/api/v1/operations", headers={"Authorization": "Bearer isk_unknown"}
            )
            assert refused.status_code == 401
            with stack.gateway.stream("GET", f"/operations/{OPERATION}/events") as events:
                next(events.iter_lines())
            asyncio.run(_fail(f"127.0.0.1:{stack.settings.ports.temporal}", found.scraped))
            collector.until(lambda spans: any(span.name == "CompleteWorkflow:create-cluster" for span in spans))
            found.scrape()
            yield found


def two_ports() -> tuple[int, int]:
    """A free port whose next one is free, too: the gateway of a local stack serves its metrics there."""
    while True:
        port = free_port()
        if port < 65535 and is_free(port + 1):
            return port, port + 1
