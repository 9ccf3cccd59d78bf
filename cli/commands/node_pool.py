"""``instantstart node-pool``: nodes that managed Karpenter brings when pods need them."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.commands.node_group import put_labels
from cli.options import file_option, output_option, start_options
from cli.spec import put, read


@click.group("node-pool")
def node_pool() -> None:
    """Create, list and delete node pools of managed Karpenter."""


@node_pool.command("create")
@click.argument("tag")
@click.argument("name", required=False)
@file_option("The node pool's spec")
@click.option("--group", "instance_groups", multiple=True, help="Instance group that it scales; may be repeated.")
@click.option(
    "--accept-scale-down",
    is_flag=True,
    default=None,
    help="Instances that the groups have now may go if no pod needs them.",
)
@click.option("--gpu-limit", type=int, help="Accelerators at most.  [default: the quota]")
@click.option("--consolidation", type=click.Choice(["WhenEmpty", "WhenEmptyOrUnderutilized"]))
@click.option("--consolidate-after", help="How long a node must be idle, e.g. 5m; Never keeps it.")
@click.option("--weight", type=int, help="Among pools that a pod fits, the heaviest is taken.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Node label; may be repeated.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="Node taint; may be repeated.")
@start_options
def create(tag: str, name: str | None, file: TextIO | None, **choices: Any) -> int:
    """Let pods of the cluster TAG have nodes of instance groups, by the node pool NAME."""
    body = read(file)
    put(body, "name", name)
    put(body, "instance_groups", list(choices.pop("instance_groups")) or None)
    for member in ("accept_scale_down", "gpu_limit", "consolidation", "consolidate_after", "weight"):
        put(body, member, choices.pop(member))
    put_labels(body, choices)

    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, "node-pools"), body, **choices)


@node_pool.command("list")
@click.argument("tag")
@output_option
def list_(tag: str, output: str) -> None:
    """List the node pools of the cluster TAG."""
    from cli.gateway import cluster_path, connect
    from cli.node_lists import node_pool_lines
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "node-pools")), lambda answer: node_pool_lines(answer["node_pools"]))


@node_pool.command("delete")
@click.argument("tag")
@click.argument("name")
@start_options
def delete(tag: str, name: str, **choices: Any) -> int:
    """Delete the node pool NAME of the cluster TAG; its nodes go with it."""
    from cli.gateway import cluster_path
    from cli.starting import begin

    return begin(cluster_path(tag, f"node-pools/{name}"), None, method="DELETE", **choices)
