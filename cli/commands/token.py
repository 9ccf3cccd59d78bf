"""``instantstart token``: tokens of the gateway that keeps its data in this machine's data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.options import data_option, output_option

ROLES = ["viewer", "agent", "operator", "admin"]


@click.group()
def token() -> None:
    """Make, list and revoke tokens of the local gateway."""


@token.command("add")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
@data_option
def add(name: str, role: str, data: Path | None) -> None:
    """Make a token for NAME and print it: the only time that it is seen."""
    click.echo(run(data, "add", name, role).strip())


@token.command("list")
@data_option
@output_option
def list_(data: Path | None, output: str) -> None:
    """List names and roles."""
    from cli.output import columns, emit

    def table(rows: list[dict[str, Any]]) -> list[str]:
        return columns(("NAME", "ROLE", "CREATED"), (tuple(row.values()) for row in rows))

    lines = (line.split("\t") for line in run(data, "list").splitlines() if line)
    emit(output, [dict(zip(("name", "role", "created_at"), line, strict=False)) for line in lines], table)


@token.command("revoke")
@click.argument("name")
@data_option
def revoke(name: str, data: Path | None) -> None:
    """Make the token of NAME worthless."""
    from cli.errors import say

    run(data, "revoke", name)
    say(f"{name} has no token any more")


def run(data: Path | None, *arguments: str) -> str:
    """What the gateway's own token command prints. Raises CliError when it fails; its exit code 3 stays 3."""
    from cli.commands.up import data_folder
    from cli.errors import CliError, Exit
    from cli.stack import tokens

    result = tokens.run(data_folder(data), *arguments)
    if result.returncode:
        said = (result.stderr.strip().splitlines() or ["the token command failed"])[-1]
        raise CliError(said, exit=Exit.NOT_FOUND if result.returncode == 3 else Exit.FAILED)
    return result.stdout
