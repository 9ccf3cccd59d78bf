"""Deciding: what people and programs answer to an operation that waits or is blocked."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel
from starlette.responses import Response

from api import idempotency, past
from api.auth import Aborter, Action, Approver, Decider, Retrier, Skipper, check_owner, needs_approval
from api.mapping import Seen
from api.operations import OperationId, must_be_open
from api.problems import parse, refuse, wrong_field
from api.services import Parts, Services, accepted
from contracts import queues
from contracts.access import Principal
from contracts.capacity import CapacityAnswer
from contracts.catalogue import KINDS
from contracts.decision import Abort, Answer, Approval, Resolution, is_harmless
from contracts.drain import DrainAnswer
from contracts.operation import Operation, Phase, Stage, StageState
from contracts.problem import ProblemCode
from contracts.requests import AbortRequest, ApproveRequest, DecideRequest, RejectRequest, RetryRequest, SkipRequest

router = APIRouter(prefix="/api/v1/operations", tags=["decisions"])

ANSWERS: dict[str, type[BaseModel]] = {"capacity": CapacityAnswer, "drain": DrainAnswer}
"""What the answers to known decisions look like. Others are the workflow's to judge."""


class _Case:
    """One decision on one operation, from the request to the answer."""

    def __init__(self, services: Services, request: Request, principal: Principal, action: Action, id: str) -> None:
        self.services = services
        self.principal = principal
        self.id = unquote(id)
        self._request = request
        self._action = action
        request.state.operation = self.id

    async def seen(self) -> Seen:
        """The operation. Raises ProblemError: 404, or 403 if it is another's and the caller may not."""
        seen = await self.services.operation(self.id)
        check_owner(self.principal, self._action, seen.operation.started_by)
        return seen

    async def repeated(self, seen: Seen, body: BaseModel) -> tuple[str | None, bool]:
        """The update's id, and whether this very decision was accepted before.

        Raises ProblemError (422) if the Idempotency-Key went with another decision, 409 if the operation has ended.
        """
        key = idempotency.key_of(self._request, self.principal)
        name = idempotency.update_id(key, self.id, self._request.url.path, body)
        if name is not None:
            updates = await past.accepted_updates(self.services.temporal, self.id, seen.operation.run_id or "")
            if idempotency.is_repeated(name, updates):
                return name, True
        must_be_open(seen)
        return name, False

    def answer(self, seen: Seen) -> Response:
        return accepted(seen, self.services.linker(self._request))

    async def send(self, seen: Seen, update: str, argument: BaseModel, update_id: str | None) -> Response:
        """Send the update and answer with the operation as it is then."""
        run_id = seen.operation.run_id or ""
        await self.services.temporal.update(self.id, run_id, update, argument, update_id)
        return self.answer(await self.services.operation(self.id, run_id))


def _blocked_stage(operation: Operation, name: str | None, attempt: int | None) -> Stage:
    """The blocked stage that is meant. Raises ProblemError (409, 422)."""
    blocked = [stage for stage in operation.stages if stage.state is StageState.BLOCKED]
    if name is not None:
        if name not in [stage.name for stage in operation.stages]:
            names = ", ".join(stage.name for stage in operation.stages)
            raise wrong_field("/stage", f"{name!r} is no stage of {operation.id}; its stages: {names}")
        blocked = [stage for stage in blocked if stage.name == name]
    if not blocked:
        what = f"stage {name}" if name else "no stage"
        raise refuse(
            ProblemCode.CONFLICT,
            f"{what} of {operation.id} is {'not ' if name else ''}blocked (phase {operation.phase})",
            operation=operation.id,
            remedy="Read the operation again: somebody may have answered before.",
        )
    if len(blocked) > 1:
        raise wrong_field("/stage", f"several stages are blocked: {', '.join(stage.name for stage in blocked)}")
    if attempt is not None and attempt != blocked[0].attempt:
        raise refuse(
            ProblemCode.CONFLICT,
            f"attempt {attempt} of {blocked[0].name} is not the one that failed last: that is {blocked[0].attempt}",
            operation=operation.id,
            remedy="Read the operation again and answer to its present problem.",
        )
    return blocked[0]


async def _settled(services: Services, seen: Seen, corrections: dict[str, Any]) -> bool:
    """Whether a person has approved, or must approve, what corrections would change. Where nobody tells what is carried
    out, they may."""
    kind = KINDS[seen.operation.kind]
    if not kind.may_be_corrected(corrections):
        return True
    if not kind.grave_by:
        return False
    run_id = seen.operation.run_id
    spec = await services.temporal.query(seen.operation.id, queues.WORKFLOWS, "spec", dict[str, Any], run_id)
    return spec is None or kind.asks_a_person(kind.spec.model_validate(spec))


@router.post("/{id:path}/retry", operation_id="retry_operation", status_code=202, response_model=Operation)
async def retry_operation(
    request: Request,
    services: Parts,
    principal: Retrier,
    id: OperationId,
    body: Annotated[RetryRequest | None, Body()] = None,
) -> Response:
    """Try a blocked stage again, optionally with corrected input. Finished stages are not done again."""
    case = _Case(services, request, principal, Action.RETRY, id)
    wanted = body or RetryRequest()
    seen = await case.seen()
    update_id, repeated = await case.repeated(seen, wanted)
    if repeated:
        return case.answer(seen)
    stage = _blocked_stage(seen.operation, wanted.stage, wanted.attempt)
    if wanted.corrections and needs_approval(principal, await _settled(services, seen, wanted.corrections)):
        raise refuse(
            ProblemCode.DENIED,
            "an approval is bound to the plan that was shown, and corrections change the plan",
            operation=case.id,
            remedy="Ask an operator to retry with these corrections, or retry without.",
        )
    resolution = Resolution(
        action="retry", stage=stage.name, attempt=stage.attempt, corrections=wanted.corrections, by=principal.name
    )
    return await case.send(seen, "resolve", resolution, update_id)


@router.post("/{id:path}/skip", operation_id="skip_stage", status_code=202, response_model=Operation)
async def skip_stage(
    request: Request,
    services: Parts,
    principal: Skipper,
    id: OperationId,
    body: Annotated[SkipRequest | None, Body()] = None,
) -> Response:
    """Leave a blocked stage out, where the operation allows it."""
    case = _Case(services, request, principal, Action.SKIP, id)
    wanted = body or SkipRequest()
    seen = await case.seen()
    update_id, repeated = await case.repeated(seen, wanted)
    if repeated:
        return case.answer(seen)
    stage = _blocked_stage(seen.operation, wanted.stage, wanted.attempt)
    if not stage.skippable:
        raise refuse(
            ProblemCode.CONFLICT,
            f"stage {stage.name} cannot be skipped: what follows needs it",
            operation=case.id,
            remedy="Retry it, with corrections if need be, or abort the operation.",
        )
    resolution = Resolution(action="skip", stage=stage.name, attempt=stage.attempt, by=principal.name)
    return await case.send(seen, "resolve", resolution, update_id)


@router.post("/{id:path}/abort", operation_id="abort_operation", status_code=202, response_model=Operation)
async def abort_operation(
    request: Request,
    services: Parts,
    principal: Aborter,
    id: OperationId,
    body: Annotated[AbortRequest | None, Body()] = None,
) -> Response:
    """End the operation without starting more. What exists stays, and the result names it."""
    case = _Case(services, request, principal, Action.ABORT, id)
    wanted = body or AbortRequest()
    seen = await case.seen()
    update_id, repeated = await case.repeated(seen, wanted)
    if repeated:
        return case.answer(seen)
    return await case.send(seen, "abort", Abort(by=principal.name, reason=wanted.reason), update_id)


@router.post("/{id:path}/decide", operation_id="decide_operation", status_code=202, response_model=Operation)
async def decide_operation(
    request: Request, services: Parts, principal: Decider, id: OperationId, body: DecideRequest
) -> Response:
    """Answer the decision that the operation waits for. The first valid answer wins."""
    case = _Case(services, request, principal, Action.DECIDE, id)
    seen = await case.seen()
    update_id, repeated = await case.repeated(seen, body)
    if repeated:
        return case.answer(seen)
    asked = seen.operation.decision
    if asked is None or body.decision not in (None, asked.id):
        what = f"decision {body.decision!r} is not asked" if body.decision else "no decision is asked"
        raise refuse(
            ProblemCode.CONFLICT,
            f"{what} by {case.id} now (phase {seen.operation.phase})",
            operation=case.id,
            remedy="Read the operation again: somebody may have answered before.",
        )
    if asked.id in ANSWERS:
        parse(ANSWERS[asked.id], body.answer, "/answer")
    if needs_approval(principal, KINDS[seen.operation.kind].needs_approval) and not is_harmless(body.answer):
        raise refuse(
            ProblemCode.DENIED,
            "an approval is bound to the plan that was shown, and this answer decides what is paid for or what ends",
            operation=case.id,
            remedy="A person answers, in the console or with `instantstart operation decide`; tell them your advice.",
        )
    answer = Answer(decision=asked.id, answer=body.answer, by=principal.name)
    return await case.send(seen, "decide", answer, update_id)


async def _approval(case: _Case, body: BaseModel, approved: bool, plan_hash: str | None, reason: str) -> Response:
    seen = await case.seen()
    update_id, repeated = await case.repeated(seen, body)
    if repeated:
        return case.answer(seen)
    operation = seen.operation
    if operation.phase is not Phase.WAITING_FOR_APPROVAL:
        raise refuse(
            ProblemCode.CONFLICT,
            f"{case.id} waits for no approval (phase {operation.phase})",
            operation=case.id,
            remedy="Read the operation again: somebody may have answered before.",
        )
    if plan_hash not in (None, operation.plan_hash):
        raise refuse(
            ProblemCode.CONFLICT,
            f"the plan is {operation.plan_hash} now, not {plan_hash}",
            field="/plan_hash",
            operation=case.id,
            remedy="Look at the present plan and approve that.",
        )
    word = Approval(approved=approved, plan_hash=operation.plan_hash, by=case.principal.name, reason=reason)
    return await case.send(seen, "approve", word, update_id)


@router.post("/{id:path}/approve", operation_id="approve_operation", status_code=202, response_model=Operation)
async def approve_operation(
    request: Request, services: Parts, principal: Approver, id: OperationId, body: ApproveRequest
) -> Response:
    """Let an agent's operation begin: exactly the plan that was shown."""
    case = _Case(services, request, principal, Action.APPROVE, id)
    return await _approval(case, body, True, body.plan_hash, body.reason)


@router.post("/{id:path}/reject", operation_id="reject_operation", status_code=202, response_model=Operation)
async def reject_operation(
    request: Request,
    services: Parts,
    principal: Approver,
    id: OperationId,
    body: Annotated[RejectRequest | None, Body()] = None,
) -> Response:
    """Refuse what an agent asked for. The operation ends and nothing was touched."""
    case = _Case(services, request, principal, Action.APPROVE, id)
    wanted = body or RejectRequest()
    return await _approval(case, wanted, False, None, wanted.reason)
