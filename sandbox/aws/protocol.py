"""From HTTP to an operation and back, for any service and protocol, by botocore's models and moto's Smithy toolkit."""

from __future__ import annotations

import functools
import io
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from botocore.parsers import create_parser
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import SerializationContext, get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException

from sandbox.aws.call import AwsError, Response

warnings.filterwarnings("ignore", message=r"Exception\(.*does not match an error shape", category=UserWarning)

SIGNING_NAMES = {
    "aps": "amp",
    "servicequotas": "service-quotas",
    "elasticfilesystem": "efs",
    "monitoring": "cloudwatch",
    "elasticloadbalancing": "elbv2",
    "states": "stepfunctions",
    "tagging": "resourcegroupstaggingapi",
}
"""Services whose name in a signature differs from botocore's name for them."""
SCOPE = re.compile(r"Credential=([^/,]+)/\d+/([^/]+)/([^/]+)/aws4_request")
DEFAULT_REGION = "us-east-1"


@dataclass
class Wire:
    """A request as it came in: to which service and operation it goes, and how it is spoken."""

    request: Any
    raw: bytes
    service: str
    region: str
    access_key: str
    operation: Any = None
    """The operation's model, or None if no model knows it."""
    uri_params: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.operation.name) if self.operation is not None else "?"

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")


def read(environ: dict[str, Any], raw: bytes) -> Wire:
    """Find out what a request wants. The service and region are those it was signed for."""
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    scope = SCOPE.search(authorization) or SCOPE.search(
        "Credential=" + _query_parameter(environ, "X-Amz-Credential").replace("%2F", "/") + ","
    )
    access_key, region, signing = scope.groups() if scope else ("", DEFAULT_REGION, _unsigned_service(raw))
    service = SIGNING_NAMES.get(signing, signing)
    environ["wsgi.input"] = io.BytesIO(raw)
    request = Request(environ)
    wire = Wire(request, raw, service, region, access_key)
    try:
        wire.operation, wire.uri_params = _router(service).match(request)
    except (HTTPException, LookupError, NotImplementedError, ValueError):
        wire.operation = None
    except Exception as error:
        # botocore's UnknownServiceError and its relatives: moto may still know what to do with it.
        if type(error).__module__.split(".")[0] != "botocore":
            raise
    environ["wsgi.input"] = io.BytesIO(raw)
    return wire


def parse(wire: Wire) -> dict[str, Any]:
    """The request's parameters by their model names."""
    parser = PROTOCOL_PARSERS[_protocol(wire)](wire.operation)
    request = wire.request
    parsed: dict[str, Any] = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": wire.raw,
            "url_path": request.path,
            "url_params": wire.uri_params,
        }
    )
    return parsed or {}


def serialize(wire: Wire, result: Any, request_id: str, status: int | None = None) -> Response:
    """A handler's result, or its :class:`AwsError`, as the operation's protocol says it."""
    if wire.operation is None:
        code = getattr(result, "code", "UnknownOperationException")
        return Response(status or 400, _common(request_id, 0), f"{code}: unknown operation".encode())
    serializer = get_serializer_class(wire.service, _protocol(wire))(
        operation_model=wire.operation, context=SerializationContext(request_id)
    )
    out = serializer.serialize({} if result is None else result)
    body = out["body"].encode() if isinstance(out["body"], str) else bytes(out["body"])
    error_status = result.status if isinstance(result, AwsError) else None
    headers = [
        (k, str(v)) for k, v in out["headers"].items() if k.lower() not in ("content-length", "x-amzn-requestid")
    ]
    return Response(status or error_status or out["status_code"], headers + _common(request_id, len(body)), body)


def parse_response(wire: Wire, response: Response) -> dict[str, Any]:
    """What a client would understand of a response; empty where it would understand nothing."""
    if wire.operation is None or wire.operation.has_streaming_output:
        return {}
    try:
        parsed = _response_parser(str(get_service_model(wire.service).protocol)).parse(
            {"status_code": response.status, "headers": dict(response.headers), "body": response.body},
            wire.operation.output_shape,
        )
    except Exception:
        return {}
    return parsed if isinstance(parsed, dict) else {}


@functools.cache
def _response_parser(protocol: str) -> Any:
    return create_parser(protocol)


@functools.cache
def _router(service: str) -> Any:
    return get_service_router(service)


def _protocol(wire: Wire) -> str:
    return str(determine_request_protocol(get_service_model(wire.service), wire.request.content_type))


def _common(request_id: str, length: int) -> list[tuple[str, str]]:
    return [("x-amzn-RequestId", request_id), ("Content-Length", str(length))]


def _query_parameter(environ: dict[str, Any], name: str) -> str:
    for pair in environ.get("QUERY_STRING", "").split("&"):
        key, _, value = pair.partition("=")
        if key == name:
            return str(value)
    return ""


def _unsigned_service(raw: bytes) -> str:
    """Unsigned requests are S3's, but for the two calls of STS that exchange a foreign token."""
    return "sts" if raw.startswith(b"Action=AssumeRoleWith") else "s3"
