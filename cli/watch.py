"""Follow an operation for a person or a script, and turn its end into an exit code."""

from __future__ import annotations

from typing import Any

import click

from cli.decide import ask, is_interactive
from cli.errors import CliError, Exit, error_lines, problem_lines, say
from cli.follow import ENDS, follow
from cli.gateway import Gateway, operation_path
from cli.view import View, attention_lines, blocked_stage, make_view

Operation = dict[str, Any]

EXITS = {
    "succeeded": Exit.OK,
    "aborted": Exit.FAILED,
    "failed": Exit.FAILED,
    "blocked": Exit.NEEDS_ATTENTION,
    "waiting_for_decision": Exit.NEEDS_ATTENTION,
    "waiting_for_approval": Exit.NEEDS_ATTENTION,
}
LOOKS, LOOK = 3, 2.0
"""How often, and for how many seconds each, the answer to a word is waited for."""


def watch_until_settled(gateway: Gateway, id: str, view: View, answered: str | None = None) -> Operation:
    """Show the operation until it ends or needs a person.

    ``answered``: the mark of what has just been answered, and may be shown a moment longer.
    """
    try:
        for operation in follow(gateway, id, view.note):
            view.show(operation)
            if operation["phase"] in EXITS and (answered is None or attention_mark(operation) != answered):
                return operation
    finally:
        view.pause()
    raise AssertionError("an operation is followed until it ends")


def watch(gateway: Gateway, id: str, answered: str | None = None) -> tuple[Operation, Exit]:
    """Follow the operation; at a terminal its decisions are asked for, elsewhere they end the command with exit 4.

    Ctrl-C leaves the operation running, says so, and is passed on.
    """
    view = make_view()
    try:
        while True:
            operation = watch_until_settled(gateway, id, view, answered)
            if (decision := open_decision(operation)) is None or not is_interactive():
                break
            answered = attention_mark(operation)
            answer(gateway, id, decision["id"], ask(decision))
    except (KeyboardInterrupt, click.Abort):
        say(f"\nNo longer watching. The operation goes on: `instantstart operation watch {id}` shows it again.")
        raise
    say("\n".join(attention_lines(operation) or end_lines(operation)))
    return operation, EXITS[operation["phase"]]


def soon_after(gateway: Gateway, operation: Operation, answered: str | None, *, ends: bool) -> Operation:
    """The operation when what was said to it shows, or after a few seconds. ``ends``: it was told to end."""
    for _ in range(LOOKS):
        if operation["phase"] in ENDS or (not ends and attention_mark(operation) != answered):
            break
        path = operation_path(operation["id"])
        now = gateway.get(path)
        operation = now if now["phase"] in ENDS or now["phase"] != operation["phase"] else gateway.get(path, wait=LOOK)
    return operation


def open_decision(operation: Operation) -> dict[str, Any] | None:
    """The decision that an operation waits for."""
    return operation.get("decision") if operation["phase"] == "waiting_for_decision" else None


def attention_mark(operation: Operation) -> str | None:
    """What tells one call for a person from the next; None if the operation needs nobody."""
    match operation["phase"]:
        case "waiting_for_decision":
            decision = operation.get("decision") or {}
            return f"decision {decision.get('id')} {decision.get('asked_at')}"
        case "blocked":
            stage = blocked_stage(operation) or {}
            return f"blocked {stage.get('name')} {stage.get('attempt')}"
        case "waiting_for_approval":
            return f"approval {operation['plan_hash']}"
        case _:
            return None


def answer(gateway: Gateway, id: str, decision: str, values: dict[str, Any]) -> Operation:
    """Answer a decision. A refused answer is shown and can be given anew at a terminal."""
    body = {"decision": decision, "answer": values}
    try:
        result: Operation = gateway.post(operation_path(id, "decide"), body)
        return result
    except CliError as error:
        if error.problem is None or error.problem.get("code") != "invalid" or not is_interactive():
            raise
        say("\n".join(error_lines(error)))
        again = gateway.operation(id).get("decision")
        if not again:
            raise
        return answer(gateway, id, again["id"], ask(again))


def end_lines(operation: Operation) -> list[str]:
    """How an operation ended, with its problem where it did not succeed."""
    if operation["phase"] == "succeeded":
        return [f"{operation['id']} succeeded"]
    problem = operation.get("problem")
    detail = operation.get("detail")
    head = f"{operation['id']} {operation['phase']}" + (f": {detail}" if detail else "")
    return [head, *(problem_lines(problem) if problem else [])]
