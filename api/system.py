"""Routes about the platform itself: options, the audit trail, health."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api import pages
from api.auth import Auditor, Reader
from api.operations import PageSize, PageToken, page_reply
from api.problems import ProblemError
from api.services import Parts, Services, reply
from contracts import queues
from contracts.answers import AuditPage, Readiness
from contracts.model import Model
from contracts.options import Options

router = APIRouter()
_TRAIL = "audit"


class Health(Model):
    status: str = "ok"


@router.get(
    "/api/v1/options", operation_id="get_options", response_model=Options, tags=["options"], summary="Get options"
)
async def get_options(
    services: Parts,
    _: Reader,
    region: Annotated[str | None, Query(description="Absent: the deployment's default.")] = None,
    instance_type: Annotated[
        list[str] | None, Query(description="Only these types, with ml.; repeatable.", max_length=50)
    ] = None,
) -> Response:
    """What a cluster can be made of now: instance types with zones and quotas, training plans, versions. Looked up in
    the account, and kept for a few seconds."""
    options = await services.lookups.options(services.served_region(region), instance_type or [])
    return reply(options)


@router.get(
    "/api/v1/audit",
    operation_id="list_audit",
    response_model=AuditPage,
    tags=["access"],
    summary="Read the audit trail",
)
async def list_audit(services: Parts, _: Auditor, page_size: PageSize = 20, page_token: PageToken = None) -> Response:
    """Every request that changed something, every decision, every denial; the newest first."""
    position = pages.unseal(_TRAIL, page_token)
    entries, older = await asyncio.to_thread(
        services.audit.newest, page_size, int(position) if position is not None else None
    )
    token = pages.seal(_TRAIL, str(older).encode()) if older is not None else None
    return page_reply(AuditPage(entries=entries, next_page_token=token))


@router.get("/health", operation_id="get_health", response_model=Health, tags=["health"], summary="Process is up")
async def get_health() -> Response:
    """The gateway's process answers. Says nothing of Temporal or workers."""
    return reply(Health())


@router.get(
    "/ready",
    operation_id="get_readiness",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Temporal or a worker is missing."}},
    tags=["health"],
    summary="Operations can run",
)
async def get_readiness(services: Parts, request: Request) -> Response:
    """Temporal answers, and a worker asks every task queue that operations need. 503 names what is missing."""
    readiness = await _readiness(services)
    headers = {} if readiness.ready else {"Retry-After": "5"}
    return reply(readiness, 200 if readiness.ready else 503, headers)


async def _readiness(services: Services) -> Readiness:
    activities = [queues.PLATFORM, queues.WAIT, queues.KUBERNETES, *map(queues.aws, services.settings.regions)]
    needed = [(queues.WORKFLOWS, False), (queues.ENTITIES, False), *((name, True) for name in activities)]
    try:
        polled = await asyncio.gather(*(services.temporal.polled(name, kind) for name, kind in needed))
    except ProblemError as error:
        detail = ". ".join(filter(None, (error.body.detail, error.body.remedy)))
        return Readiness(ready=False, temporal=False, detail=detail)
    missing = [name for (name, _), seen in zip(needed, polled, strict=True) if not seen]
    detail = "ready" if not missing else f"no worker polls {', '.join(missing)}"
    return Readiness(ready=not missing, temporal=True, missing=missing, detail=detail)
