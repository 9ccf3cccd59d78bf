"""What is otherwise in a cluster's record than it was, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.cluster import ClusterRecord

IDENTITIES = ("name", "feature", "claim", "group", "nat_gateway_id", "subnet_id")
"""What members of lists are told apart by."""
IGNORED = ("updated_at", "changed", "detail", "drift")
"""Says something of who looked, and nothing of the cluster."""
SHOWN = 50


def differences(before: ClusterRecord, after: ClusterRecord) -> list[str]:
    """A line for each difference, e.g. ``hyperpod.groups.workers.target: 2 → 3``. The order of lists is none."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    # Empty where the nodes are listed, or were only listed: no difference in the cluster.
    if not old["node_counts"] or not new["node_counts"]:
        old["node_counts"] = new["node_counts"] = []
    found = list(_compare("", old, new))
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN} more"]


def _compare(path: str, old: Any, new: Any) -> Iterator[str]:
    old, new = _named(old), _named(new)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new} - {*IGNORED}):
            inner = f"{path}.{key}" if path else str(key)
            if key not in old:
                yield f"{inner}: new"
            elif key not in new:
                yield f"{inner}: gone"
            else:
                yield from _compare(inner, old[key], new[key])
    elif old != new:
        yield f"{path}: {_said(old)} → {_said(new)}"


def _named(value: Any) -> Any:
    """A list of objects as a mapping by what each is called, other lists in order."""
    if not isinstance(value, list):
        return value
    if not all(isinstance(each, dict) for each in value):
        return sorted(value, key=str)
    for identity in IDENTITIES:
        if all(identity in each for each in value):
            return {str(each[identity]): each for each in value}
    return value


def _said(value: Any) -> str:
    match value:
        case None:
            return "none"
        case dict():
            return str(value.get("name") or ", ".join(value) or "none")
        case list():
            return ", ".join(map(str, value)) or "none"
    return str(value)
