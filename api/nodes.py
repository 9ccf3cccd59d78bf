"""Nodes of a cluster: listed with their health and use, rebooted, replaced and deleted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api import pages
from api.auth import Reader
from api.managed import STARTS, Start, Tag, known
from api.operations import PageToken, page_reply
from api.services import Parts, Services, reply
from contracts import catalogue
from contracts.answers import ClusterUsage, NodeDetail, NodePage
from contracts.catalogue import READ_NODES_WORKFLOW
from contracts.cluster import ClusterRecord
from contracts.node_views import MOST_ON_A_PAGE, NodesRead, ReadNodes
from contracts.nodes import DeleteNodesSpec, RebootNodesSpec, ReplaceNodesSpec

router = APIRouter(prefix="/api/v1/clusters/{tag}/nodes", tags=["nodes"])
usage_router = APIRouter(prefix="/api/v1/clusters/{tag}/usage", tags=["nodes"])

Group = Annotated[
    str | None, Query(description="Only nodes of this instance group, node group or node pool.", max_length=100)
]
NodesPageSize = Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)]
NodePath = Annotated[
    str,
    Path(
        description="The node's instance (i-…), Kubernetes name (hyperpod-i-…) or logical ID.",
        examples=["hyperpod-i-0123456789abcdef0"],
        max_length=253,
    ),
]


@router.get("", operation_id="list_nodes", response_model=NodePage, summary="List nodes")
async def list_nodes(
    services: Parts,
    _: Reader,
    tag: Tag,
    group: Group = None,
    unhealthy: Annotated[bool, Query(description="Only nodes that are not healthy.")] = False,
    page_size: NodesPageSize = 50,
    page_token: PageToken = None,
) -> Response:
    """Every node as SageMaker and Kubernetes have it now, those of EKS node groups and of Karpenter too: status,
    health, accelerators and what pods use of them. The summary tells of all nodes, with what pending pods ask for."""
    record = await known(services, tag)
    listing = f"nodes/{tag}/{group or ''}/{unhealthy}"
    after = pages.unseal(listing, page_token)
    question = _question(record).model_copy(
        update={
            "group": group,
            "unhealthy": unhealthy,
            "after": after.decode() if after is not None else None,
            "size": page_size,
        }
    )
    found = await _read(services, question)
    return page_reply(
        NodePage(
            nodes=found.nodes,
            summary=found.summary,
            matching=found.matching,
            read_at=found.read_at,
            next_page_token=pages.seal(listing, found.last.encode()) if found.last is not None else None,
        )
    )


@router.get("/{node}", operation_id="get_node", response_model=NodeDetail, summary="Get a node")
async def get_node(services: Parts, _: Reader, tag: Tag, node: NodePath) -> Response:
    """One node, with the pods that live on it and what they belong to."""
    record = await known(services, tag)
    found = await _read(services, _question(record).model_copy(update={"node": node}))
    return reply(NodeDetail(node=found.nodes[0], pods=found.pods, read_at=found.read_at))


@usage_router.get("", operation_id="get_usage", response_model=ClusterUsage, summary="Get a cluster's usage")
async def get_usage(services: Parts, _: Reader, tag: Tag) -> Response:
    """Nodes, devices and pods of the whole cluster as numbers, those of EKS node groups and of Karpenter among them.
    Read at most every 15 seconds, however many ask."""
    record = await known(services, tag)
    return reply(await services.lookups.usage(_question(record).model_copy(update={"size": 0})))


@router.post("/reboot", operation_id="reboot_nodes", summary="Reboot nodes", **STARTS)
async def reboot_nodes(start: Start, tag: Tag, body: RebootNodesSpec) -> Response:
    """Restart the nodes' operating systems; instances and volumes stay. Ends when each has booted anew and is Ready."""
    return await start.on(catalogue.REBOOT_NODES, tag, body)


@router.post("/replace", operation_id="replace_nodes", summary="Replace nodes", **STARTS)
async def replace_nodes(start: Start, tag: Tag, body: ReplaceNodesSpec) -> Response:
    """Other instances in the nodes' place; everything on their volumes is lost. Ends when the new ones are Ready."""
    return await start.on(catalogue.REPLACE_NODES, tag, body)


@router.post("/delete", operation_id="delete_nodes", summary="Delete nodes", **STARTS)
async def delete_nodes(start: Start, tag: Tag, body: DeleteNodesSpec) -> Response:
    """End the nodes and lower their groups' targets by as many. Ends when they are gone."""
    return await start.on(catalogue.DELETE_NODES, tag, body)


def _question(record: ClusterRecord) -> ReadNodes:
    return ReadNodes(
        cluster=record.tag,
        region=record.region,
        hyperpod=record.hyperpod.name if record.hyperpod is not None else None,
        eks_cluster=record.control_plane.name if record.control_plane is not None else None,
    )


async def _read(services: Services, question: ReadNodes) -> NodesRead:
    """Raises ProblemError: 404 for a node that is not there, 503 where the cluster gives no answer in time."""
    return await services.lookups.read(READ_NODES_WORKFLOW, question.cluster, question, NodesRead)
