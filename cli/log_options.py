"""The options of commands that show logs."""

from __future__ import annotations

import click

from cli.options import Command


def log_options(command: Command) -> Command:
    """What every command that shows a log takes; :func:`cli.logs.show` carries it out."""
    for option in (
        click.option("--timestamps", is_flag=True, help="Begin each line with its time."),
        click.option(
            "--level", type=click.Choice(["debug", "info", "warning", "error"]), help="This grave, or graver."
        ),
        click.option("--regex", is_flag=True, help="What is searched for is a regular expression."),
        click.option("--search", help="Only lines with this text, whatever its case."),
        click.option("--since", help="Nothing from before: 30s, 10m, 2h, 1d ago, or a time with its zone."),
        click.option("--all", "everything", is_flag=True, help="The whole log, from its first line."),
        click.option("--tail", type=click.IntRange(0, 5000), help="So many of the newest lines.  [default: 200]"),
        click.option("-f", "--follow", is_flag=True, help="Go on with what is printed, until the pods have ended."),
        click.option("-c", "--container", help="[default: of a pod its main container, of a run all]"),
    ):
        command = option(command)
    return command
