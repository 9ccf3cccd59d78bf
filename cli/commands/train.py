"""``instantstart train``: training runs of a cluster."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.commands.train_logs import logs
from cli.options import Command, file_option, output_option, start_options
from cli.presets import preset_options
from cli.spec import put, read
from contracts.words import number_of

MEMBERS = (
    "namespace",
    "submission",
    "nodes",
    "gpus_per_node",
    "efa_per_node",
    "image",
    "credential",
    "checkpoint_path",
)


@click.group()
def train() -> None:
    """Submit training runs, watch them, and stop, suspend and resume them."""


train.add_command(logs)


def named(command: Command) -> Command:
    """Which run."""
    for option in (
        click.option("-n", "--namespace", help="The run's.  [default: default]"),
        click.argument("name"),
        click.argument("tag"),
    ):
        command = option(command)
    return command


@train.command("submit")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The run's spec")
@click.option("--recipe", "kind", help="Which framework: pytorch, llama-factory …; its options are in the file.")
@click.option("--script", "script_path", help="Of recipe pytorch: the Python file, as the containers see it.")
@click.option("--argument", "arguments", multiple=True, help="A word for the script; may be repeated.")
@click.option("-n", "--namespace")
@click.option("--submission", type=click.Choice(["hyperpod", "ray", "sagemaker"]))
@click.option("--instance-type", "instance_types", multiple=True, help="Of the nodes.")
@click.option("--nodes", type=int, help="[default: 1]")
@click.option("--gpus", "gpus_per_node", type=int, help="Of each node; there is no default.")
@click.option("--efa", "efa_per_node", type=int, help="EFA interfaces of each node.  [default: all that the type has]")
@click.option("--image", help="[default: the recipe's, of a pinned version]")
@click.option("--credential", help="Stored credential with a Hugging Face token.")
@click.option("--checkpoint-path", help="Where checkpoints go to, as the containers see it.")
@click.option("--local-queue", help="Local queue of task governance.")
@click.option("--priority", help="Priority class in that queue.")
@preset_options
@start_options
def submit(
    tag: str, name: str | None, file: TextIO | None, preset: str | None, settings: tuple[str, ...], **choices: Any
) -> int:
    """Submit the training run NAME in the cluster TAG. Options win over the file, the file over a preset."""
    from cli.gateway import cluster_path, connect
    from cli.presets import with_preset
    from cli.starting import begin

    body = read(file)
    put(body, "name", name)
    for member in MEMBERS:
        put(body, member, choices.pop(member))
    put(body, "instance_types", list(choices.pop("instance_types")) or None)
    recipe = dict(body.get("recipe") or {})
    put(recipe, "kind", choices.pop("kind"))
    put(recipe, "script_path", choices.pop("script_path"))
    put(recipe, "arguments", list(choices.pop("arguments")) or None)
    put(body, "recipe", recipe or None)
    queue = dict(body.get("queue") or {})
    put(queue, "queue", choices.pop("local_queue"))
    put(queue, "priority", choices.pop("priority"))
    put(body, "queue", queue or None)
    if preset is not None or settings:
        body = with_preset(connect(), body, preset, settings)
    return begin(cluster_path(tag, "training-runs"), body, **choices)


@train.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@output_option
def list_(tag: str, namespace: str | None, output: str) -> None:
    """List the training runs of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "training-runs"), namespace=namespace), _rows)


@train.command("get")
@named
@output_option
def get(tag: str, name: str, namespace: str | None, output: str) -> None:
    """Show the training run NAME of the cluster TAG: its pods, its budget of restarts, and why it waits."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, _path(name)), namespace=namespace), _detail)


@train.command("stop")
@named
@click.option("--reason", help="For those who look at the run later.")
@start_options
def stop(tag: str, name: str, reason: str | None, **choices: Any) -> int:
    """End the training run NAME of the cluster TAG; its logs and checkpoints stay."""
    return _control(tag, name, "stop", reason, choices)


@train.command("suspend")
@named
@click.option("--reason", help="For those who look at the run later.")
@start_options
def suspend(tag: str, name: str, reason: str | None, **choices: Any) -> int:
    """End the pods of the training run NAME; its job waits until it is resumed."""
    return _control(tag, name, "suspend", reason, choices)


@train.command("resume")
@named
@click.option("--reason", help="For those who look at the run later.")
@start_options
def resume(tag: str, name: str, reason: str | None, **choices: Any) -> int:
    """Let the suspended training run NAME go on, from its last checkpoint."""
    return _control(tag, name, "resume", reason, choices)


def _control(tag: str, name: str, action: str, reason: str | None, choices: dict[str, Any]) -> int:
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"{_path(name)}/{action}"), {"reason": reason} if reason else {}, **choices)


def _path(name: str) -> str:
    return f"training-runs/{quote(name, safe='')}"


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("NAMESPACE", "RUN", "STATE", "PODS", "NODES", "GPUS", "RECIPE", "PATH", "RESTARTS", "DETAIL")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["state"],
            f"{each['pods_ready']}/{each['pods_total']}",
            each["nodes"],
            each["gpus"],
            each["recipe"],
            each["submission"],
            _spent(each["restarts"]),
            each["detail"],
        )
        for each in answer["runs"]
    )
    return columns(headers, rows)


def _spent(restarts: dict[str, Any]) -> str:
    limit = restarts.get("job_limit")
    return f"{restarts['job']}/{limit}" if limit is not None else str(restarts["job"])


def _step(reported: dict[str, Any]) -> str | None:
    step, total = reported.get("step"), reported.get("total_steps")
    return None if step is None else f"{step} of {total}" if total else str(step)


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, pairs

    each, waiting = answer["run"], answer.get("waiting") or {}
    reported, restarts = each.get("reported") or {}, each["restarts"]
    lines = pairs(
        [
            ("Run", f"{each['namespace']}/{each['name']}"),
            ("State", each["state"]),
            ("Detail", each["detail"]),
            ("Remark", each.get("remark")),
            ("Recipe", f"{each['recipe']}, submitted by {each['submission']}"),
            ("Hardware", f"{each['nodes']} × {each['instance_type']}, {number_of(each['gpus'], 'GPU')} in all"),
            ("Pods", f"{each['pods_ready']} of {each['pods_total']} ready"),
            (
                "Restarts",
                f"{_spent(restarts)} in all, {restarts['in_place']} in place, {restarts['full']} with new pods",
            ),
            ("Step", _step(reported)),
            ("Loss", reported.get("loss")),
            ("Last checkpoint", each.get("last_checkpoint")),
            ("Waits because", waiting.get("reason")),
            ("Started", each.get("started_at")),
            ("Finished", each.get("finished_at")),
            ("Operation", each.get("operation")),
            ("Logs", answer.get("logs") or answer.get("logged_at")),
        ]
    )
    if answer["pods"]:
        pods = (
            (pod["name"], pod["phase"], pod.get("node"), pod["restarts"], pod.get("reason"), pod.get("message"))
            for pod in answer["pods"]
        )
        lines += ["", *columns(("POD", "PHASE", "NODE", "RESTARTS", "REASON", "MESSAGE"), pods)]
    return lines
