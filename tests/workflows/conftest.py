"""A worker that hosts the real workflows with activities that have no outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from contracts import queues
from contracts.catalogue import CREATE_CLUSTER
from contracts.cluster import ClusterSpec, RecordChange
from contracts.names import operation_id
from contracts.operation import Origin, Progress, Start
from tests.conftest import a_dev_server, a_time_skipping_server
from tests.workflows.fakes import REGION, FakeAccount
from worker.platform import restrictions
from workflows.registry import ENTITIES, LOOKUPS, OPERATIONS


class PreparedOnce(SandboxedWorkflowRunner):
    """Temporal's sandbox with its restrictions on our workflows, too, which the product's workers pass through: what is
    not deterministic in them fails here. Each is checked by the first worker that hosts it, not by every test's."""

    checked: ClassVar[set[type]] = set()

    def prepare_workflow(self, defn: Any) -> None:
        if defn.cls not in self.checked:
            super().prepare_workflow(defn)
            self.checked.add(defn.cls)


def runner() -> PreparedOnce:
    return PreparedOnce(restrictions=restrictions())


@asynccontextmanager
async def hosting(
    client: Client, account: FakeAccount, workflows: Sequence[type] = (*OPERATIONS, *LOOKUPS)
) -> AsyncIterator[None]:
    """``workflows``: what operations and lookups are hosted; the fewer, the sooner their worker is ready."""
    async with AsyncExitStack() as stack:
        for queue, hosted in ((queues.WORKFLOWS, workflows), (queues.ENTITIES, ENTITIES)):
            await stack.enter_async_context(
                Worker(client, task_queue=queue, workflows=hosted, workflow_runner=runner())
            )
        activities = account.activities()
        for queue in (queues.PLATFORM, queues.WAIT, queues.KUBERNETES, queues.aws(REGION)):
            await stack.enter_async_context(Worker(client, task_queue=queue, activities=activities))
        yield


@pytest.fixture
def account() -> FakeAccount:
    return FakeAccount()


@pytest.fixture
async def client(request: pytest.FixtureRequest, account: FakeAccount) -> AsyncIterator[Client]:
    """A client of a server of the test's own, with workers: one that skips time, or a real one where the test is marked
    ``real_server``. The one that skips time now and then loses an update that comes while an activity begins."""
    server = a_dev_server if request.node.get_closest_marker("real_server") else a_time_skipping_server
    async with server() as environment, hosting(environment.client, account):
        yield environment.client


async def create(client: Client, spec: ClusterSpec, **start: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        CREATE_CLUSTER.name,
        Start[ClusterSpec](
            cluster=spec.tag,
            region=REGION,
            spec=spec,
            origin=Origin(by="alice", role="operator", request_id="r-1"),
            **start,
        ),
        id=operation_id(CREATE_CLUSTER.name, spec.tag),
        task_queue=queues.WORKFLOWS,
    )


async def progress(handle: WorkflowHandle[Any, Any]) -> Progress:
    found: Progress = await handle.query("progress", result_type=Progress)
    return found


async def recorded(client: Client, handle: WorkflowHandle[Any, Any]) -> list[RecordChange]:
    """What an operation has changed in the cluster's record, by its history."""
    changes: list[RecordChange] = []
    async for event in handle.fetch_history_events():
        told = event.signal_external_workflow_execution_initiated_event_attributes
        if told.signal_name == "amend":
            changes += await client.data_converter.decode(told.input.payloads, [RecordChange])
    return changes


async def until(handle: WorkflowHandle[Any, Any], condition: Callable[[Progress], bool]) -> Progress:
    """Wait until an operation's progress fulfils a condition; fails after 20 seconds."""
    async with asyncio.timeout(20):
        while not condition(found := await progress(handle)):
            await asyncio.sleep(0.02)
        return found
