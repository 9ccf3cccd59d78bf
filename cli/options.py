"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class State:
    """What ``main`` must know of the command that ran."""

    output: str = "table"
    options: dict[str, str] = field(default_factory=dict)
    """The command's options, e.g. ``--gpus``, by the name of what they set."""


def _remember(context: click.Context, parameter: click.Parameter, value: str) -> str:
    state = context.find_object(State)
    if state is not None:
        state.output = value
        state.options = {
            each.name: max(each.opts, key=len)
            for each in context.command.params
            if isinstance(each, click.Option) and each.name is not None
        }
    return value


def output_option(command: Command) -> Command:
    """``-o``: errors follow it, so that a program that asked for JSON gets its problems as JSON too (on stderr)."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        envvar="INSTANTSTART_OUTPUT",
        callback=_remember,
        is_eager=True,
        help="Format of the data on stdout.",
    )(command)


def data_option(command: Command) -> Command:
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        help="Data folder.  [env: INSTANTSTART_DATA; default: .data of the checkout]",
    )(command)


def start_options(command: Command) -> Command:
    """What every command that starts an operation takes; ``cli.starting.begin`` carries it out."""
    for option in (
        output_option,
        click.option("--idempotency-key", help="Key of this request; sent again, it starts nothing new."),
        click.option("--plan", help="The plan that was shown; refused if it does not hold any more."),
        click.option("--validate-only", is_flag=True, help="Check everything and show the plan; start nothing."),
        click.option(
            "--queue/--no-queue",
            default=True,
            show_default=True,
            help="Wait behind operations that hold what is needed; else fail at once.",
        ),
        click.option(
            "--wait/--no-wait",
            default=False,
            show_default=True,
            help="Follow the operation to its end; exit 4 when it needs a decision or is blocked.",
        ),
    ):
        command = option(command)
    return command


def file_option(what: str) -> Callable[[Command], Command]:
    """``-f``: a YAML or JSON file, ``-`` for stdin."""
    return click.option("-f", "--file", "file", type=click.File("r"), help=f"{what}, YAML or JSON; - for stdin.")
