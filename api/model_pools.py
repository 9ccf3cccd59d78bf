"""Model pools of a cluster: servers that are handed out to services."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

from api.auth import Reader
from api.deployments import OneNamespace
from api.managed import STARTS, Start, Tag, asking, known, with_control_plane
from api.problems import parse
from api.rows import Row
from api.services import Parts, Services, reply
from contracts import catalogue
from contracts.catalogue import LIST_MODEL_POOLS_WORKFLOW, READ_MODEL_POOL_WORKFLOW
from contracts.deployments import MOST_REPLICAS
from contracts.model import Model
from contracts.model_pools import (
    MEMO_KEEPER,
    MOST_SERVICES,
    AssignModelPoolSpec,
    DeleteModelPoolSpec,
    Keeper,
    ListModelPools,
    ModelPoolDetail,
    ModelPoolList,
    ModelPoolSpec,
    ModelPoolView,
    PoolServiceName,
    ReadModelPool,
    ScaleModelPoolSpec,
    WorkerCount,
)
from contracts.names import KUBERNETES_NAME, pool_keeper_id

router = APIRouter(prefix="/api/v1/clusters/{tag}/model-pools", tags=["model pools"])

Name = Annotated[str, Path(description="The pool's name.", examples=["qwen3-pool"], max_length=63)]
Namespace = Annotated[
    str,
    Query(
        description="The pool's namespace.",
        max_length=KUBERNETES_NAME.maximum,
        pattern=f"^{KUBERNETES_NAME.pattern}$",
    ),
]


class ModelPoolScaling(Model):
    """Another number of pods."""

    replicas: int = Field(ge=1, le=MOST_REPLICAS, strict=True, examples=[4])
    """At least as many as are assigned."""


class PoolAssignments(Model):
    """How a pool's pods are handed out: the whole wish. Who is not named gives its pods back."""

    assignments: dict[PoolServiceName, WorkerCount] = Field(
        max_length=MOST_SERVICES, examples=[{"chat": 2, "search": 1}]
    )
    """Service to its number of pods."""
    public: dict[PoolServiceName, Literal["internal", "internet-facing"]] = Field(
        default_factory=dict, max_length=MOST_SERVICES
    )
    """Services with a load balancer besides, and from where that is reached."""
    confirm_public: bool = False
    """Says that services which everybody on the internet may call are wanted."""
    keep_services: bool = False
    """Services that have no pods any more stay; otherwise they are deleted."""


@router.get("", operation_id="list_model_pools", response_model=ModelPoolList, summary="List model pools")
async def list_model_pools(services: Parts, principal: Reader, tag: Tag, namespace: OneNamespace = None) -> Response:
    """The pools that the platform made, as they are now: pods, whom they serve, and what keeps it so."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(ModelPoolList(read_at=datetime.now(UTC)))
    question = ListModelPools(
        scope=asking(record, principal.name, LIST_MODEL_POOLS_WORKFLOW),
        eks_cluster=record.control_plane.name,
        namespace=namespace,
    )
    found = await services.lookups.read(LIST_MODEL_POOLS_WORKFLOW, tag, question, ModelPoolList)
    pools = await asyncio.gather(*(_kept(services, tag, pool) for pool in found.model_pools))
    return reply(found.model_copy(update={"model_pools": list(pools)}))


@router.get("/{name}", operation_id="get_model_pool", response_model=ModelPoolDetail, summary="Get a model pool")
async def get_model_pool(
    services: Parts, principal: Reader, tag: Tag, name: Name, namespace: Namespace = "default"
) -> Response:
    """One pool: what it was made from, and its pods with whom they serve."""
    record, control_plane = await with_control_plane(services, tag, "model pools")
    question = parse(
        ReadModelPool,
        {
            "scope": asking(record, principal.name, LIST_MODEL_POOLS_WORKFLOW),
            "eks_cluster": control_plane.name,
            "name": name,
            "namespace": namespace,
        },
    )
    found = await services.lookups.read(READ_MODEL_POOL_WORKFLOW, tag, question, ModelPoolDetail)
    return reply(found.model_copy(update={"pool": await _kept(services, tag, found.pool)}))


@router.post("", operation_id="create_model_pool", summary="Create a model pool", **STARTS)
async def create_model_pool(start: Start, tag: Tag, body: ModelPoolSpec) -> Response:
    """Model servers without a Service, all free, until one has answered."""
    return await start.on(catalogue.CREATE_MODEL_POOL, tag, body)


@router.post("/{name}/scale", operation_id="scale_model_pool", summary="Scale a model pool", **STARTS)
async def scale_model_pool(
    start: Start, tag: Tag, name: Name, body: ModelPoolScaling, namespace: Namespace = "default"
) -> Response:
    """Another number of pods; free ones go first, and never fewer than are assigned."""
    spec = parse(ScaleModelPoolSpec, {"name": name, "namespace": namespace, **body.model_dump()})
    return await start.on(catalogue.SCALE_MODEL_POOL, tag, spec)


@router.put("/{name}/assignments", operation_id="assign_model_pool", summary="Assign a model pool's pods", **STARTS)
async def assign_model_pool(
    start: Start, tag: Tag, name: Name, body: PoolAssignments, namespace: Namespace = "default"
) -> Response:
    """Hand the pool's pods out. A pod that changes its service finishes its requests first. Asked again while it runs,
    the last word holds."""
    spec = parse(AssignModelPoolSpec, {"name": name, "namespace": namespace, **body.model_dump()})
    return await start.on(catalogue.ASSIGN_MODEL_POOL, tag, spec)


@router.delete("/{name}", operation_id="delete_model_pool", summary="Delete a model pool", **STARTS)
async def delete_model_pool(start: Start, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """Its services first, then its pods, until all of it is gone."""
    spec = parse(DeleteModelPoolSpec, {"name": name, "namespace": namespace})
    return await start.on(catalogue.DELETE_MODEL_POOL, tag, spec)


async def _kept(services: Services, tag: str, pool: ModelPoolView) -> ModelPoolView:
    """The pool with what its keeper says of itself, where one runs."""
    found = await services.temporal.find(pool_keeper_id(tag, pool.namespace, pool.name))
    if found is None or found.close_time is not None:
        return pool
    row = Row.of(found.raw_description.workflow_execution_info, found.data_converter)
    return pool.model_copy(update={"keeper": await row.memo(MEMO_KEEPER, Keeper)})
