"""The API's failures, as Kubernetes words them: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .resources import Json, ResourceType

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ApiError(Exception):
    """A failure that becomes an HTTP status and a ``Status`` object."""

    def __init__(
        self,
        code: int,
        message: str,
        reason: str | None = None,
        details: Json | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or REASONS.get(code, "InternalError")
        self.details = details
        self.headers = headers

    def status(self) -> Json:
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


def cause(reason: str, field: str, message: str) -> Json:
    return {"reason": reason, "field": field, "message": message}


def invalid_value(field: str, message: str) -> Json:
    return cause("FieldValueInvalid", field, message)


def required(field: str, message: str = "") -> Json:
    return cause("FieldValueRequired", field, f"Required value: {message}" if message else "Required value")


def no_such_resource() -> ApiError:
    """The kind is not served: no ``details.name``, unlike :func:`not_found`."""
    return ApiError(404, "the server could not find the requested resource", details={})


def not_found(kind: ResourceType, name: str) -> ApiError:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return ApiError(404, f'{kind.qualified} "{name}" not found', details=details)


def already_exists(kind: ResourceType, name: str) -> ApiError:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return ApiError(409, f'{kind.qualified} "{name}" already exists', "AlreadyExists", details)


def stale(kind: ResourceType, name: str) -> ApiError:
    """An optimistic lock that failed."""
    return ApiError(
        409,
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
        details={"name": name, "group": kind.group, "kind": kind.plural},
    )


def precondition_failed(kind: ResourceType, name: str, label: str, wanted: str, found: str) -> ApiError:
    """``label``: UID or ResourceVersion."""
    return ApiError(
        409,
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": Precondition failed: '
        f"{label} in precondition: {wanted}, {label} in object meta: {found}",
        details={"name": name, "group": kind.group, "kind": kind.plural},
    )


def invalid(kind: ResourceType, name: str, causes: Sequence[Json]) -> ApiError:
    text = ", ".join(f"{c['field']}: {c['message']}" for c in causes)
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return ApiError(
        422,
        f'{qualified} "{name}" is invalid: ' + (f"[{text}]" if len(causes) > 1 else text),
        details={"name": name, "group": kind.group, "kind": kind.kind, "causes": list(causes)},
    )


def forbidden(kind: ResourceType, name: str, why: str, causes: Sequence[Json] = ()) -> ApiError:
    details: dict[str, Any] = {"name": name, "group": kind.group, "kind": kind.plural}
    if causes:
        details["causes"] = list(causes)
    return ApiError(403, f'{kind.qualified} "{name}" is forbidden: {why}', details=details)


def expired(message: str) -> ApiError:
    return ApiError(410, message, "Expired")
