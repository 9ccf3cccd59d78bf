"""Every error of the gateway as RFC 9457 problem details."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from temporalio.service import RPCError, RPCStatusCode

from contracts.problem import FieldError, Problem, ProblemCode, field_errors, invalid, problem
from contracts.secret_values import masked
from temporal.codec import UndecodableError

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = "5"
_SEND_JSON = "Send a JSON object in UTF-8 with Content-Type application/json (curl --json)."

M = TypeVar("M", bound=BaseModel)

logger = logging.getLogger("instantstart.api")


class ProblemError(Exception):
    """A request that ends in a problem."""

    def __init__(self, body: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(body.detail)
        self.body = body
        self.headers = dict(headers or {})


def refuse(code: ProblemCode, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any) -> ProblemError:
    """The error of ``code``; ``members`` are those of :func:`contracts.problem.problem`."""
    return ProblemError(problem(code, detail, **members), headers)


def wrong_field(field: str, detail: str, remedy: str | None = None) -> ProblemError:
    """The error of one field (or query parameter) at fault."""
    return ProblemError(invalid([FieldError(field=field, detail=detail, remedy=remedy)]))


def unavailable(detail: str, remedy: str) -> ProblemError:
    return refuse(ProblemCode.UNAVAILABLE, detail, remedy=remedy, headers={"Retry-After": RETRY_SECONDS})


def parse(model: type[M], value: object, prefix: str = "") -> M:
    """``value`` as ``model``. Raises ProblemError with a pointer to every fault, each below ``prefix``."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ProblemError(invalid(field_errors(error, prefix, model))) from error


def response(body: Problem, request_path: str, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as an answer to a request for ``request_path``. It names what was sent, and goes into logs of clients
    and transcripts of agents: so without what is a secret by its form."""
    said = {name: masked(text) if (text := getattr(body, name)) else text for name in ("detail", "field", "remedy")}
    errors = [
        each.model_copy(update={"detail": masked(each.detail), "field": masked(each.field)}) for each in body.errors
    ]
    answer = body.model_copy(update={**said, "errors": errors, "instance": masked(request_path)})
    content = answer.model_dump_json(exclude_none=True)
    return Response(content, status_code=body.status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def internal(request_id: str) -> Problem:
    """A defect. What exactly went wrong is in the log, under the request's id."""
    return problem(
        ProblemCode.INTERNAL,
        f"the gateway has a defect; its log names it under request {request_id}",
        remedy="Report the request id; trying again may or may not help.",
    )


def temporal_problem(error: RPCError) -> ProblemError:
    """What a failed call of Temporal means to a caller."""
    if error.status == RPCStatusCode.NOT_FOUND:
        return refuse(ProblemCode.NOT_FOUND, "there is no such operation or cluster")
    if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
        return unavailable("Temporal refuses the gateway's credentials", "Correct the gateway's TEMPORAL_… settings.")
    return unavailable(
        f"Temporal did not answer as expected ({error.status.name})",
        "Send the request again; if it goes on, see that Temporal runs.",
    )


class _Faults:
    """FastAPI's errors in the form in which pydantic gives its own, without the leading ``body`` or ``query``."""

    def __init__(self, error: RequestValidationError) -> None:
        self._error = error

    def errors(self, **_: bool) -> list[dict[str, Any]]:
        return [{**fault, "loc": tuple(fault["loc"])[1:]} for fault in self._error.errors()]


def _body_model(request: Request) -> object:
    """What the route takes as its body; None where it takes none."""
    parameters = request.scope["route"].dependant.body_params
    return parameters[0].field_info.annotation if parameters else None


def _request_problem(error: RequestValidationError, request: Request) -> Problem:
    whole = next((fault for fault in error.errors() if tuple(fault["loc"]) == ("body",)), None)
    if whole is not None and whole["type"] == "missing":
        return invalid([FieldError(field="", detail="the request needs a body", remedy=_SEND_JSON)])
    if whole is not None and isinstance(error.body, bytes):
        sent = request.headers.get("Content-Type") or "no Content-Type"
        return problem(ProblemCode.INVALID, f"the body was not read as JSON: {sent}", status=415, remedy=_SEND_JSON)
    malformed = next((fault for fault in error.errors() if fault["type"] == "json_invalid"), None)
    if malformed is not None:
        reason = malformed.get("ctx", {}).get("error", "syntax error")
        return problem(
            ProblemCode.INVALID,
            f"the body is not JSON: {reason} at character {malformed['loc'][-1]}",
            status=400,
            remedy=_SEND_JSON,
        )
    return invalid(field_errors(cast(ValidationError, _Faults(error)), model=_body_model(request)))


def _http_problem(error: HTTPException, path: str) -> Problem:
    match error.status_code:
        case 404:
            return problem(ProblemCode.NOT_FOUND, f"nothing is served at {path}", remedy="See /api/v1/openapi.json.")
        case 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            return problem(
                ProblemCode.UNSUPPORTED,
                f"{path} does not take this method",
                status=405,
                remedy=f"Use {allowed}.",
            )
        case 400:
            return problem(ProblemCode.INVALID, str(error.detail), status=400, remedy=_SEND_JSON)
        case status:
            return problem(ProblemCode.INVALID, str(error.detail), status=status)


def install(app: FastAPI) -> None:
    """Make ``app`` answer every error with a problem. Unhandled ones are the request context's (``context.py``)."""

    @app.exception_handler(ProblemError)
    async def _problem(request: Request, error: ProblemError) -> Response:
        request.state.problem = error.body
        return response(error.body, request.url.path, error.headers)

    @app.exception_handler(RequestValidationError)
    async def _validation(request: Request, error: RequestValidationError) -> Response:
        return response(_request_problem(error, request), request.url.path)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        return response(_http_problem(error, request.url.path), request.url.path, error.headers)

    @app.exception_handler(RPCError)
    async def _rpc(request: Request, error: RPCError) -> Response:
        logger.warning("Temporal: %s %s", error.status.name, error.message)
        found = temporal_problem(error)
        return response(found.body, request.url.path, found.headers)

    @app.exception_handler(UndecodableError)
    async def _undecodable(request: Request, error: UndecodableError) -> Response:
        logger.error("Temporal: %s", error)
        found = unavailable(str(error), "Give gateway and workers the same codec keys; docs/temporal.md says how.")
        return response(found.body, request.url.path, found.headers)
