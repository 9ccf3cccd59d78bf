"""``instantstart router``: SGLang routers before model servers."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.commands.deployment import put_reach, reach_options
from cli.options import file_option, output_option, start_options
from cli.spec import put, read


@click.group()
def router() -> None:
    """Create, list and delete routers, which spread requests over model servers."""


@router.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The router's spec")
@click.option("-n", "--namespace")
@click.option("--deployment", help="Before the servers of this deployment.")
@click.option("--pool", help="Before those of this model pool, with --pool-service.")
@click.option("--pool-service", help="A service that the pool's pods are handed out to.")
@click.option("--policy", type=click.Choice(["cache_aware", "round_robin", "random"]))
@click.option("--replicas", type=int)
@click.option("--port", type=int, help="[default: 30000]")
@reach_options
@start_options
def create(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Put the router NAME before model servers of the cluster TAG, until it has passed on a request."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "name", name)
    for member in ("namespace", "policy", "replicas", "port"):
        put(body, member, choices.pop(member))
    put(body, "target.deployment", choices.pop("deployment"))
    put(body, "target.pool", choices.pop("pool"))
    put(body, "target.service", choices.pop("pool_service"))
    put_reach(body, choices)
    return begin(cluster_path(tag, "routers"), body, **choices)


@router.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@output_option
def list_(tag: str, namespace: str | None, output: str) -> None:
    """List the routers of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "routers"), namespace=namespace), _rows)


@router.command("get")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The router's.  [default: default]")
@output_option
def get(tag: str, name: str, namespace: str | None, output: str) -> None:
    """Show the router NAME of the cluster TAG, and the model servers that it lists."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, _path(name)), namespace=namespace), _detail)


@router.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The router's.  [default: default]")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the router NAME of the cluster TAG; the model servers stay."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, _path(name)), None, method="DELETE", **choices)


def _path(name: str) -> str:
    return f"routers/{quote(name, safe='')}"


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("NAMESPACE", "ROUTER", "STATE", "READY", "BEFORE", "SERVERS", "POLICY", "SERVICES", "DETAIL")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["state"],
            f"{each['ready']}/{each['replicas']}",
            each["target"],
            each["targets"],
            each.get("policy"),
            ",".join(service.get("address") or service["name"] for service in each["services"]),
            each["detail"],
        )
        for each in answer["routers"]
    )
    return columns(headers, rows)


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, pairs

    healths = {True: "healthy", False: "not healthy"}
    rows = ((each.get("pod"), each["url"], healths.get(each.get("healthy"))) for each in answer["workers"])
    metrics = pairs((name, f"{value:g}") for name, value in answer["metrics"].items())
    return [*_rows({"routers": [answer["router"]]}), "", *columns(("POD", "URL", "HEALTH"), rows), "", *metrics]
