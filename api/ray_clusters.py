"""Ray clusters for interactive use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api.auth import Reader
from api.deployments import OneNamespace
from api.managed import NAMESPACE, STARTS, Start, Tag, asking, known, with_control_plane
from api.problems import parse
from api.services import Parts, reply
from contracts import catalogue
from contracts.catalogue import LIST_RAY_CLUSTERS_WORKFLOW, READ_RAY_CLUSTER_WORKFLOW
from contracts.ray_clusters import (
    DeleteRayClusterSpec,
    ListRayClusters,
    RayClusterDetail,
    RayClusterList,
    RayClusterSpec,
    ReadRayCluster,
)

router = APIRouter(prefix="/api/v1/clusters/{tag}/ray-clusters", tags=["training"])

Name = Annotated[str, Path(description="The Ray cluster's name.", examples=["notebooks"], max_length=63)]
Namespace = Annotated[str, Query(description="The Ray cluster's namespace.", **NAMESPACE)]


@router.get("", operation_id="list_ray_clusters", response_model=RayClusterList, summary="List Ray clusters")
async def list_ray_clusters(services: Parts, principal: Reader, tag: Tag, namespace: OneNamespace = None) -> Response:
    """The Ray clusters that the platform made for people, as they are now. Those that training runs make for themselves
    are not among them."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(RayClusterList(read_at=datetime.now(UTC)))
    question = ListRayClusters(
        scope=asking(record, principal.name, LIST_RAY_CLUSTERS_WORKFLOW),
        eks_cluster=record.control_plane.name,
        namespace=namespace,
    )
    return reply(await services.lookups.read(LIST_RAY_CLUSTERS_WORKFLOW, tag, question, RayClusterList))


@router.get("/{name}", operation_id="get_ray_cluster", response_model=RayClusterDetail, summary="Get a Ray cluster")
async def get_ray_cluster(
    services: Parts, principal: Reader, tag: Tag, name: Name, namespace: Namespace = "default"
) -> Response:
    """One Ray cluster: what it was made from, its pods, and what runs on it."""
    record, control_plane = await with_control_plane(services, tag, "Ray clusters")
    question = parse(
        ReadRayCluster,
        {
            "scope": asking(record, principal.name, READ_RAY_CLUSTER_WORKFLOW),
            "eks_cluster": control_plane.name,
            "name": name,
            "namespace": namespace,
        },
    )
    return reply(await services.lookups.read(READ_RAY_CLUSTER_WORKFLOW, tag, question, RayClusterDetail))


@router.post("", operation_id="create_ray_cluster", summary="Create a Ray cluster", **STARTS)
async def create_ray_cluster(start: Start, tag: Tag, body: RayClusterSpec) -> Response:
    """A Ray cluster that people connect to from inside the Kubernetes cluster, until its head and workers are ready and
    the head answers. Its GPUs are held until it is deleted."""
    return await start.on(catalogue.CREATE_RAY_CLUSTER, tag, body)


@router.delete("/{name}", operation_id="delete_ray_cluster", summary="Delete a Ray cluster", **STARTS)
async def delete_ray_cluster(start: Start, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """Its pods go, with everything that runs on it and what it keeps in memory."""
    spec = parse(DeleteRayClusterSpec, {"name": name, "namespace": namespace})
    return await start.on(catalogue.DELETE_RAY_CLUSTER, tag, spec)
