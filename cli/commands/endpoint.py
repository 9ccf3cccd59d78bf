"""``instantstart endpoint``: models that the inference operator serves."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.options import file_option, output_option, start_options
from cli.spec import put, read


@click.group()
def endpoint() -> None:
    """Create, list, change and delete managed endpoints."""


@endpoint.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The endpoint's spec")
@click.option("-n", "--namespace")
@click.option("--replicas", type=int)
@start_options
def create(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Create the endpoint NAME in the cluster TAG, until it answers."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "name", name)
    for member in ("namespace", "replicas"):
        put(body, member, choices.pop(member))
    return begin(cluster_path(tag, "endpoints"), body, **choices)


@endpoint.command("update")
@click.argument("tag")
@click.argument("name")
@file_option("The endpoint's spec as it is to be")
@click.option("-n", "--namespace")
@click.option("--replicas", type=int)
@start_options
def update(tag: str, name: str, file: TextIO | None, **choices: Any) -> int:
    """Let the endpoint NAME of the cluster TAG be as the file says."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "name", name)
    for member in ("namespace", "replicas"):
        put(body, member, choices.pop(member))
    return begin(cluster_path(tag, f"endpoints/{quote(name, safe='')}"), body, method="PUT", **choices)


@endpoint.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@output_option
def list_(tag: str, namespace: str | None, output: str) -> None:
    """List the managed endpoints of the cluster TAG, others' too."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "endpoints"), namespace=namespace), _rows)


@endpoint.command("get")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The endpoint's.  [default: default]")
@output_option
def get(tag: str, name: str, namespace: str | None, output: str) -> None:
    """Show the endpoint NAME of the cluster TAG, its conditions and its pods."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    path = cluster_path(tag, f"endpoints/{quote(name, safe='')}")
    emit(output, connect().get(path, namespace=namespace), _detail)


@endpoint.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The endpoint's.  [default: default]")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the endpoint NAME of the cluster TAG with all that its operator made."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"endpoints/{quote(name, safe='')}"), None, method="DELETE", **choices)


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("NAMESPACE", "ENDPOINT", "STATE", "READY", "MODEL", "TYPES", "SERVICE", "SAGEMAKER", "DETAIL")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["state"],
            f"{each['ready_replicas']}/{each['replicas']}",
            each.get("model"),
            ",".join(each["instance_types"]),
            each.get("service"),
            each.get("sagemaker_state"),
            each.get("detail"),
        )
        for each in answer["endpoints"]
    )
    return columns(headers, rows)


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns, pairs

    each = answer["endpoint"]
    lines = pairs(
        [
            ("Endpoint", f"{each['namespace']}/{each['name']}"),
            ("Resource", each["kind"]),
            ("State", each["state"]),
            ("Reason", each.get("reason")),
            ("Detail", each.get("detail")),
            ("Model", each.get("model")),
            ("Source", each.get("source")),
            ("Replicas", f"{each['ready_replicas']} of {each['replicas']} ready"),
            ("Routing", each.get("routing")),
            ("Service", each.get("service")),
            ("SageMaker", each.get("sagemaker_endpoint") or each.get("sagemaker_state")),
        ]
    )
    conditions = ((c["type"], c["status"], c["reason"], c["message"]) for c in answer["conditions"])
    return [*lines, "", *columns(("CONDITION", "STATUS", "REASON", "MESSAGE"), conditions), "", *answer["pods"]]
