"""A cluster's record for people."""

from __future__ import annotations

from typing import Any

from cli.drift_view import drift_line
from cli.node_lists import node_group_lines, node_pool_lines
from cli.output import age, columns, pairs
from cli.view import attention_lines

Record = dict[str, Any]


def summary_lines(record: Record) -> list[str]:
    """What was made: EKS, HyperPod, nodes, storage."""
    eks = record.get("control_plane") or {}
    hyperpod = record.get("hyperpod") or {}
    nodes = record.get("nodes") or []
    lines = pairs(
        [
            ("Cluster", f"{record['tag']} in {record['region']}"),
            ("EKS cluster", _named(eks.get("name"), eks.get("status"), _version(eks, record))),
            ("HyperPod cluster", _named(hyperpod.get("name"), hyperpod.get("status"))),
            *(("S3 storage", claim_line(claim)) for claim in record.get("storage") or []),
            ("Nodes", _readiness(record)),
        ]
    )
    if nodes:
        headers = ("NODE", "GROUP", "TYPE", "CAPACITY", "ZONE", "ACCELERATORS", "STATUS", "HEALTH")
        lines += ["", *columns(headers, map(_node, nodes))]
        if (left := _node_totals(record)[1] - len(nodes)) > 0:
            lines.append(f"{left} more: instantstart node list {record['tag']}")
    return lines


def cluster_lines(view: dict[str, Any]) -> list[str]:
    """A cluster in full."""
    record: Record = view["record"]
    network = record.get("network") or {}
    lines = summary_lines(record)
    if groups := record.get("node_groups"):
        lines += ["", *node_group_lines(groups)]
    if pools := record.get("node_pools"):
        lines += ["", *node_pool_lines(pools)]
    if network:
        blocks = ", ".join(network.get("vpc_cidrs") or [])
        lines += ["", *pairs([("VPC", _named(network.get("vpc_id"), blocks)), ("Zones", ", ".join(network["zones"]))])]
    if components := record.get("dependencies"):
        rows = ((each["name"], each["state"], each.get("version"), each.get("detail")) for each in components)
        lines += ["", *columns(("DEPENDENCY", "STATE", "VERSION", "DETAIL"), rows)]
    if features := [each for each in record.get("features") or [] if each["state"] != "off"]:
        rows = ((each["feature"], each["state"], each.get("version"), each.get("detail")) for each in features)
        lines += ["", *columns(("FEATURE", "STATE", "VERSION", "DETAIL"), rows)]
    return [*lines, "", f"Created {age(record['created_at'])} ago by {record['created_by']}"]


def status_lines(answer: dict[str, Any]) -> list[str]:
    """What goes on in a cluster."""
    view, operations = answer["cluster"], answer["operations"]
    record: Record = view["record"]
    eks, hyperpod = record.get("control_plane") or {}, record.get("hyperpod") or {}
    lines = pairs(
        [
            ("Cluster", record["tag"]),
            ("EKS", eks.get("status")),
            ("HyperPod", hyperpod.get("status")),
            ("Nodes", _readiness(record)),
            ("Verified", f"{age(record['updated_at'])} ago"),
            ("Drift", drift_line(drift["report"]) if (drift := record.get("drift")) else "not looked for yet"),
        ]
    )
    if operations:
        rows = ((each["id"], each["phase"], current_stage(each), age(each["started_at"])) for each in operations)
        lines += ["", *columns(("OPERATION", "PHASE", "STAGE", "AGE"), rows)]
    for each in operations:
        if attention := attention_lines(each):
            lines += ["", *attention]
    return lines


def current_stage(operation: dict[str, Any]) -> str:
    """The stages that are at work or stand still; for an operation that has ended, how far it came."""
    stages = operation.get("stages") or []
    current = [stage["title"] for stage in stages if stage["state"] in ("running", "waiting", "blocked")]
    finished = sum(1 for stage in stages if stage["state"] in ("done", "skipped", "unchanged"))
    return ", ".join(current) or f"{finished} of {len(stages)} done"


def claim_line(claim: dict[str, Any]) -> str:
    bucket, file_system = f"s3://{claim['bucket']}/{claim.get('prefix') or ''}", claim.get("file_system")
    return (
        f"{f'FSx {file_system}' if file_system else bucket} as {claim['namespace']}/{claim['claim']} ({claim['phase']})"
    )


def _node(node: dict[str, Any]) -> tuple[Any, ...]:
    accelerators = f"{node['accelerators']} {node.get('accelerator_resource') or ''}".strip()
    return (
        node["name"],
        node["instance_group"],
        node["instance_type"],
        node["capacity_type"],
        node["zone"],
        accelerators,
        "Ready" if node.get("ready") else "NotReady",
        node.get("health"),
    )


def _node_totals(record: Record) -> tuple[int, int]:
    """How many nodes are Ready, and how many there are: the list has no more than some of a large cluster's."""
    nodes = record.get("nodes") or []
    if counts := record.get("node_counts"):
        return sum(each["ready"] for each in counts), sum(each["nodes"] for each in counts)
    return sum(1 for node in nodes if node.get("ready")), len(nodes)


def _readiness(record: Record) -> str | None:
    ready, total = _node_totals(record)
    return f"{ready} of {total} Ready" if total else None


def _version(eks: dict[str, Any], record: Record) -> str | None:
    version = eks.get("kubernetes_version") or record.get("kubernetes_version")
    return f"Kubernetes {version}" if version else None


def _named(name: str | None, *remarks: str | None) -> str | None:
    said = ", ".join(filter(None, remarks))
    return f"{name} ({said})" if name and said else name
