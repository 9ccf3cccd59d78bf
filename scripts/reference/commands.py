"""``docs/reference/commands.md``: the command line, from its own definitions."""

from __future__ import annotations

from collections.abc import Iterator

import click

from cli.main import root
from scripts.reference.pages import MADE, first_sentence, paragraphs, table

HEAD = f"""# Commands

{MADE}
`instantstart COMMAND --help` tells every option. What starts an operation takes `--validate-only` for its plan,
`--wait` to follow it, and `-f` for a file with its spec; `-o json` is for programs.
"""


def page() -> str:
    """The page."""
    rows = ((f"`instantstart {name}`", first_sentence(command.help or "")) for name, command in commands())
    return f"{paragraphs(HEAD)}\n{table(('command', 'what it does'), rows)}"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words and arguments."""
    yield from _below("", root)


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join([name.strip(), *_arguments(command)]), command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        inner = command.get_command(context, each)
        if inner is not None and not inner.hidden:
            yield from _below(f"{name} {each}", inner)


def _arguments(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield parameter.make_metavar(click.Context(command))
