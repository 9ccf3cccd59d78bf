"""Plans: what an operation would do, cost and need, before anybody starts it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from api.auth import Reader
from api.managed import blank_record, known
from api.problems import ProblemError, wrong_field
from api.services import Parts, Services, reply
from api.wish import Wish
from contracts import catalogue, names
from contracts.catalogue import KINDS, OperationKind
from contracts.cluster import ClusterRecord
from contracts.plans import Plan, PlanRequest
from contracts.problem import field_errors, invalid

router = APIRouter(prefix="/api/v1/plans", tags=["plans"])

_FOR_NEW_CLUSTERS = (catalogue.CREATE_CLUSTER, catalogue.CREATE_CONTROL_PLANE, catalogue.IMPORT_CLUSTER)


@router.post("", operation_id="make_plan", response_model=Plan, summary="Plan an operation")
async def make_plan(request: Request, services: Parts, principal: Reader, body: PlanRequest) -> Response:
    """What any operation would make, change and remove, in order, with cost, quotas, addresses, prerequisites and what
    stands in its way. Nothing is changed. To start just that, send its ``plan`` with the start."""
    request.state.audit_detail = "plan"
    kind = KINDS.get(body.kind)
    if kind is None:
        raise wrong_field("/kind", f"{body.kind!r} is no kind of operation", f"One of {', '.join(KINDS)} is.")
    record = await _record(services, kind, body)
    wish = Wish(kind, body.cluster, record.region, _spec(kind, body, record.region))
    findings = await services.planning.findings(wish, record, services.settings.look_up_timeout)
    return reply(services.planning.plan(wish, principal, findings))


def _spec(kind: OperationKind[Any], body: PlanRequest, region: str) -> Any:
    given = dict(body.spec)
    if "tag" in kind.spec.model_fields:
        given = {"tag": body.cluster, **given, "region": region}
    try:
        return kind.spec.model_validate(given)
    except ValidationError as error:
        raise ProblemError(invalid(field_errors(error, "/spec", kind.spec))) from None


async def _record(services: Services, kind: OperationKind[Any], body: PlanRequest) -> ClusterRecord:
    if kind not in _FOR_NEW_CLUSTERS:
        return await known(services, body.cluster)
    if violation := names.tag_violation(body.cluster):
        raise wrong_field("/cluster", violation, f"Use for example {names.slug(body.cluster)!r}.")
    region = services.served_region(body.region or body.spec.get("region"))
    return blank_record(body.cluster, region)
