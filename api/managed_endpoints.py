"""Managed endpoints of a cluster: models that the inference operator serves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, known, with_control_plane
from api.problems import parse, wrong_field
from api.services import Parts, reply
from contracts import catalogue
from contracts.catalogue import LIST_ENDPOINTS_WORKFLOW, READ_ENDPOINT_WORKFLOW
from contracts.managed_endpoints import (
    DeleteEndpointSpec,
    EndpointDetail,
    EndpointList,
    EndpointSpec,
    ListEndpoints,
    ReadEndpoint,
)
from contracts.names import KUBERNETES_NAME

router = APIRouter(prefix="/api/v1/clusters/{tag}/endpoints", tags=["managed endpoints"])

Name = Annotated[str, Path(description="The endpoint's name.", examples=["qwen"], max_length=63)]
Namespace = Annotated[str, Query(description="The endpoint's namespace.", max_length=63)]
OneNamespace = Annotated[
    str | None,
    Query(
        description="Only endpoints of this namespace; of all without it.",
        max_length=KUBERNETES_NAME.maximum,
        pattern=f"^{KUBERNETES_NAME.pattern}$",
    ),
]


@router.get("", operation_id="list_endpoints", response_model=EndpointList, summary="List managed endpoints")
async def list_endpoints(services: Parts, _: Reader, tag: Tag, namespace: OneNamespace = None) -> Response:
    """InferenceEndpointConfigs and JumpStartModels as they are now, others' too: state, replicas, routing, the Service
    that the cluster calls them by, and their SageMaker endpoint."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(EndpointList(read_at=datetime.now(UTC)))
    question = ListEndpoints(
        cluster=tag, region=record.region, eks_cluster=record.control_plane.name, namespace=namespace
    )
    return reply(await services.lookups.read(LIST_ENDPOINTS_WORKFLOW, tag, question, EndpointList))


@router.get("/{name}", operation_id="get_endpoint", response_model=EndpointDetail, summary="Get a managed endpoint")
async def get_endpoint(services: Parts, _: Reader, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """One endpoint with its operator's conditions, and what holds its pods up."""
    record, control_plane = await with_control_plane(services, tag, "endpoints")
    question = ReadEndpoint(
        cluster=tag, region=record.region, eks_cluster=control_plane.name, namespace=namespace, name=name
    )
    return reply(await services.lookups.read(READ_ENDPOINT_WORKFLOW, tag, question, EndpointDetail))


@router.post("", operation_id="create_endpoint", summary="Create a managed endpoint", **STARTS)
async def create_endpoint(start: Start, tag: Tag, body: EndpointSpec) -> Response:
    """A model that the inference operator serves, from S3, FSx, the Hugging Face Hub or JumpStart, until it answers."""
    return await start.on(catalogue.CREATE_ENDPOINT, tag, body)


@router.put("/{name}", operation_id="update_endpoint", summary="Update a managed endpoint", **STARTS)
async def update_endpoint(start: Start, tag: Tag, name: Name, body: EndpointSpec) -> Response:
    """Everything but its routing may change. The body is the whole endpoint as it is to be."""
    if body.name != name:
        raise wrong_field("/name", f"the address names {name}, the body {body.name}", "Send the same name in both.")
    return await start.on(catalogue.UPDATE_ENDPOINT, tag, body)


@router.delete("/{name}", operation_id="delete_endpoint", summary="Delete a managed endpoint", **STARTS)
async def delete_endpoint(start: Start, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """Its pods, load balancer and SageMaker endpoint go with it; the model's files stay."""
    spec = parse(DeleteEndpointSpec, {"name": name, "namespace": namespace})
    return await start.on(catalogue.DELETE_ENDPOINT, tag, spec)
