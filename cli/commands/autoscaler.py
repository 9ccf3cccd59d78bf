"""``instantstart autoscaler``: how many replicas Deployments have, by metrics."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.options import file_option, output_option, start_options
from cli.spec import Body, put, read

LIMITS = ("min_replicas", "max_replicas", "cooldown_seconds", "name", "namespace")
TRIGGER = ("server_address", "workspace_id", "query", "threshold", "activation")
ROUTER_METRICS = ["requests_per_second", "queue_depth"]


@click.group()
def autoscaler() -> None:
    """Create, list and delete autoscalers of Deployments."""


@autoscaler.command("create")
@click.argument("tag")
@click.argument("target", required=False)
@file_option("The autoscaler's spec")
@click.option("--name", help="Its own name.  [default: the Deployment's]")
@click.option("-n", "--namespace")
@click.option("--min", "min_replicas", type=int, help="At least so many.  [default: 1]")
@click.option("--max", "max_replicas", type=int, help="At most so many.  [default: 5]")
@click.option("--cooldown", "cooldown_seconds", type=int, help="Seconds without activity before the last one goes.")
@click.option("--prometheus", "server_address", metavar="URL", help="Where the query is asked.")
@click.option("--workspace", "workspace_id", metavar="ID", help="A workspace of Managed Prometheus, instead.")
@click.option("--query", help="PromQL that gives one number.")
@click.option("--router", metavar="NAME", help="An SGLang router's load, instead of a query.")
@click.option("--router-metric", type=click.Choice(ROUTER_METRICS), help="Of --router.  [default: requests_per_second]")
@click.option("--threshold", type=float, help="What one replica takes of it.")
@click.option("--activation", type=float, help="Above it the first replica is started.")
@click.option("--cpu", type=int, metavar="PERCENT", help="Scale by the use of CPUs, too.")
@start_options
def create(tag: str, target: str | None, file: TextIO | None, cpu: int | None, **choices: Any) -> int:
    """Let metrics decide how many replicas the Deployment TARGET of the cluster TAG has."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "target", target)
    for member in LIMITS:
        put(body, member, choices.pop(member))
    router, metric = choices.pop("router"), choices.pop("router_metric")
    trigger: Body = {}
    for member in TRIGGER:
        put(trigger, member, choices.pop(member))
    if router is not None and "query" in trigger:
        raise click.UsageError("--router writes the query itself: give --router or --query")
    if router is None and metric is not None:
        raise click.UsageError("--router-metric goes with --router")
    put(trigger, "router", router)
    put(trigger, "metric", metric)
    given = [{"type": "prometheus" if router is None else "router", **trigger}] if trigger else []
    given += [{"type": "cpu", "utilization": cpu}] if cpu is not None else []
    put(body, "triggers", given or None)
    return begin(cluster_path(tag, "autoscalers"), body, **choices)


@autoscaler.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@output_option
def list_(tag: str, namespace: str | None, output: str) -> None:
    """List the autoscalers of the cluster TAG, others' too."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "autoscalers"), namespace=namespace), _rows)


@autoscaler.command("get")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The autoscaler's.  [default: default]")
@output_option
def get(tag: str, name: str, namespace: str | None, output: str) -> None:
    """Show the autoscaler NAME of the cluster TAG, and what its triggers say now."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    path = cluster_path(tag, f"autoscalers/{quote(name, safe='')}")
    emit(output, connect().get(path, namespace=namespace), _detail)


@autoscaler.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The autoscaler's.  [default: default]")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the autoscaler NAME of the cluster TAG; the Deployment keeps its replicas."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"autoscalers/{quote(name, safe='')}"), None, method="DELETE", **choices)


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import age, columns

    headers = ("NAMESPACE", "AUTOSCALER", "DEPLOYMENT", "STATE", "REPLICAS", "LIMITS", "WANTED", "SCALED", "DETAIL")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["target"],
            each["state"],
            each.get("replicas"),
            f"{each['min_replicas']}-{each['max_replicas']}",
            each.get("desired_replicas"),
            age(each.get("last_scaled_at")),
            each.get("detail"),
        )
        for each in answer["autoscalers"]
    )
    return columns(headers, rows)


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("TRIGGER", "VALUE", "THRESHOLD", "WANTS", "QUERY", "PROBLEM")
    triggers = (
        (
            each["type"],
            each.get("value"),
            each.get("threshold"),
            each.get("wants"),
            each.get("query"),
            each.get("problem"),
        )
        for each in answer["triggers"]
    )
    listed = _rows({"autoscalers": [answer["autoscaler"]]})
    return [*listed, "", *columns(headers, triggers), "", *answer["conditions"]]
