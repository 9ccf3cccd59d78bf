"""Node groups and node pools as tables, and all nodes as numbers."""

from __future__ import annotations

from typing import Any

from cli.output import columns
from contracts.words import number_of


def node_group_lines(items: list[dict[str, Any]]) -> list[str]:
    headers = ("NODE GROUP", "STATUS", "TYPES", "CAPACITY", "READY", "DESIRED", "MIN", "MAX", "ACCELERATORS", "PROBLEM")
    rows = (
        (
            item["name"],
            item["status"],
            ",".join(item["instance_types"]),
            item["capacity"],
            item["ready"],
            item["desired"],
            item["minimum"],
            item["maximum"],
            item["accelerators"],
            item.get("problem"),
        )
        for item in items
    )
    return columns(headers, rows)


def node_pool_lines(items: list[dict[str, Any]]) -> list[str]:
    headers = ("NODE POOL", "READY", "GROUPS", "NODES", "ACCELERATORS", "LIMIT", "IDLE NODES", "REASON")
    rows = (
        (
            item["name"],
            "yes" if item["ready"] else "no",
            ",".join(item["instance_groups"]),
            item["nodes"],
            item["accelerators"],
            item.get("gpu_limit"),
            f"{item.get('consolidation') or '-'} after {item.get('consolidate_after') or '-'}",
            item.get("reason"),
        )
        for item in items
    )
    return columns(headers, rows)


def usage_lines(summary: dict[str, Any]) -> list[str]:
    """Totals of the whole cluster."""
    lines = [
        f"{summary['ready']} of {summary['nodes']} nodes Ready, {summary['unhealthy']} unhealthy, "
        f"{number_of(summary['pods'], 'pod')}, {summary['pods_pending']} pending"
    ]
    for each in summary["resources"]:
        pending = f", {each['pending']} more wanted by pending pods" if each["pending"] else ""
        lines.append(f"{each['name']}: {each['used']} of {each['allocatable']} in use{pending}")
    return lines
