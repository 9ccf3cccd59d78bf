"""What Temporal tells of all workflows, and what is kept of a run that has failed."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowExecution, WorkflowHistory

from contracts.catalogue import CLUSTER_WORKFLOW, KINDS, MODEL_POOL_WORKFLOW
from tests.chaos.invariants import Run
from tests.chaos.schedule import Schedule
from tests.local_stack import LocalStack

LASTING = {*KINDS, CLUSTER_WORKFLOW, MODEL_POOL_WORKFLOW}
"""Types of workflows that must never fail. Look-ups may: they are asked again."""


def runs(stack: LocalStack) -> list[Run]:
    """Every run of an operation or entity."""
    return asyncio.run(_runs(stack))


async def _runs(stack: LocalStack) -> list[Run]:
    client = await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}")
    found = []
    async for each in client.list_workflows():
        if each.workflow_type in LASTING:
            found.append(await _run(client, each))
    return found


async def _run(client: Client, each: WorkflowExecution) -> Run:
    handle = client.get_workflow_handle(each.id, run_id=each.run_id)
    described = await handle.describe()
    pending = described.raw_description.pending_workflow_task
    causes = await _failures(await handle.fetch_history())
    return Run(each.id, described.status.name if described.status else "", pending.attempt, causes)


_BY_CHANCE = (
    # A decision that was made while something else came in: the task is done again at once.
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
)


STARVED = "TMPRL1101"
"""A workflow did not yield for two seconds: so it looks on a machine that is overloaded. The task is done again; one
that really never yields is found by the attempts of its task."""


async def _failures(history: WorkflowHistory) -> tuple[str, ...]:
    failed = [
        event.workflow_task_failed_event_attributes
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]
    return tuple(
        f"{WorkflowTaskFailedCause.Name(each.cause)} {each.failure.message}"[:500]
        for each in failed
        if each.cause not in _BY_CHANCE and STARVED not in each.failure.message
    )


def save(stack: LocalStack, schedule: Schedule, faults: list[str], lines: list[str], folder: Path) -> None:
    """Keep schedule, violations, ledger, histories and logs of a run in ``folder``. What is dead is left out."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "schedule.txt").write_text(f"{schedule}\n")
    (folder / "schedule.json").write_text(json.dumps(schedule.document(), indent=2))
    (folder / "violations.txt").write_text("\n".join(faults) + "\n")
    (folder / "happened.txt").write_text("\n".join(lines) + "\n")
    shutil.copytree(stack.settings.folder.logs, folder / "logs")
    if "sandbox" not in stack.down():
        ledger = stack.sandbox.get("/ledger", timeout=120).json()
        (folder / "ledger.json").write_text(json.dumps(ledger, indent=1))
    if "temporal" not in stack.down():
        (folder / "histories").mkdir()
        asyncio.run(_histories(stack, folder / "histories"))


async def _histories(stack: LocalStack, folder: Path) -> None:
    client = await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}")
    async for each in client.list_workflows():
        if each.workflow_type in LASTING:
            history: Any = await client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history()
            name = f"{each.id.replace('/', '.')}.{each.run_id[:8]}.json.gz"
            (folder / name).write_bytes(gzip.compress(history.to_json().encode()))
