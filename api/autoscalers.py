"""Autoscalers of a cluster: how many replicas Deployments have, by metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, known, with_control_plane
from api.managed_endpoints import OneNamespace
from api.problems import parse
from api.services import Parts, reply
from contracts import catalogue
from contracts.autoscalers import (
    AutoscalerDetail,
    AutoscalerList,
    AutoscalerSpec,
    DeleteAutoscalerSpec,
    ListAutoscalers,
    ReadAutoscaler,
)
from contracts.catalogue import LIST_AUTOSCALERS_WORKFLOW, READ_AUTOSCALER_WORKFLOW

router = APIRouter(prefix="/api/v1/clusters/{tag}/autoscalers", tags=["autoscalers"])

Name = Annotated[str, Path(description="The autoscaler's name.", examples=["qwen"], max_length=63)]
Namespace = Annotated[str, Query(description="The autoscaler's namespace.", max_length=63)]


@router.get("", operation_id="list_autoscalers", response_model=AutoscalerList, summary="List autoscalers")
async def list_autoscalers(services: Parts, _: Reader, tag: Tag, namespace: OneNamespace = None) -> Response:
    """KEDA's ScaledObjects on Deployments as they are now, others' too."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(AutoscalerList(read_at=datetime.now(UTC)))
    question = ListAutoscalers(
        cluster=tag, region=record.region, eks_cluster=record.control_plane.name, namespace=namespace
    )
    return reply(await services.lookups.read(LIST_AUTOSCALERS_WORKFLOW, tag, question, AutoscalerList))


@router.get("/{name}", operation_id="get_autoscaler", response_model=AutoscalerDetail, summary="Get an autoscaler")
async def get_autoscaler(
    services: Parts, _: Reader, tag: Tag, name: Name, namespace: Namespace = "default"
) -> Response:
    """One autoscaler: what its triggers say now, how many replicas each wants, and what KEDA and Kubernetes say."""
    record, control_plane = await with_control_plane(services, tag, "autoscalers")
    question = ReadAutoscaler(
        cluster=tag, region=record.region, eks_cluster=control_plane.name, namespace=namespace, name=name
    )
    return reply(await services.lookups.read(READ_AUTOSCALER_WORKFLOW, tag, question, AutoscalerDetail))


@router.post("", operation_id="create_autoscaler", summary="Create an autoscaler", **STARTS)
async def create_autoscaler(start: Start, tag: Tag, body: AutoscalerSpec) -> Response:
    """Let metrics decide how many replicas a Deployment has, until KEDA follows them. One that exists is changed to
    what is asked. With ``validate_only`` the queries are asked once, and the plan shows what they would do now."""
    return await start.on(catalogue.CREATE_AUTOSCALER, tag, body)


@router.delete("/{name}", operation_id="delete_autoscaler", summary="Delete an autoscaler", **STARTS)
async def delete_autoscaler(start: Start, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """The Deployment keeps the replicas that it has then."""
    spec = parse(DeleteAutoscalerSpec, {"name": name, "namespace": namespace})
    return await start.on(catalogue.DELETE_AUTOSCALER, tag, spec)
