"""Models and data sets on a cluster's storage, and downloads of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from api import pages
from api.auth import Reader
from api.managed import STARTS, Start, Tag, known
from api.operations import page_reply
from api.services import Parts
from contracts import catalogue
from contracts.catalogue import LIST_MODELS_WORKFLOW
from contracts.models import DownloadSpec, ListModels, ModelList, ModelsRead
from contracts.network import Scope

router = APIRouter(prefix="/api/v1/clusters/{tag}/models", tags=["models"])

OneClaim = Annotated[str | None, Query(description="Only this claim; absent: all.", max_length=63)]
OneNamespace = Annotated[str | None, Query(description="The claim's namespace; absent: all.", max_length=63)]
ModelsPageSize = Annotated[int, Query(ge=1, le=pages.MAXIMUM_PAGE_SIZE)]
ModelsPageToken = Annotated[
    str | None,
    # It holds S3's own token, which grows with the keys.
    Query(description="next_page_token of the page before.", max_length=8000),
]


@router.get("", operation_id="list_models", response_model=ModelList, summary="List models and data sets")
async def list_models(
    services: Parts,
    principal: Reader,
    tag: Tag,
    claim: OneClaim = None,
    namespace: OneNamespace = None,
    page_size: ModelsPageSize = 50,
    page_token: ModelsPageToken = None,
) -> Response:
    """What is under ``models/`` and ``datasets/`` of the cluster's S3 claims, with what downloads have left word of,
    and the downloads that run. None where the cluster has no control plane yet."""
    record = await known(services, tag)
    listing = json.dumps(["models", tag, namespace, claim])
    position = pages.unseal(listing, page_token)
    if record.control_plane is None:
        return page_reply(ModelList(read_at=datetime.now(UTC)))
    question = ListModels(
        scope=Scope(
            cluster=record.tag, region=record.region, created_by=principal.name, request_id=LIST_MODELS_WORKFLOW
        ),
        eks_cluster=record.control_plane.name,
        claim=claim,
        namespace=namespace,
        position=position.decode(errors="replace") if position is not None else None,
        size=page_size,
    )
    found = await services.lookups.read(LIST_MODELS_WORKFLOW, tag, question, ModelsRead)
    return page_reply(
        ModelList(
            models=found.models,
            running=found.running,
            unreadable=found.unreadable,
            next_page_token=pages.seal(listing, found.position.encode()) if found.position is not None else None,
            read_at=found.read_at,
        )
    )


@router.post("/downloads", operation_id="download_model", summary="Download a model or data set", **STARTS)
async def download_model(start: Start, tag: Tag, body: DownloadSpec) -> Response:
    """A repository of the Hugging Face Hub, or some of its files, into a folder of the cluster's storage. Files that
    are there already are not downloaded again."""
    return await start.on(catalogue.DOWNLOAD_MODEL, tag, body)
