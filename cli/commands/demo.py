"""``instantstart demo``: a cluster from nothing, on this machine, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.commands.up import data_folder, links_table, stack_options, stack_settings
from cli.options import data_option, output_option

if TYPE_CHECKING:
    from cli.gateway import Gateway
    from cli.stack.folder import DataFolder
    from cli.stack.start import RunningStack


@click.command()
@data_option
@stack_options
@click.option("--tag", help="Name of the cluster.  [default: demo-MMDD and a letter, never used before]")
@click.option("--keep", is_flag=True, help="Keep the clusters of earlier demos; else a new stack starts empty.")
@output_option
def demo(data: Path | None, tag: str | None, keep: bool, output: str, **choices: Any) -> int:
    """Create a HyperPod cluster in the sandbox and show what came of it.

    A stack that runs is used; else one is started in a folder of its own (demo/ in the data folder), on free ports
    where the usual ones are taken. At a terminal it asks which capacity to take and stays up afterwards; elsewhere it
    takes the default and stops everything.
    """
    from cli.errors import CliError, say
    from cli.stack.start import start_stack
    from cli.stack.supervisor import StackError

    folder = demo_folder(data)
    stack: RunningStack | None = None
    try:
        if links := folder.links():
            say(f"using the stack that runs on {folder.path} (pid {links['pid']})")
        else:
            if data is None and not keep:
                empty(folder)
            say("starting Temporal, the sandbox, a worker and the gateway")
            stack = start_stack(stack_settings(folder.path, choices), free_ports=True, keep=False)
            links = stack.links
        return run_demo(folder, links, stack, tag, output)
    except StackError as error:
        raise CliError(str(error)) from error
    finally:
        if stack is not None:
            say("stopping the stack")
            stack.stop()


def demo_folder(data: Path | None) -> DataFolder:
    """The folder that is named; else the usual one if a stack runs there, else the demo's own."""
    from cli.stack.folder import DataFolder

    usual: DataFolder = data_folder(data)
    return usual if data is not None or usual.links() else DataFolder(usual.path / "demo")


def empty(folder: DataFolder) -> None:
    """Forget earlier demos. Raises StackError when a stack holds the folder."""
    from cli.stack.folder import Held
    from cli.stack.launch import AlreadyRunning

    folder.create()
    try:
        with folder.hold():
            folder.wipe()
    except Held as held:
        raise AlreadyRunning(folder, held.pid) from None


def run_demo(
    folder: DataFolder, links: dict[str, Any], stack: RunningStack | None, tag: str | None, output: str
) -> int:
    """Create the cluster, show it, and at a terminal keep the stack up until Ctrl-C."""
    from cli.decide import is_interactive
    from cli.errors import Exit, say
    from cli.gateway import Gateway, Target, cluster_path
    from cli.output import emit
    from cli.record import summary_lines
    from cli.sign_in import sign_in_link
    from cli.stack.folder import read_json
    from cli.view import attention_lines
    from cli.watch import EXITS, end_lines

    token = (read_json(folder.credentials) or {}).get("token")
    gateway = Gateway(Target(links["gateway"], token))
    tag = tag or fresh_tag([each["tag"] for each in gateway.all("clusters")])
    operation = gateway.post("/clusters", {"tag": tag})
    say(f"creating cluster {tag}: {operation['id']}\n")
    operation = carry_through(gateway, operation["id"], outlives=stack is None)
    code = EXITS[operation["phase"]]
    say("\n" + "\n".join(attention_lines(operation) or end_lines(operation)) + "\n")
    if code == Exit.OK:
        emit(output, gateway.get(cluster_path(tag))["record"], summary_lines)
    if stack is not None and is_interactive():
        # Not the link that the stack began with: capacity may have been chosen for longer than it lasts.
        shown = links_table({**links, "console": sign_in_link(gateway)["url"]})
        say("\n" + "\n".join(shown) + "\n\nEverything stays up until Ctrl-C.")
        try:
            stack.process.wait()
        except KeyboardInterrupt:
            return code
        say(f"the stack has ended by itself; see {links['logs']}")
        return Exit.FAILED
    return code


def carry_through(gateway: Gateway, id: str, *, outlives: bool) -> dict[str, Any]:
    """Follow the operation and answer its decisions: a person does at a terminal, elsewhere the default is taken."""
    from cli.decide import ask, default_answer, is_interactive
    from cli.errors import say
    from cli.view import compact, make_view
    from cli.watch import answer, attention_mark, open_decision, watch_until_settled

    view = make_view()
    answered: str | None = None
    try:
        while True:
            operation = watch_until_settled(gateway, id, view, answered)
            if (decision := open_decision(operation)) is None:
                return operation
            answered = attention_mark(operation)
            if is_interactive():
                chosen = ask(decision)
            else:
                chosen = default_answer(decision)
                say(f"\n{decision['question']}\nNobody can be asked here; taking the default: {compact(chosen)}\n")
            answer(gateway, id, decision["id"], chosen)
    except (KeyboardInterrupt, click.Abort):
        way = "goes on" if outlives else "goes on when its stack runs again (`instantstart demo --keep`)"
        say(f"\n{id} {way}.")
        raise


def fresh_tag(taken: list[str]) -> str:
    """``demo-`` with today's date and the first letters that no cluster has."""
    from datetime import date
    from itertools import count, product
    from string import ascii_lowercase

    today = f"demo-{date.today():%m%d}"
    endings = ("".join(letters) for length in count(1) for letters in product(ascii_lowercase, repeat=length))
    return next(today + ending for ending in endings if today + ending not in taken)
