"""``instantstart group``: instance groups of a HyperPod cluster."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.commands.node_group import put_labels
from cli.options import file_option, output_option, start_options
from cli.spec import CAPACITIES, Body, put, read

CHECKS = ["InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation"]
INTERFACES = ["efa", "efa-only"]


@click.group("group")
def group() -> None:
    """Add, list, scale, change and delete instance groups of a HyperPod cluster."""


@group.command("add")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The instance group's spec")
@click.option("--instance-type", help="HyperPod instance type, e.g. ml.g5.8xlarge.")
@click.option("--alternative-type", "alternative_types", multiple=True, help="To take where the first has no capacity.")
@click.option("--count", type=int, help="How many instances.")
@click.option("--min-count", type=int, help="The group works only with so many.")
@click.option("--availability-zone", help="Zone by name or ID.")
@click.option("--capacity", type=click.Choice(CAPACITIES), help="How the capacity is bought.")
@click.option("--training-plan", help="Name or ARN of a training plan; implies --capacity training-plan.")
@click.option("--network-interface", type=click.Choice(INTERFACES), help="How further network cards are attached.")
@click.option("--subnet", "subnet_id", help="Use this compute subnet.")
@click.option("--dedicated-subnet", is_flag=True, default=None, help="A subnet of the group's own.")
@click.option("--threads-per-core", type=int)
@click.option("--volume-gib", type=int)
@click.option("--deep-health-check", "checks", type=click.Choice(CHECKS), multiple=True, help="May be repeated.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Node label; may be repeated.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="Node taint; may be repeated.")
@start_options
def add(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Add the instance group NAME to the cluster TAG."""
    body = read(file)
    put(body, "name", name)
    plan, kind = choices.pop("training_plan"), choices.pop("capacity")
    if kind or plan:
        put(body, "capacity", {"kind": kind or "training-plan", **({"training_plan": plan} if plan else {})})
    put(body, "alternative_types", list(choices.pop("alternative_types")) or None)
    put(body, "deep_health_checks", list(choices.pop("checks")) or None)
    put(body, "subnet_placement", "dedicated" if choices.pop("dedicated_subnet") else None)
    for member in (
        "instance_type",
        "count",
        "min_count",
        "availability_zone",
        "network_interface",
        "subnet_id",
        "threads_per_core",
        "volume_gib",
    ):
        put(body, member, choices.pop(member))
    put_labels(body, choices)
    return _begin(tag, "instance-groups", body, **choices)


@group.command("list")
@click.argument("tag")
@output_option
def list_(tag: str, output: str) -> None:
    """List the instance groups of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.output import columns, emit

    def table(answer: dict[str, Any]) -> list[str]:
        headers = ("GROUP", "STATUS", "TYPES", "CAPACITY", "CURRENT", "TARGET", "MIN", "INTERFACE", "LABELS", "TAINTS")
        return columns(
            headers,
            (
                (
                    item["name"],
                    item["status"],
                    ",".join([item["instance_type"], *(item.get("alternative_types") or [])]),
                    item.get("capacity"),
                    item["current"],
                    item["target"],
                    item.get("min_count"),
                    item.get("network_interface"),
                    ",".join(f"{key}={value}" for key, value in (item.get("labels") or {}).items()),
                    ",".join(f"{taint['key']}:{taint['effect']}" for taint in item.get("taints") or []),
                )
                for item in answer["instance_groups"]
            ),
        )

    emit(output, connect().get(cluster_path(tag, "instance-groups")), table)


@group.command("scale")
@click.argument("tag")
@click.argument("name")
@click.argument("count", type=int)
@start_options
def scale(tag: str, name: str, count: int, **choices: Any) -> int:
    """Let the instance group NAME of the cluster TAG have COUNT instances."""
    return _begin(tag, f"instance-groups/{name}/scale", {"count": count}, **choices)


@group.command("update")
@click.argument("tag")
@click.argument("name")
@file_option("The changes")
@click.option("--min-count", type=int, help="The group works only with so many.")
@click.option("--volume-gib", type=int, help="Of instances that come later.")
@click.option("--deep-health-check", "checks", type=click.Choice(CHECKS), multiple=True, help="All that it should run.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="All labels that it should have.")
@click.option("--no-labels", is_flag=True, help="It should have no labels.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="All taints that it should have.")
@click.option("--no-taints", is_flag=True, help="It should have no taints.")
@start_options
def update(tag: str, name: str, file: TextIO | None, no_labels: bool, no_taints: bool, **choices: Any) -> int:
    """Change the instance group NAME of the cluster TAG; what is not named stays as it is."""
    body = read(file)
    for member in ("min_count", "volume_gib"):
        put(body, member, choices.pop(member))
    put(body, "deep_health_checks", list(choices.pop("checks")) or None)
    put(body, "labels", {} if no_labels else None)
    put(body, "taints", [] if no_taints else None)
    put_labels(body, choices)
    return _begin(tag, f"instance-groups/{name}", body, method="PATCH", **choices)


@group.command("delete")
@click.argument("tag")
@click.argument("name")
@click.option("--drain/--no-drain", default=True, show_default=True, help="Move the pods first.")
@start_options
def delete(tag: str, name: str, drain: bool, **choices: Any) -> int:
    """Delete the instance group NAME of the cluster TAG with its instances."""
    flag = None if drain else "false"
    return _begin(tag, f"instance-groups/{name}", None, method="DELETE", drain=flag, **choices)


def _begin(tag: str, path: str, body: Body | None, **choices: Any) -> int:
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, path), body, **choices)
