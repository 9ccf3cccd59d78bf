"""``instantstart up``, ``down`` and ``reset``: the local stack."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.errors import CliError, say
from cli.options import Command, data_option, output_option

if TYPE_CHECKING:
    from cli.stack.settings import StackSettings


def stack_options(command: Command) -> Command:
    """Ports and pace of a stack."""
    ports = {"gateway": 3099, "temporal": 7233, "temporal_ui": 8233, "sandbox": 5566, "kubernetes": 5567}
    command = click.option(
        "--speed", default=30.0, show_default=True, envvar="INSTANTSTART_SPEED", help="Sandbox seconds in a second."
    )(command)
    for setting, number in reversed(ports.items()):
        command = click.option(
            f"--{setting.replace('_', '-')}-port",
            default=number,
            type=click.IntRange(1, 65535),
            show_default=True,
            envvar=f"INSTANTSTART_{setting.upper()}_PORT",
            show_envvar=True,
        )(command)
    return command


@click.command()
@data_option
@stack_options
@click.option("--free-ports", is_flag=True, help="Where a port is taken, use another one.")
@click.option(
    "--encrypt", is_flag=True, help="Encrypt what Temporal keeps, from now on, with a key in the data folder."
)
@click.option("--detach", is_flag=True, help="Return when everything works; `instantstart down` ends it.")
@click.option("--tied", is_flag=True, hidden=True, help="Stop when standard input ends.")
@output_option
def up(
    data: Path | None, free_ports: bool, encrypt: bool, detach: bool, tied: bool, output: str, **choices: Any
) -> None:
    """Run the local stack: Temporal, the sandbox, a worker and the gateway.

    It stays in the foreground until Ctrl-C; everything is kept in the data folder and found again by the next `up`.
    """
    from cli.output import emit
    from cli.stack.launch import run_stack
    from cli.stack.start import start_stack
    from cli.stack.supervisor import StackError

    settings = stack_settings(data, choices)
    if encrypt:
        settings.folder.encrypt()
    try:
        if detach:
            stack = start_stack(settings, free_ports=free_ports, keep=True)
            emit(output, stack.links, links_table)
            return
        run_stack(
            settings,
            free_ports=free_ports,
            say=say,
            on_ready=lambda links: emit(output, links, links_table),
            tied=sys.stdin.fileno() if tied else None,
        )
    except StackError as error:
        raise CliError(str(error)) from error


@click.command()
@data_option
def down(data: Path | None) -> None:
    """Stop the local stack, wherever it was started."""
    from cli.stack.start import stop_stack

    folder = data_folder(data)
    if stop_stack(folder):
        say("stopped")
    else:
        say(f"no stack runs on {folder.path}")


@click.command()
@data_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def reset(data: Path | None, yes: bool) -> None:
    """Forget all clusters and operations of the local stack: Temporal's and the sandbox's state together."""
    from cli.stack.folder import Held

    folder = data_folder(data)
    if not folder.path.exists():
        say(f"there is nothing in {folder.path}")
        return
    try:
        lock = folder.hold()
    except Held as held:
        pid = f" (pid {held.pid})" if held.pid else ""
        raise CliError(
            f"a stack is running on {folder.path}{pid}", remedy="Stop it first: `instantstart down`."
        ) from None
    with lock:
        if not yes:
            if not sys.stdin.isatty():
                raise CliError("reset asks before it removes anything", remedy="Say --yes where nobody can be asked.")
            click.confirm(f"Remove all clusters and operations in {folder.path}?", abort=True, err=True)
        folder.wipe()
    say(f"{folder.path} is empty; tokens and logs were kept")


def stack_settings(data: Path | None, choices: dict[str, Any]) -> StackSettings:
    """Settings from the values of ``data_option`` and ``stack_options``."""
    from cli.stack.settings import Ports, StackSettings

    ports = {name.removesuffix("_port"): value for name, value in choices.items() if name.endswith("_port")}
    return StackSettings(folder=data_folder(data), ports=Ports(**ports), speed=choices["speed"])


def data_folder(data: Path | None) -> Any:
    from cli.stack.folder import DataFolder, default_folder

    return DataFolder(data.expanduser().absolute() if data else default_folder())


def links_table(links: dict[str, Any]) -> list[str]:
    from cli.output import pairs

    return pairs(
        [
            ("Console", links.get("console")),
            ("API", links["gateway"]),
            ("API reference", links["api_docs"]),
            ("Temporal Web UI", links["temporal_ui"]),
            ("Sandbox", links["sandbox"]),
            ("Data", links["data"]),
        ]
    )
