"""How commands fail: exit codes, and errors that say what to do next."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

Problem = dict[str, Any]
"""RFC 9457, as ``contracts.problem`` has it."""


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NEEDS_ATTENTION = 4
    """An operation waits for a decision or an approval, or is blocked."""
    NOT_KNOWN = 5
    """Nothing was found to be wrong, but something could not be looked at."""
    INTERRUPTED = 130


class CliError(Exception):
    """A command failed. The message is for people; ``problem`` is what the gateway said, where it did."""

    def __init__(
        self, message: str, *, exit: Exit = Exit.FAILED, remedy: str | None = None, problem: Problem | None = None
    ) -> None:
        super().__init__(message)
        self.exit, self.remedy, self.problem = exit, remedy, problem

    @classmethod
    def of(cls, problem: Problem) -> CliError:
        """A problem that the gateway answered with."""
        missing = problem.get("status") == 404 or problem.get("code") == "not_found"
        return cls(str(problem.get("detail")), exit=Exit.NOT_FOUND if missing else Exit.FAILED, problem=problem)

    def as_problem(self) -> Problem:
        """The error in the shape of a problem, for programs."""
        if self.problem is not None:
            return self.problem
        return {"title": "The command failed", "detail": str(self), "remedy": self.remedy}


def problem_lines(problem: Problem, options: Mapping[str, str] | None = None) -> list[str]:
    """A problem for people: title, detail, field, who said so upstream, remedy. ``options``: the command's, by the name
    of what they set; a field that one sets is called by it, too."""
    known = options or {}
    lines = [f"{problem.get('title') or 'Problem'}: {problem.get('detail') or 'no detail'}"]
    faults = problem.get("errors") or []
    if len(faults) > 1:
        for fault in faults:
            option = _option(fault.get("field"), known)
            lines.append(f"  {fault.get('field') or '/'}: {fault.get('detail')}" + (f" ({option})" if option else ""))
    elif problem.get("field"):
        option = _option(problem["field"], known)
        lines.append(f"  field: {problem['field']}" + (f" ({option})" if option else ""))
    for side in ("aws", "kubernetes"):
        if upstream := problem.get(side):
            said = f"{upstream.get('service')} {upstream.get('operation')}: {upstream.get('error_code')}"
            request = f" (request {upstream['request_id']})" if upstream.get("request_id") else ""
            lines.append(f"  {side}: {said}{request}")
    if problem.get("operation"):
        lines.append(f"  operation: {problem['operation']}")
    if problem.get("remedy"):
        lines.append(f"  remedy: {_remedy(problem, known)}")
    return lines


def _option(field: str | None, options: Mapping[str, str]) -> str | None:
    """The option that sets the field that a pointer leads to: ``/triggers/0/query`` is the query's."""
    steps = [step for step in (field or "").split("/") if step and not step.isdigit()]
    return next((options[step] for step in (*steps[:1], *steps[-1:]) if step in options), None)


def _remedy(problem: Problem, options: Mapping[str, str]) -> str:
    """What to do, in a terminal: nobody there sends ``errors``."""
    from contracts.problem import CORRECT_FIELDS

    remedy = str(problem["remedy"])
    if remedy != CORRECT_FIELDS:
        return remedy
    faults = problem.get("errors") or [problem]
    names = dict.fromkeys(_option(each.get("field"), options) or str(each.get("field")) for each in faults)
    return f"Correct {' and '.join(names)}, and run the command again."


def error_lines(error: CliError, options: Mapping[str, str] | None = None) -> list[str]:
    """An error for people. ``options``: as :func:`problem_lines` has them."""
    if error.problem is not None:
        return problem_lines(error.problem, options)
    first, *rest = str(error).splitlines() or [""]
    return [f"Error: {first}", *rest, *([f"  remedy: {error.remedy}"] if error.remedy else [])]


def say(text: str = "") -> None:
    """Tell people something: progress and messages go to stderr, data alone to stdout."""
    print(text, file=sys.stderr, flush=True)
