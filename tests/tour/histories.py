"""The histories of a tour: one of each workflow type and each way that its runs went."""

from __future__ import annotations

from temporalio.client import Client, WorkflowHistory

from tests.local_stack import LocalStack
from tests.tour.drive import Run, Tour

ENDS = {"COMPLETED": "done", "CONTINUED_AS_NEW": "continued"}


async def of_tour(stack: LocalStack, tour: Tour) -> list[tuple[str, str, WorkflowHistory]]:
    """Workflow type, path and history. Of several runs that went alike, the longest history tells most."""
    client = await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}")
    longest: dict[tuple[str, str], WorkflowHistory] = {}
    for run in tour.runs:
        key = (run.workflow_type, path_of(run, tour))
        history = await client.get_workflow_handle(run.workflow_id, run_id=run.run_id).fetch_history()
        if key not in longest or len(longest[key].events) < len(history.events):
            longest[key] = history
    return [(workflow_type, path, history) for (workflow_type, path), history in longest.items()]


def path_of(run: Run, tour: Tour) -> str:
    """What was special about a run: as the tour says, else how it ended."""
    driven = {each.run_id: each.path for each in tour.operations}
    return driven.get(run.run_id) or ENDS.get(run.status, run.status.lower().replace("_", "-"))
