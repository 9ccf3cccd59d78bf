"""The software of a cluster's instance groups."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, known
from api.problems import refuse
from api.services import Parts, reply
from contracts import catalogue
from contracts.catalogue import READ_SOFTWARE_WORKFLOW
from contracts.problem import ProblemCode
from contracts.software import ReadSoftware, SoftwareRead, UpdateSoftwareSpec

router = APIRouter(prefix="/api/v1/clusters/{tag}/software", tags=["software"])


@router.get("", operation_id="get_software", response_model=SoftwareRead, summary="Software of instance groups")
async def get_software(services: Parts, _: Reader, tag: Tag) -> Response:
    """Image, release and last update of every instance group, as they are now."""
    record = await known(services, tag)
    if record.hyperpod is None:
        raise refuse(
            ProblemCode.NOT_FOUND,
            f"cluster {tag!r} has no HyperPod cluster yet",
            remedy=f"Start {catalogue.CREATE_HYPERPOD.name} for {tag} first.",
        )
    question = ReadSoftware(cluster=tag, region=record.region, hyperpod=record.hyperpod.name)
    found = await services.lookups.read(READ_SOFTWARE_WORKFLOW, tag, question, SoftwareRead)
    return reply(found)


@router.post("", operation_id="update_software", summary="Update software", **STARTS)
async def update_software(
    start: Start, tag: Tag, body: Annotated[UpdateSoftwareSpec | None, Body()] = None
) -> Response:
    """Bring instance groups to another image, all of them to the newest without a body. Root volumes are made anew.
    Ends when every group's update has succeeded; one that was rolled back blocks."""
    return await start.on(catalogue.UPDATE_SOFTWARE, tag, body or UpdateSoftwareSpec())
