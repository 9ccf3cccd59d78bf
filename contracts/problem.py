"""What went wrong, in one shape for every face: RFC 9457 problem details with a remedy."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, ValidationError

from contracts.model import Model
from contracts.remedies import remedy_of, without_tags

TYPE_BASE = "https://instantstart.dev/problems/"


class ProblemCode(StrEnum):
    """What kind of thing went wrong. Stable: programs branch on it, and a failed activity carries it as its type."""

    INVALID = "invalid"
    """The input breaks a rule."""
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    """What exists, or runs, is not what was asked."""
    FOREIGN = "foreign"
    """A resource with the name exists and is not ours to change."""
    STALE = "stale"
    """The world has changed since what the caller relies on was read."""
    BUSY = "busy"
    """Something else holds what is needed, or the resource is in transition."""
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    """The other side cannot be reached or had an internal fault; the outcome of a call may be unknown."""
    PROPAGATION = "propagation"
    """What was just made is not visible everywhere yet."""
    CAPACITY = "capacity"
    QUOTA = "quota"
    CREDENTIALS = "credentials"
    """The caller's credentials are missing, expired or unknown."""
    DENIED = "denied"
    """The caller is known and may not do this."""
    TIMEOUT = "timeout"
    """A state was not reached within its limit."""
    NOT_READY = "not_ready"
    """A resource reached a state in which it does not work."""
    UNSUPPORTED = "unsupported"
    """The other side does not know the operation."""
    INTERNAL = "internal"
    """A defect of the platform itself."""


class UpstreamError(Model):
    """Who said no, in its own words."""

    service: str
    operation: str
    error_code: str
    request_id: str | None = None
    status: int | None = None


class FieldError(Model):
    """One fault of an input."""

    field: str
    """JSON pointer (RFC 6901) into the body that was sent."""
    detail: str
    remedy: str | None = None
    code: ProblemCode = ProblemCode.INVALID
    """What kind of fault it is: most are plain mistakes, some a matter of quota or capacity."""


class Problem(Model):
    """A problem (RFC 9457): an HTTP error body, a stage's failure, a tool's error, and what a terminal shows."""

    type: str
    title: str
    status: int = 500
    detail: str
    instance: str | None = None
    code: ProblemCode
    field: str | None = None
    """JSON pointer to the field at fault, where one field is."""
    remedy: str | None = None
    """What to do next, in one sentence."""
    retryable: bool = False
    """Whether the same request may succeed later without a change."""
    errors: list[FieldError] = Field(default_factory=list)
    """Every fault of the input, where there are several."""
    aws: UpstreamError | None = None
    kubernetes: UpstreamError | None = None
    operation: str | None = None
    """The operation that stands in the way, where one does."""


_TITLES: dict[ProblemCode, tuple[str, int, bool]] = {
    ProblemCode.INVALID: ("The input breaks a rule", 422, False),
    ProblemCode.NOT_FOUND: ("Not found", 404, False),
    ProblemCode.CONFLICT: ("What exists is not what was asked", 409, False),
    ProblemCode.FOREIGN: ("The resource is not ours", 409, False),
    ProblemCode.STALE: ("It has changed meanwhile", 412, False),
    ProblemCode.BUSY: ("Busy", 409, True),
    ProblemCode.THROTTLED: ("Too many requests", 429, True),
    ProblemCode.UNAVAILABLE: ("The other side did not answer", 503, True),
    ProblemCode.PROPAGATION: ("Not visible everywhere yet", 503, True),
    ProblemCode.CAPACITY: ("Not enough capacity", 409, True),
    ProblemCode.QUOTA: ("A quota is too low", 409, False),
    ProblemCode.CREDENTIALS: ("Credentials were refused", 401, False),
    ProblemCode.DENIED: ("Permission denied", 403, False),
    ProblemCode.TIMEOUT: ("Not reached in time", 504, True),
    ProblemCode.NOT_READY: ("A resource does not work", 409, False),
    ProblemCode.UNSUPPORTED: ("The operation is not available there", 501, False),
    ProblemCode.INTERNAL: ("A defect of the platform", 500, False),
}


def problem(
    code: ProblemCode,
    detail: str,
    *,
    remedy: str | None = None,
    field: str | None = None,
    status: int | None = None,
    retryable: bool | None = None,
    errors: list[FieldError] | None = None,
    aws: UpstreamError | None = None,
    kubernetes: UpstreamError | None = None,
    operation: str | None = None,
) -> Problem:
    """Make a problem; type, title, status and retryable follow from the code unless given."""
    title, default_status, default_retryable = _TITLES[code]
    return Problem(
        type=TYPE_BASE + code.value.replace("_", "-"),
        title=title,
        status=default_status if status is None else status,
        detail=detail,
        code=code,
        field=field,
        remedy=remedy,
        retryable=default_retryable if retryable is None else retryable,
        errors=errors or [],
        aws=aws,
        kubernetes=kubernetes,
        operation=operation,
    )


CORRECT_FIELDS = "Correct the fields named in `errors` and send the request again."
"""The remedy of an input whose first fault has none of its own."""
MOST_ERRORS = 50
"""Faults that are told one by one."""
LONGEST_POINTER = 500
LONGEST_FAULT = 1000
"""Characters of the words on one fault."""


def invalid(errors: list[FieldError]) -> Problem:
    """The problem of an input with one fault or several: of their common kind, where they have one."""
    first = errors[0]
    codes = {error.code for error in errors}
    detail = first.detail if len(errors) == 1 else f"{len(errors)} fields are wrong; the first: {first.detail}"
    return problem(
        first.code if len(codes) == 1 else ProblemCode.INVALID,
        detail,
        status=422,
        field=first.field,
        remedy=first.remedy or CORRECT_FIELDS,
        errors=errors[:MOST_ERRORS],
    )


def field_errors(error: ValidationError, prefix: str = "", model: object = None) -> list[FieldError]:
    """The faults that a model found in its input, each with the JSON pointer of its field and what to do about it.

    ``model``: the type that was to be read; with it, remedies name its members and give examples. Names that were sent
    may have any length: a pointer that is too long leads to what the fault is in.
    """
    return [
        FieldError(
            field=_short(prefix + _pointer(fault["loc"], model) + str(fault.get("ctx", {}).get("pointer", ""))),
            detail=_cut(fault["msg"].removeprefix("Value error, ")),
            remedy=remedy_of(fault, model),
        )
        for fault in error.errors(include_url=False, include_input=False)
    ]


def _short(pointer: str) -> str:
    return pointer if len(pointer) <= LONGEST_POINTER else pointer[:LONGEST_POINTER].rpartition("/")[0]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_FAULT else f"{text[: LONGEST_FAULT - 1]}…"


UNION_TAGS = frozenset(
    {
        *("on-demand", "spot", "training-plan"),
        *("s3", "fsx", "hugging-face", "jumpstart"),
        *("prometheus", "cloudwatch", "router", "cpu"),
    }
)


def _pointer(location: tuple[int | str, ...], model: object) -> str:
    """A JSON pointer without the tags of unions, which are no part of the input. A field may be called like one: the
    model, where it is known, tells them apart."""
    known = without_tags(model, location) if model is not None else None
    steps = known or [str(step) for step in location if step not in UNION_TAGS]
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
