"""What every route that starts an operation works with: its cluster, and how the caller wants it started."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api import starting
from api.auth import Starter, needs_approval
from api.mapping import Seen
from api.planning import without_blockers
from api.problems import refuse
from api.rows import Row
from api.secret_guard import without_secrets
from api.services import Parts, Services, accepted, reply
from api.wish import Wish
from contracts import catalogue, names
from contracts.access import Principal
from contracts.catalogue import OperationKind
from contracts.cluster import MEMO_RECORD, MEMO_SUMMARY, ClusterRecord, ClusterSummary
from contracts.eks import ControlPlane
from contracts.names import KUBERNETES_NAME
from contracts.network import Scope
from contracts.operation import Operation
from contracts.plans import Plan
from contracts.problem import ProblemCode

Tag = Annotated[str, Path(description="The cluster's tag.", examples=["demo"], max_length=63)]
NAMESPACE: dict[str, Any] = {"max_length": KUBERNETES_NAME.maximum, "pattern": f"^{KUBERNETES_NAME.pattern}$"}
"""What a namespace in a path or query must keep."""
ValidateOnly = Annotated[bool, Query(description="Check everything and answer with the plan (200); touch nothing.")]
WaitForLeases = Annotated[
    bool, Query(description="Queue behind operations that hold what is needed; false: fail at once instead.")
]
PlanId = Annotated[
    str | None,
    Query(description="The ``plan`` of a plan: start only if it still holds (else 412).", max_length=64),
]

LISTED = "WorkflowType = 'cluster' AND ExecutionStatus = 'Running'"
"""The managed clusters."""

STARTS: dict[str, Any] = {
    "status_code": 202,
    "response_model": Operation,
    "responses": {200: {"model": Plan, "description": "With validate_only: the plan."}},
}
"""What a route that starts an operation declares."""


async def record_of(services: Services, tag: str) -> ClusterRecord | None:
    """The record of a cluster that is managed; None if there is none. Needs no worker."""
    found = await services.temporal.find(names.cluster_id(tag))
    if found is None or found.status is None or found.status.name != "RUNNING":
        return None
    return await Row.of(found.raw_description.workflow_execution_info, found.data_converter).memo(
        MEMO_RECORD, ClusterRecord
    )


async def summary_of(row: Row) -> ClusterSummary | None:
    """The cluster's summary by what a list knows of its entity. The record beside it, large, is read only where the
    summary is from before it told of accelerators."""
    summary = await row.memo(MEMO_SUMMARY, ClusterSummary)
    if summary is None or "accelerators" in summary.model_fields_set:
        return summary
    record = await row.memo(MEMO_RECORD, ClusterRecord)
    if record is None:
        return summary
    told = {"nodes_ready": record.nodes_ready, "accelerators": record.accelerator_total}
    return summary.model_copy(update=told)


async def known(services: Services, tag: str) -> ClusterRecord:
    """The cluster's record. Raises ProblemError (404) that names what is making the cluster, if something is."""
    record = await record_of(services, tag)
    if record is not None:
        return record
    creating = names.operation_id(catalogue.CREATE_CLUSTER.name, tag)
    found = await services.temporal.find(creating)
    made = found is not None and found.close_time is None
    raise refuse(
        ProblemCode.NOT_FOUND,
        f"there is no cluster {tag!r}" + (f" yet; {creating} is making it" if made else ""),
        operation=creating if made else None,
        remedy="Watch that operation." if made else "GET /api/v1/clusters lists them; POST there creates one.",
    )


async def with_control_plane(services: Services, tag: str, what: str) -> tuple[ClusterRecord, ControlPlane]:
    """The cluster's record and its control plane. Raises ProblemError (404) where there is none yet, and so no
    ``what`` either."""
    record = await known(services, tag)
    if record.control_plane is None:
        raise refuse(
            ProblemCode.NOT_FOUND,
            f"cluster {tag!r} has no EKS control plane yet, and so no {what}",
            remedy=f"Start {catalogue.CREATE_CONTROL_PLANE.name} for {tag} first.",
        )
    return record, record.control_plane


def asking(record: ClusterRecord, by: str, question: str) -> Scope:
    """What activities are told of a cluster that is only asked something."""
    return Scope(cluster=record.tag, region=record.region, created_by=by, request_id=question)


async def managed_as(services: Services, region: str, eks_cluster: str) -> str | None:
    """The tag of the managed cluster that has this EKS cluster; None if none has it."""
    position = None
    while True:
        page = await services.temporal.list(LISTED, 100, position)
        for row in page.rows:
            found = await summary_of(row)
            if found is not None and (found.region, found.eks_cluster) == (region, eks_cluster):
                return found.tag
        if (position := page.position) is None:
            return None


def blank_record(tag: str, region: str) -> ClusterRecord:
    """The record of a cluster of which nothing exists yet."""
    now = datetime.now(UTC)
    return ClusterRecord(tag=tag, region=region, created_by="", created_at=now, updated_at=now)


@dataclass(frozen=True)
class Starting:
    """One request to start an operation."""

    services: Services
    request: Request
    principal: Principal
    validate_only: bool
    wait_for_leases: bool
    plan: str | None
    patience: float | None
    """Seconds that the caller waits for the account to be asked before the operation starts; None: the gateway's."""

    async def on(self, kind: OperationKind[Any], tag: str, spec: BaseModel) -> Response:
        """Start ``kind`` on the cluster ``tag``, or tell what would be started.

        Raises ProblemError: 404 for an unknown cluster, 422 where something stands in the way, 409 where the operation
        runs with another specification, 412 where the plan that was sent does not hold any more.
        """
        record = await known(self.services, tag)
        return await self.planned(Wish(kind, tag, record.region, spec, self.wait_for_leases), record)

    async def planned(self, wish: Wish, record: ClusterRecord) -> Response:
        """Start what is wished, unless its plan says that something stands in the way."""
        without_secrets(wish.spec)
        planning = self.services.planning
        if not self.validate_only and (seen := await self._asked_before(wish)) is not None:
            return accepted(seen, self.services.linker(self.request))
        held = wish.kind.held and needs_approval(self.principal, wish.kind.asks_a_person(wish.spec))
        shown = self.validate_only or self.plan is not None or held
        # Who asks for a plan waits for it; who starts an operation has it check for itself.
        patience = self.services.settings.look_up_timeout if shown else self.patience
        findings = await planning.findings(wish, record, patience)
        if self.plan is not None:
            planning.hold(self.plan, wish, findings)
        without_blockers(findings)
        if self.validate_only:
            self.request.state.audit_detail = "validate_only"
            return reply(planning.plan(wish, self.principal, findings))
        facts = findings.facts_hash if findings is not None and (self.plan is not None or held) else None
        return await self._begin(replace(wish, plan_facts=facts))

    async def carry_out(self, wish: Wish) -> Response:
        """Start what is wished, without a plan."""
        without_secrets(wish.spec)
        return await self._begin(wish)

    async def _begin(self, wish: Wish) -> Response:
        self.request.state.operation = wish.workflow_id
        seen = await starting.repeated(self.services, self.request, self.principal, wish)
        if seen is None:
            seen = await starting.start(self.services, self.request, self.principal, wish)
        return accepted(seen, self.services.linker(self.request))

    async def _asked_before(self, wish: Wish) -> Seen | None:
        """The operation, if this very request has started it before, or if it runs just so: what it has changed since
        would be found in its own way."""
        self.request.state.operation = wish.workflow_id
        seen = await starting.repeated(self.services, self.request, self.principal, wish)
        return seen or await starting.joined(self.services, self.request, self.principal, wish)


def _starting(
    request: Request,
    services: Parts,
    principal: Starter,
    validate_only: ValidateOnly = False,
    wait_for_leases: WaitForLeases = True,
    plan: PlanId = None,
    prefer: Annotated[
        str | None,
        Header(description="``wait=SECONDS`` (RFC 7240): how long the account may be asked before the start."),
    ] = None,
) -> Starting:
    return Starting(services, request, principal, validate_only, wait_for_leases, plan, _patience(prefer))


def _patience(prefer: str | None) -> float | None:
    """The seconds of the preference ``wait`` (RFC 7240, 4.3), with fractions; None where there is none. What cannot be
    read is left aside, as the standard says."""
    for preference in (prefer or "").split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            with suppress(ValueError):
                return max(0.1, float(value.strip().strip('"')))
    return None


Start = Annotated[Starting, Depends(_starting)]
