"""``instantstart node-group``: EKS managed node groups beside HyperPod's nodes."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.options import file_option, output_option, start_options
from cli.spec import Body, put, read

CAPACITIES = ["on-demand", "spot", "capacity-block"]


@click.group("node-group")
def node_group() -> None:
    """Create, list, scale and delete EKS node groups."""


@node_group.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The node group's spec")
@click.option("--instance-type", "instance_types", multiple=True, help="EC2 type, e.g. m6i.2xlarge; may be repeated.")
@click.option("--count", type=int, help="Desired nodes.  [default: 2]")
@click.option("--min", "minimum", type=int, help="At least so many.  [default: 0]")
@click.option("--max", "maximum", type=int, help="At most so many.  [default: the desired ones]")
@click.option("--capacity", type=click.Choice(CAPACITIES), help="How the capacity is bought.")
@click.option("--capacity-reservation", help="ID of a capacity block; implies --capacity capacity-block.")
@click.option("--availability-zone", "availability_zones", multiple=True, help="Zone by name; may be repeated.")
@click.option("--subnet", "subnet_ids", multiple=True, help="Use this subnet; may be repeated.")
@click.option("--volume-gib", type=int)
@click.option("--efa", is_flag=True, default=None, help="EFA interfaces; all nodes are in one zone then.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Node label; may be repeated.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="Node taint; may be repeated.")
@start_options
def create(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Create the node group NAME in the cluster TAG."""
    body = read(file)
    put(body, "name", name)
    for member in ("instance_types", "availability_zones", "subnet_ids"):
        put(body, member, list(choices.pop(member)) or None)
    for member, path in (("count", "desired"), ("minimum", "minimum"), ("maximum", "maximum")):
        put(body, f"scaling.{path}", choices.pop(member))
    reservation, capacity = choices.pop("capacity_reservation"), choices.pop("capacity")
    put(body, "capacity", capacity or ("capacity-block" if reservation else None))
    put(body, "capacity_reservation_id", reservation)
    for member in ("volume_gib", "efa"):
        put(body, member, choices.pop(member))
    put_labels(body, choices)

    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, "node-groups"), body, **choices)


@node_group.command("list")
@click.argument("tag")
@output_option
def list_(tag: str, output: str) -> None:
    """List the node groups of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.node_lists import node_group_lines
    from cli.output import emit

    emit(
        output, connect().get(cluster_path(tag, "node-groups")), lambda answer: node_group_lines(answer["node_groups"])
    )


@node_group.command("scale")
@click.argument("tag")
@click.argument("name")
@click.argument("count", type=int)
@click.option("--min", "minimum", type=int, help="At least so many.  [default: as it is]")
@click.option("--max", "maximum", type=int, help="At most so many.  [default: as it is]")
@start_options
def scale(tag: str, name: str, count: int, minimum: int | None, maximum: int | None, **choices: Any) -> int:
    """Let the node group NAME of the cluster TAG have COUNT nodes."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    body: Body = {"desired": count}
    put(body, "minimum", minimum)
    put(body, "maximum", maximum)
    return begin(cluster_path(tag, f"node-groups/{name}/scale"), body, **choices)


@node_group.command("delete")
@click.argument("tag")
@click.argument("name")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the node group NAME of the cluster TAG, its nodes, and what was made for it."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"node-groups/{name}"), None, method="DELETE", **choices)


def put_labels(body: Body, choices: Body) -> None:
    """Labels ``KEY=VALUE`` and taints ``KEY[=VALUE]:EFFECT`` of options."""
    labels = {}
    for text in choices.pop("labels"):
        key, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"a label looks like KEY=VALUE, not {text!r}")
        labels[key] = value
    put(body, "labels", labels or None)
    taints = []
    for text in choices.pop("taints"):
        left, sign, effect = text.rpartition(":")
        if not sign:
            raise click.UsageError(f"a taint looks like KEY=VALUE:EFFECT or KEY:EFFECT, not {text!r}")
        key, _, value = left.partition("=")
        taints.append({"key": key, "value": value, "effect": effect})
    put(body, "taints", taints or None)
