"""``instantstart ray``: Ray clusters for interactive use."""

from __future__ import annotations

from typing import Any, TextIO
from urllib.parse import quote

import click

from cli.options import file_option, output_option, start_options
from cli.spec import put, read

MEMBERS = ("namespace", "workers", "gpus_per_worker", "efa_per_worker", "image", "ray_version", "credential")


@click.group()
def ray() -> None:
    """Create, list and delete Ray clusters that people connect to; training runs on Ray make their own."""


@ray.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The Ray cluster's spec")
@click.option("-n", "--namespace")
@click.option("--workers", type=int, help="[default: 1]")
@click.option("--gpus", "gpus_per_worker", type=int, help="Of one worker; there is no default.")
@click.option("--efa", "efa_per_worker", type=int, help="EFA interfaces of one worker.  [default: 0]")
@click.option("--instance-type", "instance_types", multiple=True, help="Workers only on these; may be repeated.")
@click.option("--image", help="[default: Ray's own, of a pinned version]")
@click.option("--ray-version", help="Ray's version in the image, where its tag does not tell.")
@click.option("--credential", help="Stored credential with a Hugging Face token.")
@start_options
def create(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Create the Ray cluster NAME on the cluster TAG, until its head answers."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "name", name)
    for member in MEMBERS:
        put(body, member, choices.pop(member))
    put(body, "instance_types", list(choices.pop("instance_types")) or None)
    return begin(cluster_path(tag, "ray-clusters"), body, **choices)


@ray.command("list")
@click.argument("tag")
@click.option("-n", "--namespace", help="Only of this namespace.  [default: all]")
@output_option
def list_(tag: str, namespace: str | None, output: str) -> None:
    """List the Ray clusters of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "ray-clusters"), namespace=namespace), _rows)


@ray.command("get")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The Ray cluster's.  [default: default]")
@output_option
def get(tag: str, name: str, namespace: str | None, output: str) -> None:
    """Show the Ray cluster NAME of the cluster TAG, its pods, and what runs on it."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, _path(name)), namespace=namespace), _detail)


@ray.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("-n", "--namespace", help="The Ray cluster's.  [default: default]")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the Ray cluster NAME of the cluster TAG, with all that runs on it."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, _path(name)), None, method="DELETE", **choices)


def _path(name: str) -> str:
    return f"ray-clusters/{quote(name, safe='')}"


def _rows(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    headers = ("NAMESPACE", "RAY CLUSTER", "STATE", "WORKERS", "GPUS", "RAY", "DASHBOARD", "DETAIL")
    rows = (
        (
            each["namespace"],
            each["name"],
            each["state"],
            f"{each['ready']}/{each['workers']}",
            each["gpus"],
            each.get("ray_version"),
            each.get("dashboard"),
            each["detail"],
        )
        for each in answer["ray_clusters"]
    )
    return columns(headers, rows)


def _detail(answer: dict[str, Any]) -> list[str]:
    from cli.output import columns

    rows = ((each["name"], each["phase"], each.get("node"), each.get("reason")) for each in answer["pods"])
    used = answer.get("use")
    return [
        *_rows({"ray_clusters": [answer["ray_cluster"]]}),
        "",
        used["note"] if used else "its head does not answer",
        "",
        *columns(("POD", "PHASE", "NODE", "REASON"), rows),
    ]
