"""``instantstart operation``: list, watch and steer operations."""

from __future__ import annotations

from typing import Any

import click

from cli.options import Command, output_option

PHASES = [
    "queued",
    "running",
    "waiting_for_decision",
    "waiting_for_approval",
    "blocked",
    "succeeded",
    "aborted",
    "failed",
]


@click.group()
def operation() -> None:
    """List, watch and steer operations. An ID looks like create-cluster/TAG."""


def steering(command: Command) -> Command:
    """What every command that changes an operation takes."""
    wait = click.option("--wait/--no-wait", default=False, show_default=True, help="Follow the operation afterwards.")
    return output_option(wait(click.argument("id")(command)))


def steer(
    id: str,
    verb: str,
    body: dict[str, Any],
    *,
    wait: bool,
    output: str,
    answered: str | None = None,
    wanted: str = "succeeded",
) -> int:
    """Send a decision about an operation and show what became of it."""
    from cli.gateway import connect, operation_path
    from cli.starting import followed
    from cli.watch import attention_mark, soon_after

    gateway = connect()
    if answered is None:
        # What it waits for now may be shown a moment longer, and is no reason to stop following.
        answered = attention_mark(gateway.operation(id))
    after = gateway.post(operation_path(id, verb), body)
    if not wait:
        after = soon_after(gateway, after, answered, ends=wanted == "aborted")
    return followed(gateway, after, wait=wait, output=output, answered=answered, wanted=wanted)


@operation.command("list")
@click.option("--cluster", help="Only of this cluster.")
@click.option("--kind", help="Only of this kind, e.g. create-cluster.")
@click.option("--phase", type=click.Choice(PHASES), help="Only in this phase.")
@click.option("--started-by", help="Only started by this name.")
@click.option("--needs-attention", is_flag=True, default=None, help="Only what waits for a person.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@output_option
def list_(limit: int, output: str, **filters: Any) -> None:
    """List operations: those that run first, then the last ended."""
    from cli.gateway import connect
    from cli.output import age, columns, emit
    from cli.record import current_stage

    def table(items: list[dict[str, Any]]) -> list[str]:
        rows = (
            (each["id"], each["phase"], current_stage(each), each["started_by"], age(each["started_at"]))
            for each in items
        )
        return columns(("OPERATION", "PHASE", "STAGE", "STARTED BY", "AGE"), rows)

    emit(output, connect().all("operations", limit, **filters), table)


@operation.command("get")
@click.argument("id")
@output_option
def get(id: str, output: str) -> None:
    """Show an operation as it is now."""
    from cli.gateway import connect
    from cli.output import emit
    from cli.view import attention_lines, operation_lines
    from cli.watch import end_lines

    def table(found: dict[str, Any]) -> list[str]:
        remarks = attention_lines(found) or (end_lines(found)[1:] if found.get("problem") else [])
        return [*operation_lines(found), *([""] if remarks else []), *remarks]

    emit(output, connect().operation(id), table)


@operation.command("watch")
@click.argument("id")
@output_option
def watch(id: str, output: str) -> int:
    """Follow an operation to its end. Exits 4 when it needs a decision or is blocked; Ctrl-C leaves it running."""
    from cli.gateway import connect
    from cli.output import emit
    from cli.view import operation_lines
    from cli.watch import watch as follow_to_end

    found, code = follow_to_end(connect(), id)
    emit(output, found, operation_lines)
    return code


@operation.command("decide")
@click.option("--answer", "answers", multiple=True, metavar="FIELD=VALUE", help="One field of the answer; repeat it.")
@click.option("--json", "text", metavar="OBJECT", help="The whole answer as JSON.")
@click.option("--default", "take_default", is_flag=True, help="Take the decision's default.")
@steering
def decide(id: str, answers: tuple[str, ...], text: str | None, take_default: bool, wait: bool, output: str) -> int:
    """Answer the decision that an operation waits for; at a terminal it is asked for."""
    from cli.decide import ask, default_answer, is_interactive, parse_answer
    from cli.errors import CliError
    from cli.gateway import connect
    from cli.starting import followed
    from cli.watch import answer, attention_mark, open_decision

    given = parse_answer(answers, text)
    gateway = connect()
    found = gateway.operation(id)
    decision = open_decision(found)
    if decision is None:
        raise CliError(f"{id} waits for no decision", remedy=f"See `instantstart operation get {id}`.")
    if given is None:
        if take_default:
            given = default_answer(decision)
        elif is_interactive():
            given = ask(decision)
        else:
            raise click.UsageError("give --answer FIELD=VALUE, --json OBJECT or --default")
    after = answer(gateway, id, decision["id"], given)
    return followed(gateway, after, wait=wait, output=output, answered=attention_mark(found))


@operation.command("retry")
@click.option("--set", "corrections", multiple=True, metavar="FIELD=VALUE", help="Correct the spec; a.b=1 goes inside.")
@click.option("--json", "text", metavar="OBJECT", help="Corrections as a JSON merge patch of the spec.")
@steering
def retry(id: str, corrections: tuple[str, ...], text: str | None, **rest: Any) -> int:
    """Try a blocked stage again, with a corrected spec if need be."""
    from cli.decide import parse_answer

    patch = parse_answer(corrections, text, option="--set")
    body, mark = failure(id)
    return steer(id, "retry", body | ({"corrections": patch} if patch is not None else {}), answered=mark, **rest)


@operation.command("skip")
@steering
def skip(id: str, **rest: Any) -> int:
    """Go on without a blocked stage, where that is possible."""
    body, mark = failure(id)
    return steer(id, "skip", body, answered=mark, **rest)


@operation.command("abort")
@click.option("--reason", default="")
@steering
def abort(id: str, reason: str, **rest: Any) -> int:
    """End an operation. What exists stays, and is listed."""
    return steer(id, "abort", {"reason": reason}, wanted="aborted", **rest)


@operation.command("approve")
@click.option("--reason", default="")
@click.option("--plan-hash", help="The plan that you have seen; at a terminal it is shown and asked for.")
@steering
def approve(id: str, reason: str, plan_hash: str | None, **rest: Any) -> int:
    """Approve what an agent asked for: exactly the plan that was shown."""
    return steer(id, "approve", {"plan_hash": plan_hash or confirmed_plan(id), "reason": reason}, **rest)


@operation.command("reject")
@click.option("--reason", default="")
@steering
def reject(id: str, reason: str, **rest: Any) -> int:
    """Reject what an agent asked for. The operation ends and nothing is touched."""
    return steer(id, "reject", {"reason": reason}, wanted="aborted", **rest)


def failure(id: str) -> tuple[dict[str, Any], str | None]:
    """The failure that an operation is blocked by: its stage and attempt, so that only this one is answered."""
    from cli.errors import CliError
    from cli.gateway import connect
    from cli.view import blocked_stage
    from cli.watch import attention_mark

    found = connect().operation(id)
    stage = blocked_stage(found)
    if stage is None:
        raise CliError(f"{id} is not blocked", remedy=f"See `instantstart operation get {id}`.")
    return {"stage": stage["name"], "attempt": stage["attempt"]}, attention_mark(found)


def confirmed_plan(id: str) -> str:
    """The hash of the operation's plan, once a person has seen what it would do and cost, and said yes."""
    from cli.decide import is_interactive
    from cli.errors import CliError, say
    from cli.gateway import connect, operation_path
    from cli.plan import plan_lines
    from cli.view import operation_lines

    look = f"`instantstart operation get {id}`"
    if not is_interactive():
        raise click.UsageError(f"nobody can be asked here: say with --plan-hash which plan you have seen ({look})")
    gateway = connect()
    found = gateway.operation(id)
    if found["phase"] != "waiting_for_approval":
        raise CliError(f"{id} waits for no approval", remedy=f"See {look}.")
    plan = gateway.send("POST", "/plans", gateway.get(operation_path(id, "spec")))
    say("\n".join([*operation_lines(found), "", *plan_lines(plan)]))
    plan_hash: str = found["plan_hash"]
    click.confirm(f"Approve plan {plan_hash}?", abort=True, err=True)
    return plan_hash
