"""From what Temporal knows of a workflow to the operation that every face shows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.converter import DataConverter

from api.rows import Row
from contracts.operation import MEMO_LABEL, MEMO_PROGRESS, Label, Links, Operation, Phase, Progress, Stage, StageState
from contracts.problem import Problem, ProblemCode, problem

ACTIONS = frozenset({"retry", "skip", "abort", "decide", "approve", "reject", "events", "spec"})
"""Last parts of paths below an operation."""

_LIVE = frozenset({StageState.RUNNING, StageState.WAITING})
_STUCK_ATTEMPTS = 3
_TOO_LARGE = "Failure exceeds size limit."
"""What Temporal's server puts in front of the failure of an attempt that is too large to be kept whole."""
_ENCODED = "Encoded failure"
"""What is left of the message of an encrypted one then. (temporalio: DefaultFailureConverterWithEncodedAttributes)"""
_CUT_SHORT = {
    WorkflowExecutionStatus.CANCELED: "cancelled in Temporal; what exists stays",
    WorkflowExecutionStatus.TERMINATED: "terminated in Temporal; what exists stays",
}


@dataclass(frozen=True)
class Seen:
    """An operation as it was at one moment; its links are a :class:`Linker`'s."""

    operation: Operation
    label: Label
    version: int
    open: bool
    active: bool
    """An activity is pending, so details may change without an event."""
    joined: frozenset[str] = frozenset()
    """Idempotency keys of those who asked for the same while it ran."""

    @property
    def etag(self) -> str:
        """A strong entity tag of the document."""
        content = self.operation.model_dump(mode="json", by_alias=True)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f'"{self.version}-{digest[:16]}"'

    @property
    def moment(self) -> tuple[str | None, bool, int, Phase]:
        """Changes with everything but the live details."""
        return self.operation.run_id, self.open, self.version, self.operation.phase


class Linker:
    """Makes absolute links. ``base`` is what callers reach the gateway as."""

    def __init__(self, base: str, ui: str | None, namespace: str) -> None:
        self._base = base.rstrip("/")
        self._ui = ui.rstrip("/") if ui else None
        self._namespace = namespace

    def url(self, path: str) -> str:
        return f"{self._base}{path}"

    def operation(self, workflow_id: str, run_id: str | None = None) -> str:
        """The operation's address; that of one run, where it is named."""
        run = f"?run_id={run_id}" if run_id else ""
        return self.url(f"/api/v1/operations/{_encoded(workflow_id)}{run}")

    def on(self, seen: Seen) -> Seen:
        """``seen`` with its links. An ended run is linked as such: the operation's own address leads to the newest."""
        workflow_id, run_id, ended = seen.operation.id, seen.operation.run_id, not seen.open
        fixed = f"?run_id={run_id}" if ended else ""
        workflow = quote(workflow_id, safe="")
        ui = f"{self._ui}/namespaces/{self._namespace}/workflows/{workflow}/{run_id}/history" if self._ui else None
        links = Links(
            self=self.operation(workflow_id, run_id if ended else None),
            events=self.url(f"/api/v1/operations/{_encoded(workflow_id)}/events{fixed}"),
            temporal=ui,
        )
        return replace(seen, operation=seen.operation.model_copy(update={"links": links}))


def _encoded(workflow_id: str) -> str:
    reserved = workflow_id.rpartition("/")[2] in ACTIONS
    return quote(workflow_id, safe="" if reserved else "/")


async def from_description(found: WorkflowExecutionDescription) -> Seen | None:
    """The operation with its live details; None if the workflow is no operation."""
    seen = await from_row(Row.of(found.raw_description.workflow_execution_info, found.data_converter))
    pending = found.raw_description.pending_activities
    if seen is None:
        return None
    seen = replace(seen, joined=frozenset(found.raw_description.workflow_extended_info.request_id_infos))
    if not seen.open:
        return seen
    details = await _live_details(pending, found.data_converter)
    stages = [
        stage.model_copy(update={"detail": details[stage.name]})
        if stage.state in _LIVE and stage.name in details
        else stage
        for stage in seen.operation.stages
    ]
    changes: dict[str, Any] = {"stages": stages, "detail": seen.operation.detail or details.get("")}
    attempts = found.raw_description.pending_workflow_task.attempt
    if attempts >= _STUCK_ATTEMPTS:
        changes["detail"] = f"a defect of the platform holds it: its workflow task failed {attempts - 1} times"
    return replace(seen, operation=seen.operation.model_copy(update=changes), active=len(pending) > 0)


async def from_row(row: Row) -> Seen | None:
    """The operation by what a list knows of it; None if the workflow is no operation."""
    label = await row.memo(MEMO_LABEL, Label)
    if label is None:
        return None
    noted = await row.memo(MEMO_PROGRESS, Progress)
    progress = _at_end(noted or Progress(plan_hash=label.spec_hash, updated_at=row.start_time), row)
    is_open = row.status in (WorkflowExecutionStatus.RUNNING, None)
    operation = Operation(
        id=row.id,
        kind=label.kind,
        cluster=label.cluster,
        phase=progress.phase,
        detail=progress.detail,
        stages=progress.stages,
        decision=progress.decision if not progress.phase.ended else None,
        problem=progress.problem,
        result=progress.result,
        answers=progress.answers,
        plan_hash=progress.plan_hash or label.spec_hash,
        started_by=label.started_by,
        started_at=row.start_time,
        updated_at=progress.updated_at,
        run_id=row.run_id,
        completion=f"GET /api/v1/operations/{_encoded(row.id)}",
    )
    return Seen(operation, label, progress.version, is_open, False)


def _at_end(progress: Progress, row: Row) -> Progress:
    """What an execution's status says beyond its last progress."""
    if row.status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW, None):
        return progress
    if progress.phase.ended:
        return progress
    changes: dict[str, Any] = {"updated_at": row.close_time or datetime.now(UTC)}
    if row.status in _CUT_SHORT:
        changes |= {"phase": Phase.ABORTED, "detail": _CUT_SHORT[row.status]}
    else:
        changes |= {"phase": Phase.FAILED, "problem": progress.problem or _defect(row)}
    return progress.model_copy(update=changes)


def _defect(row: Row) -> Problem:
    status = row.status.name.lower() if row.status else "unknown"
    return problem(
        ProblemCode.INTERNAL,
        f"the workflow ended as {status} without reporting an outcome",
        remedy="See the workflow in Temporal's Web UI; start the operation again when the cause is mended.",
        operation=row.id,
    )


async def _live_details(pending: Any, converter: DataConverter) -> dict[str, str]:
    """One line for each stage with pending activities, which are named ``<stage>/…``; under ``""`` one for those that
    belong to no stage, such as asking for leases."""
    lines: dict[str, list[str]] = {}
    for activity in pending:
        before, slash, _ = activity.activity_id.partition("/")
        stage = before if slash else ""
        line = await _live_detail(activity, converter)
        if line and line not in lines.setdefault(stage, []):
            lines[stage].append(line)
    return {stage: "; ".join(found[:3]) for stage, found in lines.items() if found}


async def _live_detail(activity: Any, converter: DataConverter) -> str | None:
    if activity.paused or activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED:
        return f"{activity.activity_type.name} is paused in Temporal"
    detail: str | None = None
    if activity.heartbeat_details.payloads:
        beat = (await converter.decode(activity.heartbeat_details.payloads))[0]
        if isinstance(beat, dict) and isinstance(beat.get("detail"), str):
            detail = beat["detail"]
    if activity.HasField("last_failure"):
        last = activity.last_failure
        failure = await converter.decode_failure(last.cause if last.message == _TOO_LARGE else last)
        text = str(getattr(failure, "message", failure))[:300]
        if text == _ENCODED:
            text = getattr(failure, "type", None) or "an error that is too large to be shown"
        again = f"attempt {activity.attempt}, after: {text}"
        detail = f"{detail} ({again})" if detail else again
    return detail


def stage_of(seen: Seen, name: str) -> Stage | None:
    return next((stage for stage in seen.operation.stages if stage.name == name), None)
