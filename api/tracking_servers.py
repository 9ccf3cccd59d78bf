"""Tracking servers of managed MLflow: the cluster's own, and others of its account and region."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from api.auth import Opener, Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.problems import ProblemError
from api.sealing import seal_key
from api.services import Parts, reply
from contracts import catalogue
from contracts.catalogue import (
    LIST_TRACKING_SERVERS_WORKFLOW,
    OPEN_TRACKING_SERVER_WORKFLOW,
    READ_TRACKING_SERVER_WORKFLOW,
)
from contracts.model import Model
from contracts.problem import field_errors, invalid
from contracts.sealing import unseal
from contracts.tracking_servers import (
    LINK_SECONDS,
    DeleteTrackingServerSpec,
    ListTrackingServers,
    OpenTrackingServer,
    ReadTrackingServer,
    SealedLink,
    ServerReference,
    TrackingServerDetail,
    TrackingServerLink,
    TrackingServerList,
    TrackingServerSpec,
    link_context,
)

router = APIRouter(prefix="/api/v1/clusters/{tag}/tracking-servers", tags=["experiments"])

Name = Annotated[
    str,
    Path(
        description="The server's name. To read, also the ARN of a tracking server or MLflow app.",
        examples=["research"],
        max_length=400,
    ),
]


Parsed = TypeVar("Parsed", bound=BaseModel)


class Named(Model):
    """A reference in a path or query, held to the rules of one in a body."""

    tracking_server: ServerReference


def referred(text: str) -> str:
    """``text`` as a reference to a server. Raises ProblemError (422)."""
    return parsed(Named, tracking_server=text).tracking_server


def parsed(model: type[Parsed], **members: Any) -> Parsed:
    """A model from a path and query. Raises ProblemError (422) that names the member at fault."""
    try:
        return model(**members)
    except ValidationError as error:
        raise ProblemError(invalid(field_errors(error, model=model))) from None


@router.get(
    "", operation_id="list_tracking_servers", response_model=TrackingServerList, summary="List tracking servers"
)
async def list_tracking_servers(services: Parts, principal: Reader, tag: Tag) -> Response:
    """Tracking servers and MLflow apps of the account in the cluster's region, the cluster's own first."""
    record = await known(services, tag)
    question = ListTrackingServers(scope=asking(record, principal.name, LIST_TRACKING_SERVERS_WORKFLOW))
    return reply(await services.lookups.read(LIST_TRACKING_SERVERS_WORKFLOW, tag, question, TrackingServerList))


@router.post("", operation_id="create_tracking_server", summary="Create a tracking server", **STARTS)
async def create_tracking_server(start: Start, tag: Tag, body: TrackingServerSpec) -> Response:
    """A tracking server with a role of its own. It takes up to 25 minutes, and is paid for while it runs."""
    return await start.on(catalogue.CREATE_TRACKING_SERVER, tag, body)


@router.post(
    "/{name:path}/link",
    operation_id="open_tracking_server",
    response_model=TrackingServerLink,
    summary="Get a link into a tracking server",
)
async def open_tracking_server(services: Parts, principal: Opener, tag: Tag, name: Name) -> Response:
    """A link into the server's own pages, for once and for five minutes. It lets in whoever has it, as the platform: it
    is answered to people, and nothing keeps it."""
    record = await known(services, tag)
    server, key = referred(name), seal_key(services)
    question = OpenTrackingServer(scope=asking(record, principal.name, OPEN_TRACKING_SERVER_WORKFLOW), server=server)
    found = await services.lookups.read(OPEN_TRACKING_SERVER_WORKFLOW, tag, question, SealedLink)
    url = unseal(key, found.sealed, link_context(record.tag, server))
    return reply(TrackingServerLink(url=url, expires_in_seconds=LINK_SECONDS), headers={"Cache-Control": "no-store"})


@router.get(
    "/{name:path}",
    operation_id="get_tracking_server",
    response_model=TrackingServerDetail,
    summary="Get a tracking server",
)
async def get_tracking_server(services: Parts, principal: Reader, tag: Tag, name: Name) -> Response:
    """How it stands, and which service accounts of the cluster report to it."""
    record = await known(services, tag)
    question = ReadTrackingServer(
        scope=asking(record, principal.name, READ_TRACKING_SERVER_WORKFLOW),
        eks_cluster=None if record.control_plane is None else record.control_plane.name,
        server=referred(name),
    )
    return reply(await services.lookups.read(READ_TRACKING_SERVER_WORKFLOW, tag, question, TrackingServerDetail))


@router.delete("/{name}", operation_id="delete_tracking_server", summary="Delete a tracking server", **STARTS)
async def delete_tracking_server(start: Start, tag: Tag, name: Name) -> Response:
    """All its experiments and runs are lost; its artifacts stay in the cluster's bucket."""
    return await start.on(catalogue.DELETE_TRACKING_SERVER, tag, parsed(DeleteTrackingServerSpec, name=name))
