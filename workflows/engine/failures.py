"""From a failed activity to the problem that people read."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

from contracts.problem import Problem, ProblemCode, problem


class Aborted(Exception):
    """Somebody ended the operation. Never leaves the engine."""


class Superseded(Exception):
    """Another specification has come in: the running stage begins anew. Never leaves the engine."""


class Skipped(Exception):
    """A stage was skipped. The operation says what goes on without it."""


def refusal(found: Problem) -> ApplicationError:
    """What an update's validator raises: the caller gets the problem, and no event is written."""
    return ApplicationError(
        found.detail, found.model_dump(mode="json", exclude_none=True), type=found.code, non_retryable=True
    )


def problem_of(error: BaseException) -> Problem:
    """The problem behind a failure: the typed one that an activity raised, or what Temporal itself has to say."""
    cause = error.cause if isinstance(error, ActivityError) and error.cause is not None else error
    activity = error.activity_type if isinstance(error, ActivityError) else "the workflow"
    if isinstance(cause, ApplicationError):
        if cause.details and isinstance(cause.details[0], dict) and "code" in cause.details[0]:
            return Problem.model_validate(cause.details[0])
        return problem(
            ProblemCode.INTERNAL,
            f"{activity} failed: {cause.type or 'error'}: {cause.message}",
            remedy="Retry; if it fails again, this is a defect: the worker's log has the traceback.",
        )
    if isinstance(cause, TimeoutError):
        heard_nothing = cause.type == TimeoutType.HEARTBEAT
        return problem(
            ProblemCode.TIMEOUT,
            f"{activity} did not finish" + (": its worker stopped answering" if heard_nothing else " in time"),
            remedy="Retry when a worker runs and the other side answers.",
        )
    return problem(ProblemCode.INTERNAL, f"{activity} failed: {cause}", remedy="Retry; see the worker's log.")
