"""Routes of the caller itself: who it is, and what it prefers."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.auth import Reader
from api.managed import LISTED, record_of, summary_of
from api.problems import ProblemError, refuse
from api.services import Parts, Services, reply
from contracts.access import Caller, DefaultClusterRequest, Principal
from contracts.problem import ProblemCode

router = APIRouter(prefix="/api/v1/me", tags=["access"])

_NAMED = 5
"""Clusters that a refusal names."""


@router.get("", operation_id="get_caller", response_model=Caller, summary="Who calls")
async def get_caller(services: Parts, principal: Reader) -> Response:
    """Name and role of the token that was sent, or that the session came from, and the default cluster."""
    chosen = services.preferences.default_cluster(principal.name)
    return reply(_caller(principal, chosen if chosen is None or await _may_exist(services, chosen) else None))


@router.put("/default-cluster", operation_id="set_default_cluster", response_model=Caller, summary="Choose a cluster")
async def set_default_cluster(
    request: Request, services: Parts, principal: Reader, body: DefaultClusterRequest
) -> Response:
    """Which cluster the caller's faces begin with. The gateway takes it for nothing: every route names its cluster."""
    if await record_of(services, body.cluster) is None:
        raise await _unmanaged(services, body.cluster)
    await asyncio.to_thread(services.preferences.set_default_cluster, principal.name, body.cluster)
    request.state.audit_detail = body.cluster
    return reply(_caller(principal, body.cluster))


@router.delete("/default-cluster", operation_id="clear_default_cluster", response_model=Caller, summary="Choose none")
async def clear_default_cluster(services: Parts, principal: Reader) -> Response:
    """The caller's faces begin with no cluster."""
    await asyncio.to_thread(services.preferences.set_default_cluster, principal.name, None)
    return reply(_caller(principal, None))


def _caller(principal: Principal, default_cluster: str | None) -> Caller:
    return Caller(name=principal.name, role=principal.role, default_cluster=default_cluster)


async def _may_exist(services: Services, tag: str) -> bool:
    """Whether the cluster is managed; also where Temporal does not say that it is not."""
    try:
        return await record_of(services, tag) is not None
    except ProblemError as error:
        if error.body.code is not ProblemCode.UNAVAILABLE:
            raise
        return True


async def _unmanaged(services: Services, tag: str) -> ProblemError:
    page = await services.temporal.list(LISTED, _NAMED)
    summaries = [await summary_of(row) for row in page.rows]
    managed = [summary.tag for summary in summaries if summary is not None]
    more = " and others" if page.position else ""
    there = f"managed are {', '.join(managed)}{more}" if managed else "none is managed yet"
    return refuse(
        ProblemCode.NOT_FOUND,
        f"there is no cluster {tag!r}; {there}",
        field="/cluster",
        remedy="GET /api/v1/clusters lists them all; POST there creates one.",
    )
