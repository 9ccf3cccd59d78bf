"""What somebody waits for is taken before operations that wait, on the queues that both share."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from api.temporal import Temporal
from contracts import queues

OPERATIONS, LOOK_UPS = 40, 5


@workflow.defn(name="asks")
class Asks:
    @workflow.run
    async def run(self, name: str) -> str:
        return await workflow.execute_activity("tells", name, start_to_close_timeout=timedelta(seconds=30))


async def test_a_look_up_overtakes_the_operations_that_wait(dev_server: WorkflowEnvironment) -> None:
    client: Client = dev_server.client
    done: list[str] = []

    @activity.defn(name="tells")
    async def tells(name: str) -> str:
        done.append(name)
        return name

    own = uuid.uuid4().hex[:8]
    operations = [
        await client.start_workflow("asks", "operation", id=f"{own}-{number}", task_queue=queues.WORKFLOWS)
        for number in range(OPERATIONS)
    ]
    temporal = Temporal(client, 10, 10)
    temporal._pollers[queues.WORKFLOWS, False] = (float("inf"), True)  # the worker comes last here, to find a backlog
    asked = [
        asyncio.ensure_future(temporal.execute("asks", "look-up", f"{own}-look-up-{number}", str, 60))
        for number in range(LOOK_UPS)
    ]
    for number in range(LOOK_UPS):
        await _is_there(client, f"{own}-look-up-{number}")
    async with Worker(
        client,
        task_queue=queues.WORKFLOWS,
        workflows=[Asks],
        activities=[tells],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=2,
        max_concurrent_activities=1,
        max_concurrent_activity_task_polls=1,
        disable_eager_activity_execution=True,
    ):
        await asyncio.gather(*asked)
        # In turn they would be the last. That each is first of all is not promised: a queue has several partitions.
        places = [place for place, name in enumerate(done) if name == "look-up"]
        assert sum(places) / LOOK_UPS < OPERATIONS / 2
        await asyncio.gather(*(operation.result() for operation in operations))


async def _is_there(client: Client, workflow_id: str) -> None:
    while True:
        try:
            await client.get_workflow_handle(workflow_id).describe()
            return
        except RPCError:
            await asyncio.sleep(0.05)
