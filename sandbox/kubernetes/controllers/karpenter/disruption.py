"""Which nodes are no longer wanted: empty ones, those of groups that left their class, and those that are too old.

https://karpenter.sh/docs/concepts/disruption/ . Only empty nodes are consolidated: pods are not moved to fewer nodes.
"""

from __future__ import annotations

from sandbox.kubernetes.objects import condition, dig, is_true, parse_time
from sandbox.kubernetes.resources import Json

from .model import DEFAULT_CONSOLIDATE_AFTER, DO_NOT_DISRUPT, group_of, seconds, with_conditions


def forbidden(pool: Json) -> bool:
    """Whether a budget of the pool, without a schedule, keeps all of its nodes."""
    budgets = dig(pool, "spec.disruption.budgets", [])
    return any(str(b.get("nodes")) in ("0", "0%") and not b.get("schedule") for b in budgets)


def emptiness(claim: Json, pool: Json, busy: bool, now: float, timestamp: str) -> tuple[Json, float | None]:
    """The claim's status with its condition Consolidatable, and in how many seconds it is to go; None for not at all.

    The time begins when the last pod leaves, or when the node is initialized."""
    was = condition(claim, "Consolidatable") or {}
    if busy:
        return with_conditions(
            claim, timestamp, {"Consolidatable": ("False", "NotEmpty", "pods run on the node")}
        ), None
    after = seconds(dig(pool, "spec.disruption.consolidateAfter", DEFAULT_CONSOLIDATE_AFTER))
    status = with_conditions(claim, timestamp, {"Consolidatable": ("Unknown", "Empty", "waiting for consolidateAfter")})
    if was.get("reason") != "Empty":
        status["lastPodEventTime"] = timestamp
    if after is None:
        return status, None
    return status, max(0.0, parse_time(status["lastPodEventTime"]) + after - now)


def obsolete(claim: Json, node_class: Json | None, now: float) -> str:
    """Why a node goes although pods run on it; empty if it does not."""
    if node_class is not None and group_of(claim) not in dig(node_class, "spec.instanceGroups", []):
        return "its instance group is no longer in the node class"
    limit = seconds(dig(claim, "spec.expireAfter", "Never"))
    if limit is not None and now - parse_time(claim["metadata"]["creationTimestamp"]) > limit:
        return "it has expired"
    return ""


def disruptable(claim: Json, node: Json | None, pods: list[Json]) -> bool:
    marked = [obj for obj in (claim, node, *pods) if obj is not None]
    return is_true(claim, "Initialized") and not any(
        (obj["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) == "true" for obj in marked
    )
