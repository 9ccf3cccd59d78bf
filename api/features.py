"""Managed features of a cluster."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.problems import refuse
from api.services import Parts, reply
from contracts import catalogue
from contracts.feature_site import site_of
from contracts.features import FeatureChanges, Features, ReadFeatures
from contracts.problem import ProblemCode

router = APIRouter(prefix="/api/v1/clusters/{tag}/features", tags=["features"])


@router.get("", operation_id="list_features", response_model=Features, summary="List features")
async def list_features(services: Parts, principal: Reader, tag: Tag) -> Response:
    """Every feature as AWS and Kubernetes have it now. What could not be read is ``unknown``; a controller that others
    installed is ``foreign``. 503 where no worker answers in time: the cluster's record has what was last read."""
    record = await known(services, tag)
    asked_by, asked = principal.name, catalogue.READ_FEATURES_WORKFLOW
    scope = asking(record, asked_by, asked)
    site = site_of(record, scope)
    if site is None:
        raise refuse(
            ProblemCode.CONFLICT,
            f"cluster {tag!r} has no control plane yet, and so no features",
            remedy="Create the control plane first (create-control-plane).",
        )
    question = ReadFeatures(site=site)
    found = await services.lookups.read(asked, tag, question, Features)
    return reply(found)


@router.patch("", operation_id="update_features", summary="Switch features", **STARTS)
async def update_features(start: Start, tag: Tag, body: FeatureChanges) -> Response:
    """Switch the features that are named on or off, each with all that belongs to it; the others are not touched. A
    feature that is as asked already is left alone; one that was interrupted is completed, or undone."""
    return await start.on(catalogue.UPDATE_FEATURES, tag, body)
