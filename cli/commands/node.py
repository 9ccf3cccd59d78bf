"""``instantstart node``: the nodes of a cluster, and what can be done to them."""

from __future__ import annotations

from typing import Any, TextIO

import click

from cli.options import Command, file_option, output_option, start_options
from cli.spec import put, read

PAGE = 200


@click.group()
def node() -> None:
    """List, reboot, replace and delete nodes."""


@node.command("list")
@click.argument("tag")
@click.option("--group", help="Only of this instance group, node group or node pool.")
@click.option("--unhealthy", is_flag=True, help="Only those that are not healthy.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@output_option
def list_(tag: str, group: str | None, unhealthy: bool, limit: int | None, output: str) -> None:
    """List the nodes of the cluster TAG as they are now, with what is used of them."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    gateway, token = connect(), None
    nodes: list[Any] = []
    while True:
        size = PAGE if limit is None else min(PAGE, limit - len(nodes))
        sick = "true" if unhealthy else None
        flags: dict[str, Any] = {"group": group, "unhealthy": sick, "page_token": token, "page_size": size}
        page = gateway.get(cluster_path(tag, "nodes"), **flags)
        nodes += page["nodes"]
        token = page.get("next_page_token")
        if not token or (limit is not None and len(nodes) >= limit):
            break
    emit(output, {**page, "nodes": nodes, "next_page_token": token}, nodes_lines)


@node.command("get")
@click.argument("tag")
@click.argument("name", metavar="NODE")
@output_option
def get(tag: str, name: str, output: str) -> None:
    """Show the node NODE (i-…, hyperpod-i-… or its logical ID) of the cluster TAG, and the pods on it."""
    from cli.gateway import cluster_path, connect
    from cli.output import emit

    emit(output, connect().get(cluster_path(tag, f"nodes/{name}")), node_lines)


def nodes_command(command: Command) -> Command:
    """What reboot, replace and delete take."""
    for option in (
        start_options,
        click.option("--drain-timeout", type=int, metavar="MINUTES", help="For the pods to leave.  [default: 30]"),
        click.option("--drain", is_flag=True, default=None, help="Evict their pods first, within disruption budgets."),
        file_option("The request"),
        click.argument("nodes", nargs=-1, metavar="NODE..."),
        click.argument("tag"),
    ):
        command = option(command)
    return command


@node.command("reboot")
@nodes_command
def reboot(tag: str, **choices: Any) -> int:
    """Restart nodes of the cluster TAG; instances and volumes stay."""
    return _start("reboot", tag, **choices)


@node.command("replace")
@nodes_command
def replace(tag: str, **choices: Any) -> int:
    """Give nodes of the cluster TAG other instances; everything on their volumes is lost."""
    return _start("replace", tag, **choices)


@node.command("delete")
@nodes_command
def delete(tag: str, **choices: Any) -> int:
    """End nodes of the cluster TAG; their groups get smaller by as many."""
    return _start("delete", tag, **choices)


def _start(
    verb: str,
    tag: str,
    nodes: tuple[str, ...],
    file: TextIO | None,
    drain: bool | None,
    drain_timeout: int | None,
    **choices: Any,
) -> int:
    from cli.gateway import cluster_path
    from cli.starting import begin

    body = read(file)
    put(body, "nodes", list(nodes) or None)
    put(body, "drain", drain)
    put(body, "drain_timeout_minutes", drain_timeout)
    return begin(cluster_path(tag, f"nodes/{verb}"), body, **choices)


def nodes_lines(page: dict[str, Any]) -> list[str]:
    from cli.node_lists import usage_lines
    from cli.output import age, columns

    headers = (
        "NODE",
        "KIND",
        "GROUP",
        "TYPE",
        "ZONE",
        "CAPACITY",
        "STATUS",
        "READY",
        "USED",
        "PODS",
        "AGE",
        "PROBLEMS",
    )
    rows = (
        (
            each["name"],
            each["kind"],
            each["group"],
            each["instance_type"],
            each["zone"],
            each["capacity_type"],
            each.get("status"),
            _ready(each),
            _used(each["resources"]),
            each["pods"],
            age(each.get("launched_at")),
            "; ".join(each["problems"]),
        )
        for each in page["nodes"]
    )
    return [*columns(headers, rows), "", *usage_lines(page["summary"])]


def node_lines(detail: dict[str, Any]) -> list[str]:
    from cli.output import age, columns, pairs

    each = detail["node"]
    lines = pairs(
        [
            ("Node", each["name"]),
            ("Kind", f"{each['kind']}, group {each['group']}"),
            ("Node pool", each.get("node_pool")),
            ("Instance", each.get("instance_id")),
            ("Logical ID", each.get("logical_id")),
            ("Type", f"{each['instance_type']} in {each['zone']}, {each['capacity_type']}"),
            ("SageMaker", " – ".join(filter(None, [each.get("status"), each.get("message")]))),
            ("Kubernetes", _ready(each)),
            ("Health", each.get("health")),
            ("Deep check", each.get("deep_health_check")),
            ("Problems", "; ".join(each["problems"])),
            ("Image", " ".join(filter(None, [each.get("image_version"), each.get("image_status"), each.get("image")]))),
            ("Age", age(each.get("launched_at"))),
        ]
    )
    for taint in each["taints"]:
        value = f"={taint['value']}" if taint["value"] else ""
        lines.append(f"Taint  {taint['key']}{value}:{taint['effect']}")
    if each["resources"]:
        rows = ((r["name"], r["capacity"], r["allocatable"], r["used"]) for r in each["resources"])
        lines += ["", *columns(("RESOURCE", "CAPACITY", "ALLOCATABLE", "USED"), rows)]
    if detail["pods"]:
        rows = (
            (
                f"{pod['namespace']}/{pod['name']}",
                f"{pod['owner_kind']} {pod['owner']}",
                pod["phase"],
                pod["accelerators"],
            )
            for pod in detail["pods"]
        )
        lines += ["", *columns(("POD", "OF", "PHASE", "ACCELERATORS"), rows)]
    return lines


def _ready(each: dict[str, Any]) -> str:
    ready = "Ready" if each["ready"] else "NotReady"
    return f"{ready},SchedulingDisabled" if each["unschedulable"] else ready


def _used(resources: list[dict[str, Any]]) -> str:
    """Accelerators in use, by their short names: ``gpu 4/8``."""
    return " ".join(f"{each['name'].rpartition('/')[2]} {each['used']}/{each['allocatable']}" for each in resources)
