"""What an upstream's refusal means: one classifier from any error to a typed problem.

:func:`classify` turns errors of AWS, Kubernetes and the transport into an :class:`ApplicationError` whose type is a
:class:`ProblemCode` and whose one detail is the :class:`Problem`. Which AWS code means what stands in
``activities/aws_codes.py``.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from datetime import timedelta
from typing import Any, NoReturn

import pydantic
from botocore import exceptions as botocore_errors
from kubernetes.client.exceptions import ApiException
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from urllib3 import exceptions as urllib3_errors

from activities import aws_codes
from contracts.log_lines import redact
from contracts.problem import Problem, ProblemCode, UpstreamError, field_errors, problem

MAX_TEXT = 600
PROPAGATION_ATTEMPTS = 12
"""After so many attempts what is not visible is not there."""
GONE_ATTEMPTS = 6
DEFECT_ATTEMPTS = 3
EXPIRED_ATTEMPTS = 3

_SECRETS = (
    re.compile(r"k8s-aws-v1\.[\w-]+"),
    re.compile(r"(?i)bearer\s+[\w.~+/=-]+"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bhf_\w{20,}"),
    re.compile(r"(?i)(?<=signature=)[\w%/+=-]+"),
    re.compile(r"(?i)(?<=security-token=)[\w%/+=-]+"),
    re.compile(r"(?i)(?<=encoded authorization failure message: )\S+"),
)


def clean(text: str, maximum: int = MAX_TEXT) -> str:
    """``text`` in one line, without secrets, cut to ``maximum`` characters. What is taken out of lines of logs is taken
    out here, too: problems quote them."""
    for secret in _SECRETS:
        text = secret.sub("…", text)
    text = " ".join(redact(text).split())
    return text if len(text) <= maximum else f"{text[: maximum - 1]}…"


def failure(
    found: Problem,
    *,
    retry: bool = False,
    delay: timedelta | None = None,
    category: ApplicationErrorCategory = ApplicationErrorCategory.UNSPECIFIED,
) -> ApplicationError:
    """The error that carries ``found`` into the workflow. ``retry``: whether Temporal tries the activity again; without
    it the stage blocks, and a human (or a changed input) retries."""
    return ApplicationError(
        found.detail,
        found.model_dump(mode="json"),
        type=found.code.value,
        non_retryable=not retry,
        next_retry_delay=delay if retry else None,
        category=category,
    )


def fail(
    code: ProblemCode, detail: str, remedy: str, *, retry: bool = False, delay: float | None = None, **more: Any
) -> NoReturn:
    """Raise a typed problem. ``delay`` in seconds. ``more`` goes to :func:`contracts.problem.problem`."""
    found = problem(code, clean(detail), remedy=remedy, **more)
    raise failure(found, retry=retry, delay=None if delay is None else timedelta(seconds=delay))


def problem_of(error: ApplicationError) -> Problem | None:
    """The problem that an error carries, if it is one of ours."""
    details = error.details
    if details and isinstance(details[0], dict) and "code" in details[0]:
        return Problem.model_validate(details[0])
    return None


def code_of(error: Exception) -> str:
    """AWS's error code; empty for an error that is no answer of AWS."""
    if isinstance(error, botocore_errors.ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return ""


def is_absent(error: Exception, *codes: str) -> bool:
    """Whether AWS says that a resource does not exist. ``codes`` are the ones that mean it for the call at hand;
    nothing else (denied, throttled, lost) ever does."""
    return code_of(error) in codes


def classify(error: BaseException, *, attempt: int = 1, pace: float = 15.0) -> ApplicationError:
    """What ``error`` means, and whether and when to try again.

    ``attempt`` is the activity's attempt (or how often a wait has met the error in a row), from 1. ``pace`` is the
    deployment's poll interval in seconds; waiting for something busy is measured in it.
    """
    match error:
        case ApplicationError():
            return error
        case botocore_errors.ClientError():
            return _aws(error, attempt, pace)
        case botocore_errors.ParamValidationError():
            found = problem(ProblemCode.INVALID, clean(str(error)), remedy="Correct the input that the message names.")
            return failure(found)
        case (
            botocore_errors.NoCredentialsError()
            | botocore_errors.PartialCredentialsError()
            | botocore_errors.CredentialRetrievalError()
            | botocore_errors.TokenRetrievalError()
            | botocore_errors.SSOError()
            | botocore_errors.ProfileNotFound()
            | botocore_errors.NoAuthTokenError()
        ):
            remedy = "Give the platform AWS credentials (role, profile or environment), then retry."
            return failure(problem(ProblemCode.CREDENTIALS, clean(str(error)), remedy=remedy))
        case botocore_errors.BotoCoreError():
            service, operation = getattr(error, "aws_call", ("aws", "unknown"))
            upstream = UpstreamError(service=service, operation=operation, error_code=type(error).__name__)
            return _unavailable(f"{service} {operation}: {error}", aws=upstream)
        case ApiException():
            return _kubernetes(error, attempt, pace)
        case urllib3_errors.HTTPError():
            upstream = UpstreamError(service="kubernetes", operation="request", error_code=type(error).__name__)
            return _unavailable(f"The Kubernetes API did not answer: {error}", kubernetes=upstream)
        case pydantic.ValidationError():
            found = problem(
                ProblemCode.INVALID,
                clean(f"{error.title}: {error.errors(include_url=False, include_input=False)[0]['msg']}"),
                remedy="Correct the fields named in `errors`.",
                errors=field_errors(error),
            )
            return failure(found)
        case subprocess.TimeoutExpired() | ConnectionError() | TimeoutError():
            return _unavailable(str(error) or type(error).__name__)
    found = problem(
        ProblemCode.INTERNAL,
        clean(f"{type(error).__name__}: {error}"),
        remedy="This is a defect of the platform: look at the worker's log, and retry after it is mended.",
    )
    return failure(found, retry=attempt < DEFECT_ATTEMPTS)


def _unavailable(detail: str, **upstream: Any) -> ApplicationError:
    remedy = "The platform tries again; if it lasts, check the network path and the service's health."
    found = problem(ProblemCode.UNAVAILABLE, clean(detail), remedy=remedy, **upstream)
    return failure(found, retry=True)


def _aws(error: Any, attempt: int, pace: float) -> ApplicationError:
    response = error.response
    metadata = response.get("ResponseMetadata", {})
    code, message = str(response["Error"].get("Code", "")), str(response["Error"].get("Message", ""))
    service, status = str(metadata.get("Service", "aws")), int(metadata.get("HTTPStatusCode") or 0)
    kind = aws_codes.meaning(service, error.operation_name, code, status, message)
    upstream = UpstreamError(
        service=service,
        operation=error.operation_name,
        error_code=code,
        request_id=metadata.get("RequestId"),
        status=status or None,
    )
    detail = clean(f"{service} {error.operation_name}: {message or code}")
    remedy = aws_codes.remedy(kind, service, error.operation_name)

    def found(code: ProblemCode) -> Problem:
        return problem(code, detail, remedy=remedy, aws=upstream)

    match kind:
        case aws_codes.Meaning.THROTTLED:
            return _throttled(found(ProblemCode.THROTTLED), metadata.get("HTTPHeaders", {}), attempt)
        case aws_codes.Meaning.TRANSIENT:
            return failure(found(ProblemCode.UNAVAILABLE), retry=True)
        case aws_codes.Meaning.PROPAGATION:
            again = attempt < PROPAGATION_ATTEMPTS
            return failure(found(ProblemCode.PROPAGATION), retry=again, delay=_short(attempt))
        case aws_codes.Meaning.GONE:
            # An activity knows itself what absence means to it; what escapes was handed over by another activity a
            # moment ago, so at first it is more likely not visible yet than gone.
            again = attempt < GONE_ATTEMPTS
            code_now = ProblemCode.PROPAGATION if again else ProblemCode.NOT_FOUND
            return failure(found(code_now), retry=again, delay=_short(attempt))
        case aws_codes.Meaning.EXISTS:
            return failure(found(ProblemCode.CONFLICT), retry=attempt < GONE_ATTEMPTS, delay=_short(attempt))
        case aws_codes.Meaning.BUSY:
            delay = timedelta(seconds=min(2 * attempt, 8) * pace)
            return failure(found(ProblemCode.BUSY), retry=True, delay=delay)
        case aws_codes.Meaning.EXPIRED:
            return failure(found(ProblemCode.CREDENTIALS), retry=attempt < EXPIRED_ATTEMPTS, delay=_short(attempt))
    return failure(found(ProblemCode(kind.value)))


def _short(attempt: int) -> timedelta:
    """1, 2, 3, 4, then 5 seconds: twelve attempts are about a minute."""
    return timedelta(seconds=min(attempt, 5))


def _throttled(found: Problem, headers: dict[str, str], attempt: int) -> ApplicationError:
    """Back off by what the other side asks for, else 2 s doubling to 60 s, less a random part so that many do not come
    back at once. Benign: it is no failure that an operator should see."""
    asked = headers.get("retry-after") or headers.get("Retry-After") or ""
    seconds = float(asked) if asked.isdigit() else min(2.0 ** min(attempt, 6), 60) * random.uniform(0.5, 1)
    return failure(
        found, retry=True, delay=timedelta(seconds=max(seconds, 0.1)), category=ApplicationErrorCategory.BENIGN
    )


def _kubernetes(error: Any, attempt: int, pace: float) -> ApplicationError:
    """Kubernetes' Status answers. (Kubernetes API conventions: response status kind)"""
    body = _status_body(error)
    reason, message = str(body.get("reason") or error.reason or ""), str(body.get("message") or error.body or "")
    status = int(error.status or 0)
    upstream = UpstreamError(service="kubernetes", operation="request", error_code=reason, status=status or None)
    detail = clean(f"Kubernetes: {message or reason or status}")
    terminating = "NamespaceTerminating" in json.dumps(body) or "is being terminated" in message

    def found(code: ProblemCode, remedy: str) -> Problem:
        return problem(code, detail, remedy=remedy, kubernetes=upstream)

    wait = "The platform tries again."
    if status == 429:
        return _throttled(found(ProblemCode.THROTTLED, wait), dict(error.headers or {}), attempt)
    if status == 403 and terminating:
        return failure(found(ProblemCode.BUSY, wait), retry=True, delay=timedelta(seconds=min(2 * attempt, 8) * pace))
    if status == 401:
        remedy = "Give the platform's principal an access entry in the EKS cluster (verify-access does)."
        again = attempt < PROPAGATION_ATTEMPTS
        code = ProblemCode.PROPAGATION if again else ProblemCode.CREDENTIALS
        return failure(found(code, remedy), retry=again, delay=_short(attempt))
    if status == 403:
        remedy = "Give the platform's principal cluster administration (AmazonEKSClusterAdminPolicy)."
        return failure(found(ProblemCode.DENIED, remedy))
    if status == 404 and not (body.get("details") or {}).get("name"):
        remedy = "The cluster does not know this kind of object: install the component that brings it."
        return failure(found(ProblemCode.UNSUPPORTED, remedy))
    if status == 404:
        return failure(found(ProblemCode.NOT_FOUND, "Make the object that is missing, then retry."))
    if status == 409:
        remedy = "Another writer owns what was to be set; compare, and change one of the two."
        return failure(found(ProblemCode.CONFLICT, remedy), retry=attempt < GONE_ATTEMPTS, delay=_short(attempt))
    if status in (408, 410) or status >= 500 or status == 0:
        return failure(found(ProblemCode.UNAVAILABLE, wait), retry=True)
    return failure(found(ProblemCode.INVALID, "Correct what the message names."))


def _status_body(error: Any) -> dict[str, Any]:
    try:
        body = json.loads(error.body)
    except (TypeError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}
