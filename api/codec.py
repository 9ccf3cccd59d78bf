"""Temporal's remote codec: operators read encrypted payloads in Temporal's Web UI and with its command line.

The protocol is Temporal's (https://docs.temporal.io/codec-server): ``POST …/decode`` and ``…/encode`` take and give
back ``temporal.api.common.v1.Payloads`` as protobuf's JSON. A command line shows a bearer token; the Web UI, which runs
in a browser, sends the cookie of somebody who has signed in to the console.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Request
from google.protobuf import json_format
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.api.common.v1 import Payload, Payloads

from api.auth import Action, Authentication, Credential, allowed, bearer
from api.problems import refuse
from api.services import Parts, Services
from contracts.access import SESSION_COOKIE, Principal
from contracts.problem import ProblemCode
from temporal.codec import EncryptionCodec, UndecodableError

PREFIX = "/codec"
LARGEST_BODY = 8_000_000
"""Bytes. What is shown together was written together: at most 4 MiB (a payload has at most 2, a transaction of a
history 4: https://docs.temporal.io/self-hosted-guide/defaults), in base64, with the metadata of each payload."""
router = APIRouter(prefix=PREFIX, include_in_schema=False)


def serves(path: str) -> bool:
    """Whether a request with this path is the codec's."""
    return path.startswith(f"{PREFIX}/")


def web_ui_origin(url: str | None) -> str | None:
    """The origin of the Web UI at ``url``, as browsers send it; None where there is no Web UI."""
    if url is None:
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


async def _shown(request: Request, services: Parts, authentication: Authentication) -> Credential:
    """A bearer token, or the console's session where a page of the Web UI sends it."""
    session = request.cookies.get(SESSION_COOKIE)
    if bearer(request) is not None or session is None:
        return authentication.authenticate(request)
    if request.headers.get("Origin", "").lower() != web_ui_origin(services.settings.temporal_ui_url):
        raise refuse(
            ProblemCode.DENIED,
            "only Temporal's Web UI may use the console's session here",
            remedy="Send Authorization: Bearer TOKEN, or set INSTANTSTART_TEMPORAL_UI_URL to the Web UI's address.",
        )
    return authentication.authenticate(request, session)


async def _payload_reader(request: Request, shown: Annotated[Credential, Depends(_shown)]) -> Principal:
    return await allowed(Action.PAYLOADS)(shown)


PayloadReader = Annotated[Principal, Depends(_payload_reader)]


@router.post("/decode")
async def decode(request: Request, services: Parts, _: PayloadReader) -> Response:
    """The payloads, decrypted; one that cannot be is given back as it is, with its key's ID in its metadata."""
    return await _answer(request, [await _readable(_codec(services), each) for each in await _payloads(request)])


@router.post("/encode")
async def encode(request: Request, services: Parts, _: PayloadReader) -> Response:
    """The payloads as a worker reads them: encrypted, where the deployment has keys."""
    return await _answer(request, await _codec(services).encode(await _payloads(request)))


async def _readable(codec: EncryptionCodec, payload: Payload) -> Payload:
    try:
        (readable,) = await codec.decode([payload])
    except UndecodableError:
        return payload
    return readable


def _codec(services: Services) -> EncryptionCodec:
    codec = services.temporal.client.data_converter.payload_codec
    if not isinstance(codec, EncryptionCodec):
        raise refuse(ProblemCode.UNSUPPORTED, "this gateway's connection to Temporal has no codec")
    return codec


async def _payloads(request: Request) -> list[Payload]:
    try:
        return list(json_format.Parse(await request.body(), Payloads()).payloads)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise refuse(
            ProblemCode.INVALID,
            "the body is no temporal.api.common.v1.Payloads in protobuf's JSON",
            status=400,
            remedy="Temporal's Web UI and command line send it so.",
        ) from error


async def _answer(request: Request, payloads: list[Payload]) -> Response:
    asked_for = request.headers.get("X-Namespace", "")[:100]
    request.state.audit_detail = f"{len(payloads)} payloads" + (f" of namespace {asked_for}" if asked_for else "")
    content = json_format.MessageToJson(Payloads(payloads=payloads), indent=None)
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


class CodecCors:
    """ASGI middleware: pages of the Web UI may call what is below ``/codec``, and nothing else of the gateway."""

    def __init__(self, app: ASGIApp, origin: str | None) -> None:
        self._app = app
        self._shared: ASGIApp = app
        if origin is not None:
            options: dict[str, Any] = {
                "allow_origins": [origin],
                "allow_credentials": True,
                "allow_methods": ["POST"],
                "allow_headers": ["Content-Type", "X-Namespace", "Authorization"],
            }
            self._shared = CORSMiddleware(app, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        below = scope["type"] == "http" and serves(scope["path"])
        await (self._shared if below else self._app)(scope, receive, send)
