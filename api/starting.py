"""How every operation starts: once, whoever asks and however often."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from api import idempotency
from api.auth import needs_approval
from api.mapping import Seen, from_description
from api.problems import refuse
from api.services import Services
from api.temporal import RPC, guarded
from api.wish import Wish
from contracts import queues, visibility
from contracts.access import Principal, Role
from contracts.decision import Supersede
from contracts.operation import MEMO_LABEL, MEMO_PROGRESS, Label, Origin, Phase, Progress, Start
from contracts.problem import ProblemCode


async def repeated(services: Services, request: Request, principal: Principal, wish: Wish) -> Seen | None:
    """The operation that this very request (by its Idempotency-Key) has started before; None if it is new.

    Raises ProblemError (422) if the key was sent with another request.
    """
    key = idempotency.key_of(request, principal)
    if key is None:
        return None
    return await idempotency.original_start(services.temporal, key, wish.workflow_id, wish.region, wish.spec_hash)


async def joined(services: Services, request: Request, principal: Principal, wish: Wish) -> Seen | None:
    """The operation that the wish joins, if it runs and does just that; None if it must be started.

    Raises ProblemError (409) if it runs and does something else, of a kind that does not let the last one win.
    """
    found = await services.temporal.find(wish.workflow_id)
    seen = await from_description(found) if found else None
    if seen is None or not seen.open or (_differs(seen, wish) and wish.kind.last_wins):
        return None
    if _takes_over(seen, wish, principal):
        return None
    await _note_key(services, request, principal, wish, _same(seen, wish))
    return seen


async def start(services: Services, request: Request, principal: Principal, wish: Wish) -> Seen:
    """Start the operation, or join it if it runs.

    Raises ProblemError: 409 if one with the same id does something else, 503 if Temporal does not answer.
    """
    approval = needs_approval(principal, wish.kind.asks_a_person(wish.spec))
    label = Label(
        kind=wish.kind.name,
        cluster=wish.tag,
        region=wish.region,
        started_by=principal.name,
        spec_hash=wish.spec_hash,
        request_id=request.state.request_id,
        idempotency_key=idempotency.key_of(request, principal),
    )
    first = Progress(
        phase=Phase.WAITING_FOR_APPROVAL if approval else Phase.RUNNING,
        plan_hash=label.spec_hash,
        updated_at=datetime.now(UTC),
    )
    argument = Start[wish.kind.spec](  # type: ignore[name-defined]
        cluster=wish.tag,
        region=wish.region,
        spec=wish.spec,
        origin=Origin(
            by=principal.name,
            role=principal.role,
            request_id=label.request_id,
            idempotency_key=label.idempotency_key,
        ),
        wait_for_leases=wish.wait_for_leases,
        needs_approval=approval,
        plan_facts=wish.plan_facts,
    )
    started = await guarded(
        services.temporal.client.start_workflow(
            wish.kind.name,
            argument,
            id=wish.workflow_id,
            task_queue=queues.WORKFLOWS,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            # The first progress is ours, so that an operation shows its phase before any worker has seen it.
            memo={MEMO_LABEL: label, MEMO_PROGRESS: first},
            search_attributes=_search_attributes(label, first.phase),
            static_summary=f"{wish.kind.title}: {wish.target or wish.tag}",
            rpc_timeout=RPC,
        )
    )
    seen = await services.operation(wish.workflow_id, started.result_run_id)
    if _takes_over(seen, wish, principal):
        seen = await _superseded(services, principal, seen, wish)
    seen = _same(seen, wish)
    await _note_key(services, request, principal, wish, seen)
    return seen


async def _note_key(services: Services, request: Request, principal: Principal, wish: Wish, seen: Seen) -> None:
    """Remember with a running operation that this request, too, asked for it."""
    key = idempotency.key_of(request, principal)
    if key is not None and key != seen.label.idempotency_key:
        await services.temporal.join(wish.kind.name, wish.workflow_id, key)


async def _superseded(services: Services, principal: Principal, seen: Seen, wish: Wish) -> Seen:
    """The running operation, which now does what is wished. Raises ProblemError (409) if it has ended meanwhile."""
    supersede = Supersede(spec=wish.spec.model_dump(mode="json"), by=principal.name)
    await services.temporal.update(wish.workflow_id, seen.operation.run_id or "", "supersede", supersede, None)
    return await services.operation(wish.workflow_id, seen.operation.run_id)


def _differs(seen: Seen, wish: Wish) -> bool:
    return (seen.label.spec_hash, seen.label.region) != (wish.spec_hash, wish.region)


def _takes_over(seen: Seen, wish: Wish, principal: Principal) -> bool:
    """Whether a person's request takes the place of what runs: it differs, or is what waits for a person's word."""
    if not wish.kind.last_wins or principal.role is Role.AGENT:
        return False
    return _differs(seen, wish) or (seen.open and seen.operation.phase is Phase.WAITING_FOR_APPROVAL)


def _same(seen: Seen, wish: Wish) -> Seen:
    if not _differs(seen, wish):
        return seen
    raise refuse(
        ProblemCode.CONFLICT,
        f"{wish.workflow_id} runs already with another specification (started by {seen.operation.started_by}, "
        f"phase {seen.operation.phase})",
        operation=wish.workflow_id,
        remedy="Wait for it to end or abort it; to join it, send the specification that it was started with.",
    )


def _search_attributes(label: Label, phase: Phase) -> TypedSearchAttributes:
    keywords = {
        visibility.CLUSTER: label.cluster,
        visibility.KIND: label.kind,
        visibility.PHASE: phase.value,
        visibility.STARTED_BY: label.started_by,
        visibility.REGION: label.region,
        visibility.IDEMPOTENCY_KEY: label.idempotency_key,
    }
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(SearchAttributeKey.for_keyword(name), value)
        for name, value in keywords.items()
        if value is not None
    ]
    attention = SearchAttributeKey.for_bool(visibility.NEEDS_ATTENTION)
    return TypedSearchAttributes([*pairs, SearchAttributePair(attention, phase.needs_attention)])
