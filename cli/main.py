"""The ``instantstart`` command. Subcommands are imported when they are needed, and what they need inside them, so that
``--help`` and completion answer at once."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence

import click

from cli.errors import CliError, Exit, error_lines, say
from cli.options import State
from telemetry import tracing

COMMANDS = {
    "up": "cli.commands.up:up",
    "down": "cli.commands.up:down",
    "demo": "cli.commands.demo:demo",
    "reset": "cli.commands.up:reset",
    "console": "cli.commands.console:console",
    "cluster": "cli.commands.cluster:cluster",
    "node": "cli.commands.node:node",
    "feature": "cli.commands.feature:feature",
    "group": "cli.commands.group:group",
    "node-group": "cli.commands.node_group:node_group",
    "node-pool": "cli.commands.node_pool:node_pool",
    "credential": "cli.commands.credential:credential",
    "model": "cli.commands.model:model",
    "deployment": "cli.commands.deployment:deployment",
    "model-pool": "cli.commands.model_pool:model_pool",
    "ray": "cli.commands.ray:ray",
    "router": "cli.commands.router:router",
    "service": "cli.commands.service:service",
    "call": "cli.commands.call:call",
    "endpoint": "cli.commands.endpoint:endpoint",
    "experiment": "cli.commands.experiment:experiment",
    "autoscaler": "cli.commands.autoscaler:autoscaler",
    "job": "cli.commands.job:job",
    "diagnose": "cli.commands.diagnose:diagnose",
    "drift": "cli.commands.drift:drift",
    "logs": "cli.commands.logs:logs",
    "operation": "cli.commands.operation:operation",
    "options": "cli.commands.options:options",
    "plan": "cli.commands.plan:plan",
    "preset": "cli.commands.preset:preset",
    "software": "cli.commands.software:software",
    "storage": "cli.commands.storage:storage",
    "token": "cli.commands.token:token",
    "tracking-server": "cli.commands.tracking_server:tracking_server",
    "train": "cli.commands.train:train",
}


class LazyGroup(click.Group):
    """A group whose commands are named by ``module:attribute``."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="instantstart", prog_name="instantstart")
def root() -> None:
    """Operate Amazon SageMaker HyperPod clusters on EKS.

    Commands speak to a gateway: INSTANTSTART_URL and INSTANTSTART_TOKEN, else the stack that `instantstart up` runs on
    this machine.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 an operation needs a decision or is blocked,
    5 something could not be looked at, 130 interrupted.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give back its exit code."""
    state = State()
    try:
        result = root.main(arguments, prog_name="instantstart", standalone_mode=False, obj=state)
    except click.exceptions.Abort:
        return Exit.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except CliError as error:
        if state.output == "json":
            say(json.dumps(error.as_problem(), ensure_ascii=False))
        else:
            say("\n".join(error_lines(error, state.options)))
        return error.exit
    return result if isinstance(result, int) else Exit.OK


def main() -> None:
    """The entry point of ``instantstart``."""
    try:
        traced = tracing.start("instantstart-cli")
    except tracing.TracingFaultError as error:
        say(str(error))
        sys.exit(Exit.USAGE)
    words = ["instantstart", *(word for word in sys.argv[1:2] if word in COMMANDS)]
    with tracing.doing(" ".join(words)):
        code = run()
    if traced:
        tracing.stop()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone; the interpreter would complain while it flushes again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
