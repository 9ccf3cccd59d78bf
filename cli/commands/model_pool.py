"""``instantstart model-pool``: model servers that are handed out to services."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.commands.deployment import server_body, server_options
from cli.options import output_option, start_options
from cli.spec import Body


@click.group("model-pool")
def model_pool() -> None:
    """Create, hand out, scale, list and delete pools of model servers."""


@model_pool.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@server_options
@start_options
def create(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Load the pool NAME of model servers in the cluster TAG, which serve nobody yet."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = server_body(name, file, choices)
    return begin(cluster_path(tag, "model-pools"), body, **choices)


@model_pool.command("assign")
@click.argument("tag")
@click.argument("name")
@click.argument("assignments", nargs=-1, metavar="[SERVICE=PODS]...")
@click.option("--keep-services", is_flag=True, help="Services that have no pods any more stay.")
@click.option("-n", "--namespace", help="The pool's.  [default: default]")
@start_options
def assign(tag: str, name: str, assignments: tuple[str, ...], keep_services: bool, **choices: Any) -> int:
    """Hand out the pods of the pool NAME of the cluster TAG. It is the whole wish: services that are not named give
    their pods back."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body: Body = {"assignments": dict(map(_assignment, assignments))}
    if keep_services:
        body["keep_services"] = True
    return begin(cluster_path(tag, f"{_path(name)}/assignments"), body, method="PUT", **choices)


@model_pool.command("scale")
@click.argument("tag")
@click.argument("name")
@click.argument("replicas", type=int)
@click.option("-n", "--namespace", help="The pool's.  [default: default]")
@start_options
def scale(tag: str, name: str, replicas: int, **choices: Any) -> int:
    """Give the pool NAME of the cluster TAG so many REPLICAS; never fewer than are handed out."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"{_path(name)}/scale"), {"replicas": replicas}, **choices)


@model_pool.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The pool's.  [default: default]")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the pool NAME of the cluster TAG: its services first, then its pods."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, _path(name)), None, method="DELETE", **choices)


@model_pool.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@output_option
def list_(tag: str, namespace: str | None, output: str) -> None:
    """List the model pools of the cluster TAG, and whom they are handed out to."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "model-pools"), namespace=namespace), _rows)


@model_pool.command("get")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The pool's.  [default: default]")
@output_option
def get(tag: str, name: str, namespace: str | None, output: str) -> None:
    """Show the pool NAME of the cluster TAG and its pods, by whom they serve."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, _path(name)), namespace=namespace), _detail)


def _path(name: str) -> str:
    return f"model-pools/{quote(name, safe='')}"


def _assignment(text: str) -> tuple[str, int]:
    service, _, pods = text.partition("=")
    if not pods.isdigit():
        raise click.UsageError(f"{text!r} is not SERVICE=PODS, like chat=2")
    return service, int(pods)


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("NAMESPACE", "POOL", "STATE", "READY", "FREE", "HANDED OUT", "GPUS", "KEEPER", "DETAIL")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["state"],
            f"{each['ready']}/{each['replicas']}",
            each["unassigned"],
            ",".join(f"{part['service']}={part['ready']}/{part['wanted']}" for part in each["assignments"]),
            each["gpu_count"],
            (each.get("keeper") or {}).get("state"),
            each["detail"],
        )
        for each in answer["model_pools"]
    )
    return columns(headers, rows)


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    rows = (
        (
            pod["business"],
            pod["name"],
            "ready" if pod["ready"] else pod.get("reason") or pod["phase"],
            pod.get("node"),
        )
        for pod in answer["pods"]
    )
    listed = _rows({"model_pools": [answer["pool"]]})
    return [*listed, "", *columns(("SERVES", "POD", "STATE", "NODE"), rows)]
