"""Clusters that others made: taken over, and looked at anew."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import Response

from api.managed import STARTS, Start, Tag, blank_record, managed_as, record_of
from api.problems import refuse
from api.wish import Wish
from contracts import catalogue
from contracts.imports import ImportClusterSpec, RedetectClusterSpec
from contracts.names import ClusterNames
from contracts.problem import ProblemCode

router = APIRouter(prefix="/api/v1/clusters", tags=["clusters"])


@router.post("/import", operation_id="import_cluster", summary="Import a cluster", **STARTS)
async def import_cluster(start: Start, body: ImportClusterSpec) -> Response:
    """Take over an existing EKS cluster, with or without HyperPod, or rebuild a lost record. Everything is read, gaps
    are shown, and nothing is changed but what was asked for (``grant_access``, ``adopt``)."""
    record = await record_of(start.services, body.tag)
    region = record.region if record and body.region is None else start.services.served_region(body.region)
    spec = body.model_copy(update={"region": region})
    name = spec.eks_cluster or ClusterNames(spec.tag).eks_cluster
    other = await managed_as(start.services, region, name)
    if other not in (None, spec.tag):
        raise refuse(
            ProblemCode.CONFLICT,
            f"EKS cluster {name} is managed already, as {other!r}: two tags would not know of each other's operations",
            field="/eks_cluster",
            remedy=f"Work on {other!r}.",
        )
    wish = Wish(catalogue.IMPORT_CLUSTER, spec.tag, region, spec, start.wait_for_leases)
    return await start.planned(wish, record or blank_record(spec.tag, region))


@router.post("/{tag}/redetection", operation_id="redetect_cluster", summary="Detect a cluster anew", **STARTS)
async def redetect_cluster(
    start: Start, tag: Tag, body: Annotated[RedetectClusterSpec | None, Body()] = None
) -> Response:
    """Compare the record with what there is, and bring it up to date; the result says what had changed."""
    return await start.on(catalogue.REDETECT_CLUSTER, tag, body or RedetectClusterSpec())
