"""``instantstart deployment``: model servers that the platform runs."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.options import Command, file_option, output_option, start_options
from cli.spec import Body, put, read

MEMBERS = (
    *("namespace", "command", "gpu_count", "replicas", "port", "image", "engine", "shell"),
    *("credential", "served_model", "strategy"),
)
REACH = ("service", "public", "confirm_public")


def reach_options(command: Command) -> Command:
    """Who reaches what serves."""
    for option in (
        click.option("--confirm-public", is_flag=True, default=None, help="Everybody on the internet may call it."),
        click.option("--public", type=click.Choice(["internal", "internet-facing"]), help="Of --service public."),
        click.option("--service", type=click.Choice(["in_cluster", "public", "none"]), help="Who reaches it."),
    ):
        command = option(command)
    return command


def put_reach(body: Body, choices: Body) -> None:
    for member in REACH:
        put(body, member, choices.pop(member))


def server_options(command: Command) -> Command:
    """What a model server is started with, and what it takes."""
    for option in (
        click.option("--strategy", type=click.Choice(["rolling", "recreate"]), help="Of an update."),
        click.option("--served-model", help="What the server must call its model."),
        click.option("--credential", help="Stored credential with a Hugging Face token."),
        click.option("--shell", type=click.Choice(["exec", "sh"]), help="What the signs of a shell in it mean."),
        click.option("--engine", type=click.Choice(["vllm", "sglang", "custom"])),
        click.option("--image", help="[default: the engine's, of a pinned version]"),
        click.option("--port", type=int, help="Where it listens.  [default: 8000]"),
        click.option("--instance-type", "instance_types", multiple=True, help="Only on these; may be repeated."),
        click.option("--replicas", type=int),
        click.option("--gpus", "gpu_count", type=int, help="Of one replica; there is no default."),
        click.option("--command", help='Its command line, e.g. "vllm serve Qwen/Qwen3-0.6B --port 8000".'),
        click.option("-n", "--namespace"),
        file_option("The deployment's spec"),
    ):
        command = option(command)
    return command


def server_body(name: str | None, file: TextIO | None, choices: Body) -> Body:
    """The spec that file and options give; they are taken out of ``choices``."""
    body = read(file)
    put(body, "name", name)
    for member in MEMBERS:
        put(body, member, choices.pop(member))
    put(body, "instance_types", list(choices.pop("instance_types")) or None)
    return body


@click.group()
def deployment() -> None:
    """Serve models, and look at, change, scale and end what serves."""


@deployment.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@server_options
@reach_options
@start_options
def create(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Serve a model as NAME in the cluster TAG, until it has answered."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = server_body(name, file, choices)
    put_reach(body, choices)
    return begin(cluster_path(tag, "deployments"), body, **choices)


@deployment.command("update")
@click.argument("tag")
@click.argument("name")
@server_options
@reach_options
@start_options
def update(tag: str, name: str, file: TextIO | None, **choices: Any) -> int:
    """Let the deployment NAME of the cluster TAG be as the file and the options say, and nothing else."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = server_body(name, file, choices)
    put_reach(body, choices)
    return begin(cluster_path(tag, _path(name)), body, method="PUT", **choices)


@deployment.command("scale")
@click.argument("tag")
@click.argument("name")
@click.argument("replicas", type=int)
@click.option("-n", "--namespace", help="The deployment's.  [default: default]")
@start_options
def scale(tag: str, name: str, replicas: int, **choices: Any) -> int:
    """Give the deployment NAME of the cluster TAG so many REPLICAS; 0 keeps it without running it."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"{_path(name)}/scale"), {"replicas": replicas}, **choices)


@deployment.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The deployment's.  [default: default]")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """End the deployment NAME of the cluster TAG; the model's files stay."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, _path(name)), None, method="DELETE", **choices)


@deployment.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@output_option
def list_(tag: str, namespace: str | None, output: str) -> None:
    """List the model servers that the platform runs in the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "deployments"), namespace=namespace), _rows)


@deployment.command("get")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The deployment's.  [default: default]")
@output_option
def get(tag: str, name: str, namespace: str | None, output: str) -> None:
    """Show the deployment NAME of the cluster TAG, its Services and its pods."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, _path(name)), namespace=namespace), _detail)


@deployment.command("parse")
@click.argument("tag")
@click.argument("command")
@click.option("--gpus", "gpu_count", type=int, help="Of one replica.")
@click.option("--port", type=int)
@click.option("--shell", type=click.Choice(["exec", "sh"]))
@output_option
def parse(tag: str, command: str, output: str, **choices: Any) -> None:
    """Show how COMMAND would be read, and what is wrong with it; nothing is started."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    body = {"command": command, **{name: value for name, value in choices.items() if value is not None}}
    emit(output, connect().post(cluster_path(tag, "deployments/parse"), body), _parsed)


def _path(name: str) -> str:
    return f"deployments/{quote(name, safe='')}"


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("NAMESPACE", "DEPLOYMENT", "STATE", "READY", "GPUS", "ENGINE", "MODEL", "SERVICES", "DETAIL")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["state"],
            f"{each['ready']}/{each['replicas']}",
            each["gpu_count"],
            each["engine"],
            each.get("model"),
            ",".join(service.get("address") or service["name"] for service in each["services"]),
            each["detail"],
        )
        for each in answer["deployments"]
    )
    return columns(headers, rows)


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.commands.service import service_lines
    from cli.output import columns, pairs, plain

    each, spec = answer["deployment"], answer.get("spec") or {}
    lines = pairs(
        [
            ("Deployment", f"{each['namespace']}/{each['name']}"),
            ("State", each["state"]),
            ("Detail", each["detail"]),
            ("Command", plain(spec.get("command") or " ".join(spec.get("argv") or []))),
            ("Image", each["image"]),
            ("Replicas", f"{each['ready']} of {each['replicas']} ready"),
            ("GPUs of each", each["gpu_count"]),
            ("Scaled by", each.get("autoscaled_by")),
        ]
    )
    if each["services"]:
        lines += ["", *service_lines({"services": each["services"]})]
    rows = (
        (pod["name"], pod["phase"], pod.get("node"), pod["restarts"], pod.get("message") or pod.get("reason"))
        for pod in answer["pods"]
    )
    return [*lines, "", *columns(("POD", "PHASE", "NODE", "RESTARTS", "WHY"), rows)]


def _parsed(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, pairs, plain

    command = answer["command"]
    lines = pairs(
        [
            ("Engine", command["engine"]),
            ("Model", command.get("model")),
            ("Image", answer.get("image")),
            ("GPUs by its words", answer.get("gpus_used")),
        ]
    )
    lines += ["", *(f"{number:>3}  {plain(word)}" for number, word in enumerate(command["argv"]))]
    if findings := answer["findings"]:
        rows = (
            (each["severity"], each["rule"], each.get("token"), each["message"], each.get("remedy"))
            for each in findings
        )
        lines += ["", *columns(("SEVERITY", "RULE", "WORD", "WHAT", "WHAT TO DO"), rows)]
    return lines
