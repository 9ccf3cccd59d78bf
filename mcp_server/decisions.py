"""Answers to operations that wait or are blocked."""

from __future__ import annotations

import json
from typing import Annotated

from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel, Field, JsonValue, SkipValidation

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.decision import Decision
from contracts.problem import ProblemCode, problem
from mcp_server.arguments import given
from mcp_server.asker import Asker, Who
from mcp_server.asking import Filled, Form, asks_a_person
from mcp_server.operations import Followed, OperationId, followed
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

Reason = Annotated[SkipValidation[str], Field(description="Why, for the history and the audit trail.")]
StageName = Annotated[SkipValidation[str | None], Field(description="The blocked stage; absent: the only one.")]
Attempt = Annotated[
    SkipValidation[int | None],
    Field(description="The stage's attempt that failed, as it was shown: another one is refused."),
]


class Chosen(BaseModel):
    """An answer, and the question that it is for."""

    decision: SkipValidation[str | None]
    answer: SkipValidation[dict[str, JsonValue]]


class NotAsked(BaseModel):
    """The agent brought the answer."""


async def _filled(who: Who, operation: str, answer: dict[str, JsonValue] | None) -> NotAsked | Elicit[Filled]:
    """Ask the person with the options that there really are, where the agent brought no answer."""
    if answer is not None:
        return NotAsked()
    asked = await _question(who, operation)
    if not await asks_a_person(who):
        raise GatewayProblem(
            problem(
                ProblemCode.INVALID,
                f"{asked.question} {_choices(asked)}",
                field="/answer",
                remedy="Show the user the question with its options and its default (`decision` of operation_get), and "
                "send their answer as `answer`.",
                operation=operation,
            )
        )
    return Elicit(asked.question, Form(asked).model)


async def _chosen(
    said: Annotated[ElicitationResult[BaseModel], Resolve(_filled)],
    answer: dict[str, JsonValue] | None,
    decision: str | None,
) -> Chosen:
    """The answer that the agent brought, else the person's own. Raises GatewayProblem where the person gave none."""
    match said:
        case AcceptedElicitation(data=Filled() as filled):
            return Chosen(decision=filled.asked_in.decision.id, answer=filled.answer())
        case AcceptedElicitation():
            return Chosen(decision=decision, answer={} if answer is None else answer)
        case _:
            raise GatewayProblem(
                problem(
                    ProblemCode.DENIED,
                    "the user was asked, and gave no answer: the question stays",
                    remedy="The operation waits on. Ask the user what they want: answer, or abort it.",
                )
            )


async def _question(who: Asker, operation: str) -> Decision:
    """The decision that is asked now. Raises GatewayProblem where none is."""
    now = await who.get(endpoints.GET_OPERATION, id=operation)
    if now.decision is None:
        raise GatewayProblem(
            problem(
                ProblemCode.CONFLICT,
                f"{operation} asks nothing now (phase {now.phase})",
                remedy="Read it again: somebody may have answered before.",
                operation=operation,
            )
        )
    return now.decision


def _choices(asked: Decision) -> str:
    """The fields of an answer with what can be chosen, in one line."""
    options = {name: asked.options.get(name) for name in asked.answer_schema.get("properties") or {}}
    return "Answer with " + "; ".join(
        f"{name} (one of {json.dumps(values)})" if values else name for name, values in options.items()
    )


@tools.tool("Answer a decision", endpoints.GET_OPERATION, endpoints.GET_CALLER, endpoints.DECIDE_OPERATION)
async def operation_decide(
    who: Who,
    chosen: Annotated[Chosen, Resolve(_chosen)],
    operation: OperationId,
    answer: Annotated[
        SkipValidation[dict[str, JsonValue] | None],
        Field(
            description="By the decision's schema, e.g. {'instance_type': 'ml.g5.8xlarge', 'count': 2}. Absent: the "
            "user is asked in a form, where the client has forms."
        ),
    ] = None,
    decision: Annotated[
        SkipValidation[str | None], Field(description="The decision's id; absent: the one that is asked now.")
    ] = None,
) -> Followed:
    """Answer the question that an operation waits on (phase waiting_for_decision). The first valid answer wins; an
    answer that is not valid is refused, and the question stays.

    Use it with the user's own choice: look at the options of operation_get and ask; do not choose for the user. Not for
    approvals and not for blocked stages (operation_retry).
    """
    body = given(decision=chosen.decision, answer=chosen.answer)
    return followed(await who.get(endpoints.DECIDE_OPERATION, body, id=operation))


@tools.tool("Retry a blocked stage", endpoints.RETRY_OPERATION)
async def operation_retry(
    who: Who,
    operation: OperationId,
    stage: StageName = None,
    attempt: Attempt = None,
    corrections: Annotated[
        SkipValidation[dict[str, JsonValue] | None],
        Field(description="JSON merge patch for the operation's spec, e.g. {'network': {'vpc_cidr': '10.91.0.0/16'}}."),
    ] = None,
) -> Followed:
    """Try a blocked stage again (phase blocked), as it was or with corrected input. Finished stages are not done again.

    Use it after the cause named in the stage's problem has gone, or with the correction that its remedy asks for. Not
    for operations that have ended: start those again.
    """
    body = given(stage=stage, attempt=attempt, corrections=corrections)
    return followed(await who.get(endpoints.RETRY_OPERATION, body, id=operation))


@tools.tool("Abort an operation", endpoints.ABORT_OPERATION)
async def operation_abort(who: Who, operation: OperationId, reason: Reason = "") -> Followed:
    """End an operation without doing more. What exists stays, and the result lists it.

    Use it when the user wants to stop, or when a blocked stage cannot be helped. Not to undo: that is a teardown.
    """
    return followed(await who.get(endpoints.ABORT_OPERATION, given(reason=reason), id=operation))


@tools.tool("Skip a blocked stage", endpoints.SKIP_STAGE, toolset=Toolset.APPROVALS)
async def operation_skip(
    who: Who, operation: OperationId, stage: StageName = None, attempt: Attempt = None
) -> Followed:
    """Leave a blocked stage out and go on, where the stage allows it. Takes a person's own token, not an agent's."""
    body = given(stage=stage, attempt=attempt)
    return followed(await who.get(endpoints.SKIP_STAGE, body, id=operation))


@tools.tool("Approve an operation", endpoints.APPROVE_OPERATION, toolset=Toolset.APPROVALS)
async def operation_approve(
    who: Who,
    operation: OperationId,
    plan_hash: Annotated[
        SkipValidation[str], Field(description="The operation's plan_hash as the person has seen it.")
    ],
    reason: Reason = "",
) -> Followed:
    """Approve exactly the plan that was shown (phase waiting_for_approval). Takes a person's own token, not an agent's.

    Use it only when the person has seen what will be done and says yes to it.
    """
    body = given(plan_hash=plan_hash, reason=reason)
    return followed(await who.get(endpoints.APPROVE_OPERATION, body, id=operation))


@tools.tool("Reject an operation", endpoints.REJECT_OPERATION, toolset=Toolset.APPROVALS)
async def operation_reject(who: Who, operation: OperationId, reason: Reason = "") -> Followed:
    """Refuse what an agent asks for (phase waiting_for_approval): it ends without a change. Takes a person's token."""
    return followed(await who.get(endpoints.REJECT_OPERATION, given(reason=reason), id=operation))
