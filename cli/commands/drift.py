"""``instantstart drift``: what of a cluster is otherwise than recorded, and what settles it."""

from __future__ import annotations

from typing import Any

import click

from cli.options import output_option, start_options
from cli.spec import Body


@click.group()
def drift() -> None:
    """See what has changed in a cluster behind the platform's back; adopt or restore it."""


@drift.command("show")
@click.argument("tag")
@output_option
def show(tag: str, output: str) -> None:
    """Show what the last check of the cluster TAG found."""
    from cli.drift_view import drift_lines
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "drift")), drift_lines)


@drift.command("check")
@click.argument("tag")
@output_option
def check(tag: str, output: str) -> int:
    """Compare the cluster TAG with its record now.

    Exits 1 if something differs, else 5 if something could not be read. What an operation is at work on is left out,
    and counts as neither.
    """
    from cli.drift_view import drift_lines
    from cli.errors import Exit
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    answer = connect().send("POST", cluster_path(tag, "drift/check"), None)
    emit(output, answer, drift_lines)
    report = answer.get("report")
    if report is None:
        return Exit.NOT_FOUND  # Deleted while it was looked at.
    if report.get("differences"):
        return Exit.FAILED
    return Exit.NOT_KNOWN if report.get("unread") else Exit.OK


def _choice(function: Any) -> Any:
    function = click.option(
        "--all", "everything", is_flag=True, help="All that the last check says can be settled so."
    )(function)
    function = click.argument("differences", nargs=-1)(function)
    return click.argument("tag")(function)


@drift.command("adopt")
@_choice
@click.option(
    "--accept-weaker-security",
    is_flag=True,
    default=None,
    help="Adopt those, too, that are a hole in the cluster's security.",
)
@start_options
def adopt(
    tag: str, differences: tuple[str, ...], everything: bool, accept_weaker_security: bool | None, **choices: Any
) -> int:
    """Record of the cluster TAG what is now: the DIFFERENCES by their IDs. Nothing in the cluster changes."""
    body: Body = {"differences": _named(tag, differences, everything, "adopt", bool(accept_weaker_security))}
    if accept_weaker_security:
        body["accept_weaker_security"] = True

    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, "drift/adopt"), body, **choices)


@drift.command("restore")
@_choice
@start_options
def restore(tag: str, differences: tuple[str, ...], everything: bool, **choices: Any) -> int:
    """Bring back in the cluster TAG what is recorded: the DIFFERENCES by their IDs. No workload is deleted."""
    body: Body = {"differences": _named(tag, differences, everything, "restore", True)}

    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, "drift/restore"), body, **choices)


def _named(tag: str, differences: tuple[str, ...], everything: bool, way: str, weaker: bool) -> list[str]:
    """IDs as given, or those of all that can be settled so."""
    if everything is bool(differences):
        raise click.UsageError("name DIFFERENCES by their IDs (`instantstart drift show`), or say --all")
    if differences:
        return list(differences)
    from cli.gateway import cluster_path, connect

    report = connect().get(cluster_path(tag, "drift")).get("report") or {}
    found = [
        each["id"]
        for each in report.get("differences") or []
        if each[way]["possible"] and (weaker or not each.get("weakens"))
    ]
    if not found:
        raise click.UsageError(f"the last check found nothing to {way}: `instantstart drift check {tag}` looks again")
    return found
