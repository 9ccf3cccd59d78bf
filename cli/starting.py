"""Start operations, and show or follow what was started or steered."""

from __future__ import annotations

from typing import Any

from cli.errors import Exit, say
from cli.follow import ENDS
from cli.gateway import Gateway, connect
from cli.output import emit
from cli.plan import plan_lines
from cli.spec import Body
from cli.view import operation_lines
from cli.watch import watch


def begin(
    path: str,
    body: Body | None,
    *,
    wait: bool,
    queue: bool,
    validate_only: bool,
    idempotency_key: str | None,
    plan: str | None,
    output: str,
    method: str = "POST",
    **parameters: Any,
) -> int:
    """Ask for an operation with the choices of ``start_options``; the command's exit code."""
    gateway = connect()
    flags = {
        "validate_only": "true" if validate_only else None,
        "wait_for_leases": None if queue else "false",
        "plan": plan,
    }
    answer = gateway.send(method, path, body, key=idempotency_key, **flags, **parameters)
    if validate_only:
        emit(output, answer, plan_lines)
        return Exit.OK
    return followed(gateway, answer, wait=wait, output=output)


def followed(
    gateway: Gateway,
    operation: dict[str, Any],
    *,
    wait: bool,
    output: str,
    answered: str | None = None,
    wanted: str = "succeeded",
) -> int:
    """Show an operation, or follow it to its end; the command's exit code. ``answered``: as ``cli.watch`` has it.
    ``wanted``: the end that was asked for."""
    code = Exit.OK
    if wait:
        operation, code = watch(gateway, operation["id"], answered)
        if operation["phase"] in ENDS:
            code = Exit.OK if operation["phase"] == wanted else Exit.FAILED
    elif operation["phase"] not in ENDS:
        say(f"`instantstart operation watch {operation['id']}` follows it.")
    emit(output, operation, operation_lines)
    return code
