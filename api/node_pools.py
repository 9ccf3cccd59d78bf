"""Node pools of a cluster's managed Karpenter."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.services import Parts, Services, reply
from contracts import catalogue
from contracts.answers import NodePoolList
from contracts.catalogue import LIST_NODE_POOLS_WORKFLOW
from contracts.cluster import ClusterRecord
from contracts.node_pools import (
    DeleteNodePoolSpec,
    ListNodePools,
    NodePools,
    NodePoolSpec,
)

router = APIRouter(prefix="/api/v1/clusters/{tag}/node-pools", tags=["node pools"])

Name = Annotated[str, Path(description="The node pool's name.", examples=["gpus"], max_length=63)]


@router.get("", operation_id="list_node_pools", response_model=NodePoolList, summary="List node pools")
async def list_node_pools(services: Parts, principal: Reader, tag: Tag) -> Response:
    """Readiness, nodes, accelerators in use and limits as they are now; as the record last had them where nobody
    answers in time."""
    record = await known(services, tag)
    found = await _look(services, record, principal.name)
    if found is None:
        return reply(NodePoolList(node_pools=record.node_pools, live=False))
    return reply(NodePoolList(node_pools=found.node_pools, live=True))


async def _look(services: Services, record: ClusterRecord, by: str) -> NodePools | None:
    if record.control_plane is None:
        return NodePools()
    scope = asking(record, by, LIST_NODE_POOLS_WORKFLOW)
    question = ListNodePools(scope=scope, eks_cluster=record.control_plane.name)
    return await services.lookups.read_if_answered(LIST_NODE_POOLS_WORKFLOW, record.tag, question, NodePools)


@router.post("", operation_id="create_node_pool", summary="Create a node pool", **STARTS)
async def create_node_pool(start: Start, tag: Tag, body: NodePoolSpec) -> Response:
    """A node class of instance groups and a node pool on it: pods that fit get nodes, from zero, and idle nodes go. One
    that exists is changed to what is asked."""
    return await start.on(catalogue.CREATE_NODE_POOL, tag, body)


@router.delete("/{name}", operation_id="delete_node_pool", summary="Delete a node pool", **STARTS)
async def delete_node_pool(start: Start, tag: Tag, name: Name) -> Response:
    """Evict its pods, let its nodes go, and delete its node class unless another pool uses that."""
    return await start.on(catalogue.DELETE_NODE_POOL, tag, DeleteNodePoolSpec(node_pool=name))
