"""What tools that start something answer: the operation, and how its end is learned."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from contracts.left_behind import remains_lines, remains_of
from contracts.model import Model
from contracts.operation import Operation, Phase


class Started(Model):
    """An operation that goes on by itself. It is not done: ``status_tool`` tells when it is."""

    operation: str
    """Its ID, a Temporal workflow ID. Asking for the same again gives the same operation."""
    kind: str
    cluster: str
    phase: Phase
    detail: str | None = None
    stages: list[str] = Field(default_factory=list)
    plan_hash: str
    """Of what will be carried out: an approval is bound to it."""
    status_tool: str
    """The tool that decides completion."""
    status_arguments: dict[str, Any] = Field(default_factory=dict)
    next: str
    """What to do now, in one or two sentences."""


def started(operation: Operation, status_tool: str) -> Started:
    """The answer to a start."""
    arguments = {"operation": operation.id} if status_tool.startswith("operation_") else {"cluster": operation.cluster}
    return Started(
        operation=operation.id,
        kind=operation.kind,
        cluster=operation.cluster,
        phase=operation.phase,
        detail=operation.detail,
        stages=[stage.name for stage in operation.stages],
        plan_hash=operation.plan_hash,
        status_tool=status_tool,
        status_arguments=arguments,
        next=what_next(operation),
    )


def what_next(operation: Operation) -> str:
    """What the caller does now."""
    match operation.phase:
        case Phase.WAITING_FOR_APPROVAL:
            return (
                "Nothing has been changed yet: a person must approve exactly this plan "
                f"(hash {operation.plan_hash}) in the console or with `instantstart operation approve {operation.id}`. "
                "Tell the user so; then follow it with operation_wait. You cannot approve it."
            )
        case Phase.WAITING_FOR_DECISION:
            return (
                "It asks a question: show the user `decision` of operation_get, and answer with operation_decide. "
                "Where your token is an agent's, a person answers what costs or destroys, in the console or with "
                f"`instantstart operation decide {operation.id}`: tell the user so, and go on waiting."
            )
        case Phase.BLOCKED:
            return (
                "A stage is blocked: tell the user its problem and remedy (operation_get), "
                "then operation_retry or operation_abort."
            )
        case Phase.SUCCEEDED:
            return "It has succeeded, and the result is verified."
        case Phase.ABORTED | Phase.FAILED:
            ended = "It has ended without success: tell the user `problem` of operation_get."
            remains = remains_of(operation.result, {stage.name: stage.title for stage in operation.stages})
            return ended if remains is None else "\n".join([ended, *remains_lines(remains)])
        case _:
            return "It runs. Follow it with operation_wait until it has ended; do not report success before."
