"""Credentials of a cluster. A token comes in here, is sealed at once, and never comes out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import ValidationError
from starlette.responses import Response

from api.auth import Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.problems import ProblemError, refuse
from api.sealing import seal_key
from api.services import Parts, reply
from contracts import catalogue
from contracts.catalogue import LIST_CREDENTIALS_WORKFLOW
from contracts.cluster import ClusterRecord
from contracts.credentials import (
    CredentialList,
    CredentialRequest,
    DeleteCredentialSpec,
    ListCredentials,
    StoreCredentialSpec,
    seal_context,
)
from contracts.problem import ProblemCode, field_errors, invalid
from contracts.sealing import seal

router = APIRouter(prefix="/api/v1/clusters/{tag}/credentials", tags=["credentials"])

Name = Annotated[str, Path(description="The credential's name.", examples=["huggingface"], max_length=63)]
Namespace = Annotated[str, Query(description="Where its users run.", max_length=63)]


@router.get("", operation_id="list_credentials", response_model=CredentialList, summary="List credentials")
async def list_credentials(services: Parts, principal: Reader, tag: Tag) -> Response:
    """Names, namespaces, ages and what uses them; never values."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(CredentialList(read_at=datetime.now(UTC)))
    question = ListCredentials(
        scope=asking(record, principal.name, LIST_CREDENTIALS_WORKFLOW), eks_cluster=record.control_plane.name
    )
    return reply(await services.lookups.read(LIST_CREDENTIALS_WORKFLOW, record.tag, question, CredentialList))


@router.put("/{name}", operation_id="store_credential", summary="Store a credential", **STARTS)
async def store_credential(services: Parts, start: Start, tag: Tag, name: Name, body: CredentialRequest) -> Response:
    """Keep a token as a Secret of the cluster; what refers to it by its name can use it. One that exists is replaced.
    The token is sealed before anything is written down, and is never shown again."""
    sealed = seal(seal_key(services), body.token.get_secret_value(), seal_context(tag, body.namespace, name))
    try:
        spec = StoreCredentialSpec(name=name, namespace=body.namespace, sealed=sealed)
    except ValidationError as error:
        raise ProblemError(invalid(field_errors(error, model=StoreCredentialSpec))) from None
    return await start.on(catalogue.STORE_CREDENTIAL, tag, spec)


@router.delete("/{name}", operation_id="delete_credential", summary="Delete a credential", **STARTS)
async def delete_credential(start: Start, tag: Tag, name: Name, namespace: Namespace = "default") -> Response:
    """Delete its Secret, unless a workload refers to it."""
    try:
        spec = DeleteCredentialSpec(name=name, namespace=namespace)
    except ValidationError as error:
        raise ProblemError(invalid(field_errors(error, model=DeleteCredentialSpec))) from None
    return await start.on(catalogue.DELETE_CREDENTIAL, tag, spec)


def _control_plane(record: ClusterRecord) -> str:
    if record.control_plane is None:
        raise refuse(
            ProblemCode.NOT_FOUND,
            f"cluster {record.tag!r} has no control plane, so it has no credentials",
            remedy="Create the control plane first (create-control-plane).",
        )
    return record.control_plane.name
