"""How every operation starts: once, whoever asks and however often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from pydantic import BaseModel
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
from contracts import queues, visibility
from contracts.access import Principal
from contracts.catalogue import OperationKind
from contracts.model import Model, fingerprint
from contracts.names import ClusterNames, operation_id
from contracts.operation import MEMO_LABEL, MEMO_PROGRESS, Label, Origin, Phase, Progress, Start
from contracts.problem import ProblemCode


@dataclass(frozen=True)
class Wish:
    """What somebody wants to be started."""

    kind: OperationKind[Any]
    tag: str
    region: str
    spec: BaseModel
    target: str | None = None
    wait_for_leases: bool = True

    @property
    def workflow_id(self) -> str:
        return operation_id(self.kind.name, self.tag, self.target)

    @property
    def spec_hash(self) -> str:
        return fingerprint(self.spec)


class PlannedNames(Model):
    """Names that derive from the tag. The bucket's holds the account's number and is known when it is made."""

    eks_cluster: str
    hyperpod_cluster: str
    security_group: str
    vpc: str
    persistent_volume: str | None = None


class Plan(Model):
    """What would be started. Nothing was touched."""

    valid: bool = True
    operation: str
    """The id that the operation would have."""
    kind: str
    cluster: str
    region: str
    spec: dict[str, Any]
    """With every default filled in."""
    plan_hash: str
    names: PlannedNames
    checked_against_account: bool
    """False: the operation itself will check."""
    needs_approval: bool


def plan(wish: Wish, principal: Principal, checked: bool) -> Plan:
    """The plan of a wish that passed every check."""
    names = ClusterNames(wish.tag)
    spec = wish.spec.model_dump(mode="json")
    claim = wish.target or (spec.get("storage") or {}).get("claim")
    return Plan(
        operation=wish.workflow_id,
        kind=wish.kind.name,
        cluster=wish.tag,
        region=wish.region,
        spec=spec,
        plan_hash=wish.spec_hash,
        names=PlannedNames(
            eks_cluster=names.eks_cluster,
            hyperpod_cluster=names.hyperpod_cluster,
            security_group=names.security_group,
            vpc=names.network("vpc"),
            persistent_volume=names.persistent_volume(claim) if claim else None,
        ),
        checked_against_account=checked,
        needs_approval=needs_approval(principal, wish.kind.costs),
    )


async def repeated(services: Services, request: Request, principal: Principal, wish: Wish) -> Seen | None:
    """The operation that this very request (by its Idempotency-Key) has started before; None if it is new.

    Raises ProblemError (422) if the key was sent with another request.
    """
    key = idempotency.key_of(request, principal)
    if key is None:
        return None
    return await idempotency.original_start(services.temporal, key, wish.workflow_id, wish.region, wish.spec_hash)


async def running(services: Services, wish: Wish) -> Seen | None:
    """The operation that the wish would join, if it runs. Raises ProblemError (409) if it does something else."""
    found = await services.temporal.find(wish.workflow_id)
    seen = await from_description(found) if found else None
    if seen is None or not seen.open:
        return None
    return _same(seen, wish)


async def start(services: Services, request: Request, principal: Principal, wish: Wish) -> Seen:
    """Start the operation, or join it if it runs.

    Raises ProblemError: 409 if one with the same id does something else, 503 if Temporal does not answer.
    """
    approval = needs_approval(principal, wish.kind.costs)
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
    seen = _same(await services.operation(wish.workflow_id, started.result_run_id), wish)
    key = label.idempotency_key
    if key is not None and key != seen.label.idempotency_key:
        await services.temporal.join(wish.kind.name, wish.workflow_id, key)
    return seen


def _same(seen: Seen, wish: Wish) -> Seen:
    if (seen.label.spec_hash, seen.label.region) == (wish.spec_hash, wish.region):
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
