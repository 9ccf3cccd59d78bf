"""What is told of calls to AWS: a span and a duration for each, a count for each request that it takes.

botocore's events carry it: a call begins with ``before-call`` and ends with ``after-call`` or ``after-call-error``;
``response-received`` comes with every attempt between. Neither parameters nor headers are looked at. What the fence
kept back is no request: AWS was not asked, and is not said to be silent.
"""

from __future__ import annotations

import time
from typing import Any

from temporalio.exceptions import ApplicationError

from activities import aws_codes
from contracts import measures
from telemetry import metrics, tracing

_CALL = "instantstart.call"


def observe(events: Any) -> None:
    """Tell of every call of the clients that share ``events`` (a botocore session's)."""
    events.register("before-call", _begin)
    events.register("response-received", _received)
    events.register("after-call", _answered)
    events.register("after-call-error", _unanswered)


def _begin(model: Any, context: dict[str, Any], **_: Any) -> None:
    service = model.service_model.service_name
    span = tracing.begin(
        f"{service}.{model.name}",
        {
            "rpc.system.name": "aws-api",
            "rpc.service": service,
            "rpc.method": model.name,
            "cloud.region": context.get("client_region") or "",
        },
    )
    context[_CALL] = (service, model.name, time.perf_counter(), span)


def _received(
    parsed_response: dict[str, Any] | None, context: dict[str, Any], exception: Exception | None = None, **_: Any
) -> None:
    if _CALL not in context or not metrics.on() or _kept_back(exception):
        return
    service, operation, _began, _span = context[_CALL]
    result = "unanswered" if parsed_response is None else _result(service, operation, parsed_response)
    metrics.count(measures.AWS_REQUESTS, service=service, operation=operation, result=result)


def _answered(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    metadata = parsed.get("ResponseMetadata", {})
    error = parsed.get("Error", {}).get("Code") if int(metadata.get("HTTPStatusCode") or 0) >= 300 else None
    attributes = {
        "aws.request_id": metadata.get("RequestId"),
        "http.response.status_code": metadata.get("HTTPStatusCode"),
        "http.request.resend_count": metadata.get("RetryAttempts"),
    }
    _end(context, attributes, None if error is None else str(error))


def _unanswered(exception: Exception, context: dict[str, Any], **_: Any) -> None:
    _end(context, {}, type(exception).__name__, sent=not _kept_back(exception))


def _kept_back(exception: Exception | None) -> bool:
    """Whether ``exception`` is ours: what AWS and the way there raise is none of Temporal's."""
    return isinstance(exception, ApplicationError)


def _end(context: dict[str, Any], attributes: dict[str, Any], error: str | None, sent: bool = True) -> None:
    if _CALL not in context:
        return
    service, operation, began, span = context.pop(_CALL)
    if sent:
        metrics.observe(measures.AWS_SECONDS, time.perf_counter() - began, service=service, operation=operation)
    tracing.end(span, attributes, error)


def _result(service: str, operation: str, parsed: dict[str, Any]) -> str:
    status = int(parsed.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    if status < 300:
        return "ok"
    error = parsed.get("Error", {})
    message = str(error.get("Message", ""))
    return aws_codes.meaning(service, operation, str(error.get("Code", "")), status, message).value
