"""What a run's history tells beyond its memo: which decisions it accepted."""

from __future__ import annotations

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
