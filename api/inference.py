"""Services that serve models, and calls to them."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from api.auth import Reader, Starter
from api.managed import NAMESPACE, Tag, with_control_plane
from api.model_calls import Called, called
from api.services import Parts, reply
from api.streams import EVENTS, event_stream
from contracts.catalogue import LIST_SERVICES_WORKFLOW
from contracts.inference import CallModel, CallRequest, ListServices, ModelAnswer, ServicesRead
from contracts.names import KUBERNETES_NAME

router = APIRouter(prefix="/api/v1/clusters/{tag}/services", tags=["inference"])

Name = Annotated[
    str,
    Path(
        description="The Service's name.",
        examples=["qwen"],
        max_length=KUBERNETES_NAME.maximum,
        pattern=f"^{KUBERNETES_NAME.pattern}$",
    ),
]
Namespace = Annotated[str, Query(description="The Service's namespace.", **NAMESPACE)]
OneNamespace = Annotated[
    str | None, Query(description="Only Services of this namespace; of all without it.", **NAMESPACE)
]
Public = Annotated[bool, Query(description="Only those with a load balancer.")]


@router.get("", operation_id="list_services", response_model=ServicesRead, summary="List services")
async def list_services(
    services: Parts, _: Reader, tag: Tag, namespace: OneNamespace = None, public: Public = False
) -> Response:
    """Services before model servers as they are now, others' too: what serves, where it is called, how many of its pods
    answer, and the address of its load balancer, if it has one."""
    record, control_plane = await with_control_plane(services, tag, "services")
    question = ListServices(
        cluster=tag, region=record.region, eks_cluster=control_plane.name, namespace=namespace, public=public
    )
    return reply(await services.lookups.read(LIST_SERVICES_WORKFLOW, tag, question, ServicesRead))


@router.post(
    "/{name}/invocations",
    operation_id="call_model",
    response_model=ModelAnswer,
    summary="Call a model",
    responses={
        200: {
            "description": "The answer; with `stream` events: `text` and `reasoning` with a `delta`, then `end` with "
            "the answer or `problem`.",
            "content": EVENTS,
        }
    },
)
async def call_model(
    services: Parts, principal: Starter, tag: Tag, name: Name, body: CallRequest, namespace: Namespace = "default"
) -> Response:
    """One request to the model behind a Service, through the Kubernetes API: neither a port nor an address is opened.

    What is asked and answered is kept in Temporal's history for as long as any workflow's.
    """
    record, control_plane = await with_control_plane(services, tag, f"Service {namespace}/{name}")
    question = CallModel(
        region=record.region, eks_cluster=control_plane.name, namespace=namespace, service=name, request=body
    )
    call = await called(services.temporal, f"{tag}/{namespace}/{name}/{uuid.uuid4()}", question)
    if not body.stream:
        return reply(await call.answer())
    return event_stream(services.settings, _events(call))


async def _events(call: Called) -> AsyncIterator[ServerSentEvent]:
    async for name, document in call.written():
        yield ServerSentEvent(document if isinstance(document, str) else json.dumps(document), event=name)
