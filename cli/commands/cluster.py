"""``instantstart cluster``: make and delete clusters, and see what they are made of."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.commands.imports import import_, redetect
from cli.commands.stage import stage
from cli.commands.teardown import delete
from cli.options import file_option, output_option, start_options
from cli.spec import group_options, network_options, put, put_group, put_network, read


@click.group()
def cluster() -> None:
    """Create, look at and delete clusters."""


cluster.add_command(stage)
cluster.add_command(delete)
cluster.add_command(import_)
cluster.add_command(redetect)


@cluster.command("create")
@click.argument("tag", required=False)
@file_option("The cluster's spec")
@click.option("--region", help="AWS region.  [default: the deployment's]")
@network_options
@group_options
@start_options
def create(tag: str | None, file: TextIO | None, region: str | None, **choices: Any) -> int:
    """Create the cluster TAG: network, EKS control plane, dependencies, HyperPod nodes and storage.

    Without an instance type the operation asks which capacity to take, with the options that exist then.
    """
    body = read(file)
    if tag and body.get("tag") not in (None, tag):
        raise click.UsageError(f"the file is about {body['tag']}, not {tag}")
    put(body, "tag", tag)
    if not body.get("tag"):
        raise click.UsageError("a cluster needs a TAG, as argument or in the file")
    put(body, "region", region)
    put_network(body, choices)
    put_group(body, choices)

    from cli.starting import begin

    return begin("/clusters", body, **choices)


@cluster.command("list")
@click.option("--search", help="Only those with this in their tag or region.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@output_option
def list_(search: str | None, limit: int | None, output: str) -> None:
    """List clusters."""
    from cli.gateway import connect
    from cli.output import age, columns, emit

    def table(items: list[dict[str, Any]]) -> list[str]:
        headers = ("TAG", "REGION", "EKS", "HYPERPOD", "NODES", "READY", "ACCELERATORS", "CREATED BY", "AGE")
        return columns(
            headers,
            (
                (
                    item["tag"],
                    item["region"],
                    item.get("eks_status"),
                    item.get("hyperpod_status"),
                    item.get("nodes", 0),
                    item.get("nodes_ready", 0),
                    item.get("accelerators", 0),
                    item["created_by"],
                    age(item["created_at"]),
                )
                for item in items
            ),
        )

    emit(output, connect().all("clusters", limit, search=search), table)


@cluster.command("get")
@click.argument("tag")
@output_option
def get(tag: str, output: str) -> None:
    """Show what the cluster TAG is made of."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit
    from cli.record import cluster_lines

    emit(output, connect().get(cluster_path(tag)), cluster_lines)


@cluster.command("use")
@click.argument("tag", required=False)
@click.option("--none", "no_cluster", is_flag=True, help="Have no default cluster.")
@output_option
def use(tag: str | None, no_cluster: bool, output: str) -> None:
    """Make TAG the default cluster of the token in use: what the console and agents begin with."""
    if (tag is None) is not no_cluster:
        raise click.UsageError("say either a TAG or --none")

    from cli.gateway import connect
    from cli.output import emit, pairs

    def lines(caller: dict[str, Any]) -> list[str]:
        return pairs([("Caller", caller["name"]), ("Default cluster", caller.get("default_cluster") or "none")])

    path = "/me/default-cluster"
    gateway = connect()
    emit(output, gateway.send("PUT", path, {"cluster": tag}) if tag else gateway.send("DELETE", path, None), lines)


@cluster.command("usage")
@click.argument("tag")
@output_option
def usage(tag: str, output: str) -> None:
    """Show what the nodes of the cluster TAG offer, and what pods use of it and wait for."""
    from cli.gateway import cluster_path, connect
    from cli.node_lists import usage_lines
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, "usage")), lambda found: usage_lines(found["summary"]))


@cluster.command("status")
@click.argument("tag")
@output_option
def status(tag: str, output: str) -> int:
    """Show what goes on in the cluster TAG: open operations, and what waits for whom. Exits 4 if one needs a person."""
    from cli.errors import Exit
    from cli.follow import ENDS
    from cli.gateway import cluster_path, connect
    from cli.output import emit
    from cli.record import status_lines
    from cli.watch import EXITS

    gateway = connect()
    view = gateway.get(cluster_path(tag))
    operations = [each for each in gateway.all("operations", 50, cluster=tag) if each["phase"] not in ENDS]
    emit(output, {"cluster": view, "operations": operations}, status_lines)
    waiting = any(EXITS.get(each["phase"]) == Exit.NEEDS_ATTENTION for each in operations)
    return Exit.NEEDS_ATTENTION if waiting else Exit.OK
