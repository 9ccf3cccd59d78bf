"""Model servers of a cluster that the platform runs itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.auth import Reader
from api.managed import NAMESPACE, STARTS, Start, Tag, asking, known, with_control_plane
from api.problems import parse, wrong_field
from api.services import Parts, reply
from contracts import catalogue
from contracts.catalogue import LIST_DEPLOYMENTS_WORKFLOW, READ_DEPLOYMENT_WORKFLOW
from contracts.command_report import ParsedCommand, ParseRequest, report
from contracts.deployments import (
    MOST_REPLICAS,
    DeleteDeploymentSpec,
    DeploymentDetail,
    DeploymentList,
    DeploymentSpec,
    ListDeployments,
    ReadDeployment,
    ScaleDeploymentSpec,
)
from contracts.model import Model

router = APIRouter(prefix="/api/v1/clusters/{tag}/deployments", tags=["deployments"])

Name = Annotated[str, Path(description="The deployment's name.", examples=["qwen3-chat"], max_length=63)]
Namespace = Annotated[str, Query(description="The deployment's namespace.", **NAMESPACE)]
OneNamespace = Annotated[
    str | None, Query(description="Only deployments of this namespace; of all without it.", **NAMESPACE)
]


class DeploymentScaling(Model):
    """Another number of replicas."""

    replicas: int = Field(ge=0, le=MOST_REPLICAS, strict=True, examples=[2])
    """0: nothing runs; it stays as it is otherwise."""


@router.get("", operation_id="list_deployments", response_model=DeploymentList, summary="List deployments")
async def list_deployments(services: Parts, principal: Reader, tag: Tag, namespace: OneNamespace = None) -> Response:
    """The model servers that the platform made, as they are now: state and what is in the way, replicas, GPUs, and the
    Services that lead to them."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(DeploymentList(read_at=datetime.now(UTC)))
    question = ListDeployments(
        scope=asking(record, principal.name, LIST_DEPLOYMENTS_WORKFLOW),
        eks_cluster=record.control_plane.name,
        namespace=namespace,
    )
    return reply(await services.lookups.read(LIST_DEPLOYMENTS_WORKFLOW, tag, question, DeploymentList))


@router.post("/parse", operation_id="parse_command", response_model=ParsedCommand, summary="Look at a command")
async def parse_command(request: Request, services: Parts, _: Reader, tag: Tag, body: ParseRequest) -> Response:
    """The words that a command line is read as, and what is wrong with it or may surprise. No cluster is asked, and
    nothing is started."""
    request.state.only_reads = True  # a form asks with every change of it
    await known(services, tag)
    return reply(report(body))


@router.get("/{name}", operation_id="get_deployment", response_model=DeploymentDetail, summary="Get a deployment")
async def get_deployment(
    services: Parts, principal: Reader, tag: Tag, name: Name, namespace: Namespace = "default"
) -> Response:
    """One model server: what it was made from, its conditions, and its pods, those in trouble first."""
    record, control_plane = await with_control_plane(services, tag, "deployments")
    question = parse(
        ReadDeployment,
        {
            "scope": asking(record, principal.name, LIST_DEPLOYMENTS_WORKFLOW),
            "eks_cluster": control_plane.name,
            "name": name,
            "namespace": namespace,
        },
    )
    return reply(await services.lookups.read(READ_DEPLOYMENT_WORKFLOW, tag, question, DeploymentDetail))


@router.post("", operation_id="create_deployment", summary="Create a deployment", **STARTS)
async def create_deployment(start: Start, tag: Tag, body: DeploymentSpec) -> Response:
    """A model server (vLLM, SGLang or any other) from its command, until its model has answered."""
    return await start.on(catalogue.CREATE_DEPLOYMENT, tag, body)


@router.put("/{name}", operation_id="update_deployment", summary="Update a deployment", **STARTS)
async def update_deployment(start: Start, tag: Tag, name: Name, body: DeploymentSpec) -> Response:
    """The body is the whole deployment as it is to be. New replicas come before old ones go; where they do not serve,
    the former form is put back."""
    if body.name != name:
        raise wrong_field("/name", f"the address names {name}, the body {body.name}", "Send the same name in both.")
    return await start.on(catalogue.UPDATE_DEPLOYMENT, tag, body)


@router.post("/{name}/scale", operation_id="scale_deployment", summary="Scale a deployment", **STARTS)
async def scale_deployment(
    start: Start, tag: Tag, name: Name, body: DeploymentScaling, namespace: Namespace = "default"
) -> Response:
    """Another number of replicas. Asked again while it runs, the last word holds."""
    spec = parse(ScaleDeploymentSpec, {"name": name, "namespace": namespace, **body.model_dump()})
    return await start.on(catalogue.SCALE_DEPLOYMENT, tag, spec)


@router.delete("/{name}", operation_id="delete_deployment", summary="Delete a deployment", **STARTS)
async def delete_deployment(start: Start, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """Its Services first, then its pods, until all of it is gone. The model's files stay."""
    spec = parse(DeleteDeploymentSpec, {"name": name, "namespace": namespace})
    return await start.on(catalogue.DELETE_DEPLOYMENT, tag, spec)
