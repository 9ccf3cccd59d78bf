"""Instance groups of a HyperPod cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.problems import parse
from api.services import Parts, Services, reply
from contracts import catalogue
from contracts.answers import InstanceGroupList
from contracts.capacity import InstanceGroupSpec
from contracts.catalogue import READ_INSTANCE_GROUPS_WORKFLOW
from contracts.cluster import ClusterRecord
from contracts.hyperpod import HyperPodCluster
from contracts.instance_groups import (
    DeleteInstanceGroupSpec,
    InstanceGroupChanges,
    InstanceGroupScaling,
    ReadGroups,
    ScaleInstanceGroupSpec,
    UpdateInstanceGroupSpec,
)

router = APIRouter(prefix="/api/v1/clusters/{tag}/instance-groups", tags=["instance groups"])

Group = Annotated[str, Path(description="The instance group's name.", examples=["workers"], max_length=63)]
Drain = Annotated[bool, Query(description="Cordon the nodes and evict their pods first; false: pods go with them.")]


@router.get("", operation_id="list_instance_groups", response_model=InstanceGroupList, summary="List instance groups")
async def list_instance_groups(services: Parts, principal: Reader, tag: Tag) -> Response:
    """As they are now; as the record last had them where nobody answers in time."""
    record = await known(services, tag)
    if record.hyperpod is None:
        return reply(InstanceGroupList(live=False))
    found = await _look(services, record, record.hyperpod.name, principal.name)
    cluster = found or record.hyperpod
    return reply(
        InstanceGroupList(
            hyperpod_cluster=cluster.name,
            status=cluster.status,
            instance_groups=cluster.groups,
            live=found is not None,
        )
    )


async def _look(services: Services, record: ClusterRecord, name: str, by: str) -> HyperPodCluster | None:
    scope = asking(record, by, READ_INSTANCE_GROUPS_WORKFLOW)
    question = ReadGroups(scope=scope, hyperpod_cluster=name)
    return await services.lookups.read_if_answered(READ_INSTANCE_GROUPS_WORKFLOW, record.tag, question, HyperPodCluster)


@router.post("", operation_id="add_instance_group", summary="Add an instance group", **STARTS)
async def add_instance_group(start: Start, tag: Tag, body: InstanceGroupSpec) -> Response:
    """A group with all its choices, until its nodes are Ready with their accelerators. Other groups are left alone."""
    return await start.on(catalogue.ADD_INSTANCE_GROUP, tag, body)


@router.post("/{group}/scale", operation_id="scale_instance_group", summary="Scale an instance group", **STARTS)
async def scale_instance_group(start: Start, tag: Tag, group: Group, body: InstanceGroupScaling) -> Response:
    """Another number of instances. Asked again while it runs, the last word holds."""
    spec = parse(ScaleInstanceGroupSpec, {"group": group, **body.model_dump()}, "")
    return await start.on(catalogue.SCALE_INSTANCE_GROUP, tag, spec)


@router.patch("/{group}", operation_id="update_instance_group", summary="Change an instance group", **STARTS)
async def update_instance_group(start: Start, tag: Tag, group: Group, body: InstanceGroupChanges) -> Response:
    """Labels, taints, minimum, deep health checks, volume: what is named changes, the rest stays."""
    spec = parse(UpdateInstanceGroupSpec, {"group": group, **body.model_dump(exclude_none=True)}, "")
    return await start.on(catalogue.UPDATE_INSTANCE_GROUP, tag, spec)


@router.delete("/{group}", operation_id="delete_instance_group", summary="Delete an instance group", **STARTS)
async def delete_instance_group(start: Start, tag: Tag, group: Group, drain: Drain = True) -> Response:
    """The group and its instances. Its dedicated subnet stays for a later group of the name."""
    spec = parse(DeleteInstanceGroupSpec, {"group": group, "drain": drain}, "")
    return await start.on(catalogue.DELETE_INSTANCE_GROUP, tag, spec)
