"""What a run's history tells beyond its memo: which decisions it accepted, and what it was started with."""

from __future__ import annotations

from typing import Any

from api.temporal import Temporal


async def accepted_updates(temporal: Temporal, workflow_id: str, run_id: str) -> list[str]:
    """Ids of the updates that a run accepted, in order; refused ones leave no trace.

    Costs one call for each few hundred events, so only where nothing cheaper tells.
    """
    return [
        event.workflow_execution_update_accepted_event_attributes.accepted_request.meta.update_id
        async for event in temporal.history(workflow_id, run_id)
        if event.HasField("workflow_execution_update_accepted_event_attributes")
    ]


async def never_begun(temporal: Temporal, workflow_id: str, run_id: str) -> dict[str, Any] | None:
    """The spec that a run was started with, if it ended before any worker had a look at it; else None: what is carried
    out may be another by then.

    Temporal answers no query of such a run, ever. ("Workflow execution closed before WorkflowTaskStarted event")
    """
    payloads = None
    async for event in temporal.history(workflow_id, run_id):
        if event.HasField("workflow_execution_started_event_attributes"):
            payloads = event.workflow_execution_started_event_attributes.input.payloads
        if event.HasField("workflow_task_completed_event_attributes"):
            return None
    if not payloads:
        return None
    [start] = await temporal.client.data_converter.decode(payloads, [dict[str, Any]])
    found: dict[str, Any] = start["spec"]
    return found
