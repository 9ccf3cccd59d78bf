"""Routers of a cluster: one address before many model servers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api.auth import Reader
from api.deployments import OneNamespace
from api.managed import STARTS, Start, Tag, asking, known, with_control_plane
from api.problems import parse
from api.services import Parts, reply
from contracts import catalogue
from contracts.catalogue import LIST_ROUTERS_WORKFLOW, READ_ROUTER_WORKFLOW
from contracts.names import KUBERNETES_NAME
from contracts.routers import DeleteRouterSpec, ListRouters, ReadRouter, RouterDetail, RouterList, RouterSpec

router = APIRouter(prefix="/api/v1/clusters/{tag}/routers", tags=["routers"])

Name = Annotated[str, Path(description="The router's name.", examples=["chat-router"], max_length=63)]
Namespace = Annotated[
    str,
    Query(
        description="The router's namespace.",
        max_length=KUBERNETES_NAME.maximum,
        pattern=f"^{KUBERNETES_NAME.pattern}$",
    ),
]


@router.get("", operation_id="list_routers", response_model=RouterList, summary="List routers")
async def list_routers(services: Parts, principal: Reader, tag: Tag, namespace: OneNamespace = None) -> Response:
    """The routers that the platform made, as they are now, with how many ready servers each has."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(RouterList(read_at=datetime.now(UTC)))
    question = ListRouters(
        scope=asking(record, principal.name, LIST_ROUTERS_WORKFLOW),
        eks_cluster=record.control_plane.name,
        namespace=namespace,
    )
    return reply(await services.lookups.read(LIST_ROUTERS_WORKFLOW, tag, question, RouterList))


@router.get("/{name}", operation_id="get_router", response_model=RouterDetail, summary="Get a router")
async def get_router(
    services: Parts, principal: Reader, tag: Tag, name: Name, namespace: Namespace = "default"
) -> Response:
    """One router: what it was made from, the servers that it sees, its pods and its numbers."""
    record, control_plane = await with_control_plane(services, tag, "routers")
    question = parse(
        ReadRouter,
        {
            "scope": asking(record, principal.name, LIST_ROUTERS_WORKFLOW),
            "eks_cluster": control_plane.name,
            "name": name,
            "namespace": namespace,
        },
    )
    return reply(await services.lookups.read(READ_ROUTER_WORKFLOW, tag, question, RouterDetail))


@router.post("", operation_id="create_router", summary="Create a router", **STARTS)
async def create_router(start: Start, tag: Tag, body: RouterSpec) -> Response:
    """An SGLang router before the pods of a deployment, of a pool's service, or of labels, until it sees all of them
    that are ready and one has answered through it."""
    return await start.on(catalogue.CREATE_ROUTER, tag, body)


@router.delete("/{name}", operation_id="delete_router", summary="Delete a router", **STARTS)
async def delete_router(start: Start, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """All that belongs to it: Services, pods, account and what that was allowed. Its servers stay."""
    spec = parse(DeleteRouterSpec, {"name": name, "namespace": namespace})
    return await start.on(catalogue.DELETE_ROUTER, tag, spec)
