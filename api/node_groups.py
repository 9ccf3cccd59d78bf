"""EKS node groups of a cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.problems import parse
from api.services import Parts, Services, reply
from contracts import catalogue
from contracts.answers import NodeGroupList
from contracts.catalogue import LIST_NODE_GROUPS_WORKFLOW
from contracts.cluster import ClusterRecord
from contracts.node_groups import (
    DeleteNodeGroupSpec,
    ListNodeGroups,
    NodeGroups,
    NodeGroupScaling,
    NodeGroupSpec,
    ScaleNodeGroupSpec,
)

router = APIRouter(prefix="/api/v1/clusters/{tag}/node-groups", tags=["node groups"])

Name = Annotated[str, Path(description="The node group's name.", examples=["cpu"], max_length=63)]


@router.get("", operation_id="list_node_groups", response_model=NodeGroupList, summary="List node groups")
async def list_node_groups(services: Parts, principal: Reader, tag: Tag) -> Response:
    """As they are now; as the record last had them where nobody answers in time."""
    record = await known(services, tag)
    found = await _look(services, record, principal.name)
    if found is None:
        return reply(NodeGroupList(node_groups=record.node_groups, live=False))
    return reply(NodeGroupList(node_groups=found.node_groups, live=True))


async def _look(services: Services, record: ClusterRecord, by: str) -> NodeGroups | None:
    if record.control_plane is None:
        return NodeGroups()
    scope = asking(record, by, LIST_NODE_GROUPS_WORKFLOW)
    question = ListNodeGroups(scope=scope, eks_cluster=record.control_plane.name)
    return await services.lookups.read_if_answered(LIST_NODE_GROUPS_WORKFLOW, record.tag, question, NodeGroups)


@router.post("", operation_id="create_node_group", summary="Create a node group", **STARTS)
async def create_node_group(start: Start, tag: Tag, body: NodeGroupSpec) -> Response:
    """EC2 instances that EKS manages, until they are Ready with their accelerators."""
    return await start.on(catalogue.CREATE_NODE_GROUP, tag, body)


@router.post("/{name}/scale", operation_id="scale_node_group", summary="Scale a node group", **STARTS)
async def scale_node_group(start: Start, tag: Tag, name: Name, body: NodeGroupScaling) -> Response:
    """Another number of nodes. Asked again while it runs, the last word holds."""
    spec = parse(ScaleNodeGroupSpec, {"node_group": name, **body.model_dump()})
    return await start.on(catalogue.SCALE_NODE_GROUP, tag, spec)


@router.delete("/{name}", operation_id="delete_node_group", summary="Delete a node group", **STARTS)
async def delete_node_group(start: Start, tag: Tag, name: Name) -> Response:
    """Evict its pods, end its instances, and delete what was made for it."""
    return await start.on(catalogue.DELETE_NODE_GROUP, tag, parse(DeleteNodeGroupSpec, {"node_group": name}))
