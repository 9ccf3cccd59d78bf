"""Deleting clusters."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from fastapi import APIRouter, Body, Query
from pydantic import ValidationError
from starlette.responses import Response

from api.managed import STARTS, Start, Tag, blank_record, known, record_of
from api.problems import ProblemError, refuse
from api.services import Services
from api.wish import Wish
from contracts import catalogue
from contracts.plans import Action
from contracts.problem import ProblemCode, field_errors, invalid
from contracts.teardown import DeleteClusterSpec, Level

router = APIRouter(prefix="/api/v1/clusters", tags=["clusters"])

_Flag = bool | None


@router.delete("/{tag}", operation_id="delete_cluster", summary="Delete a cluster", **STARTS)
async def delete_cluster(
    start: Start,
    tag: Tag,
    body: Annotated[DeleteClusterSpec | None, Body()] = None,
    level: Annotated[Level | None, Query(description="How much goes.")] = None,
    abort_running: Annotated[_Flag, Query(description="Abort operations that hold the cluster.")] = None,
    delete_bucket: Annotated[_Flag, Query(description="Delete the cluster's bucket with all that is in it.")] = None,
    delete_file_systems: Annotated[_Flag, Query(description="Delete its FSx file systems with all their data.")] = None,
    delete_dedicated_subnets: Annotated[_Flag, Query(description="Delete dedicated compute subnets.")] = None,
    keep: Annotated[list[str] | None, Query(description="An ID, ARN or name that must stay; repeatable.")] = None,
    region: Annotated[
        str | None, Query(description="For a cluster that has no record (any more): what carries its tag there goes.")
    ] = None,
) -> Response:
    """The HyperPod cluster, the EKS cluster and the network, each after what uses it. What goes is found in the
    account by tag, not in the record; what is in the way and not ours blocks, with its name. Choices may be sent as
    query or as body; the query wins."""
    choices = {
        "level": level,
        "abort_running": abort_running,
        "delete_bucket": delete_bucket,
        "delete_file_systems": delete_file_systems,
        "delete_dedicated_subnets": delete_dedicated_subnets,
        "keep": keep,
    }
    spec = _spec(body, {name: value for name, value in choices.items() if value is not None})
    record = await record_of(start.services, tag)
    if record is not None:
        if region not in (None, record.region):
            raise refuse(
                ProblemCode.CONFLICT,
                f"cluster {tag!r} is in {record.region}, not in {region}",
                field="/region",
                remedy=f"Leave region out, or send {record.region}.",
            )
        return await start.planned(
            Wish(catalogue.DELETE_CLUSTER, tag, record.region, spec, start.wait_for_leases), record
        )
    if region is None:
        await _unknown(start.services, tag)
    where = start.services.served_region(region)
    wish = Wish(catalogue.DELETE_CLUSTER, tag, where, spec, start.wait_for_leases)
    findings = await start.services.planning.findings(wish, blank_record(tag, where))
    if findings is None:
        raise refuse(
            ProblemCode.UNAVAILABLE,
            f"the account gave no answer, so whether anything of {tag!r} is there cannot be told",
            remedy="Send the request again.",
        )
    if not any(change.action is Action.DELETE for change in findings.draft.changes):
        await _unknown(start.services, tag)
    return await start.planned(wish, blank_record(tag, where))


async def _unknown(services: Services, tag: str) -> NoReturn:
    """Raise ProblemError (404) that says how a cluster without a record is deleted."""
    try:
        await known(services, tag)
    except ProblemError as error:
        if error.body.operation is not None:
            raise
    raise refuse(
        ProblemCode.NOT_FOUND,
        f"there is no cluster {tag!r}",
        remedy="GET /api/v1/clusters lists them. If one was left without a record, send the region it was in.",
    )


def _spec(body: DeleteClusterSpec | None, choices: dict[str, Any]) -> DeleteClusterSpec:
    given = body.model_dump(exclude_unset=True) if body is not None else {}
    try:
        return DeleteClusterSpec.model_validate({**given, **choices})
    except ValidationError as error:
        raise ProblemError(invalid(field_errors(error, model=DeleteClusterSpec))) from error
