"""What node classes and node pools say of themselves."""

from __future__ import annotations

from decimal import Decimal

from sandbox.cloud import InstanceGroup
from sandbox.kubernetes.objects import dig, is_true
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json

from .definitions import NODE_CLASS_GROUP
from .model import summary, with_conditions

Condition = tuple[str, str, str]


def class_status(node_class: Json, groups: dict[str, InstanceGroup], now: str) -> Json:
    """Conditions InstanceGroupReady, SubnetsReady and Ready, and the groups as they are; reasons of what is not ready
    are UNVERIFIED."""
    names: list[str] = dig(node_class, "spec.instanceGroups", [])
    found = [groups[name] for name in names if name in groups]
    conditions = {"InstanceGroupReady": _groups(names, groups), "SubnetsReady": _subnets(found)}
    status = with_conditions(node_class, now, {**conditions, "Ready": summary(conditions)})
    status["instanceGroups"] = [
        {
            "name": group.name,
            "instanceTypes": list(group.instance_types),
            "subnets": [{"id": subnet, "zone": zone, "zoneId": zone_id} for subnet, zone, zone_id in group.subnets],
            "capacities": {group.capacity: {}},
            **({"desiredLabels": group.labels} if group.labels else {}),
        }
        for group in found
    ]
    return status


def _groups(names: list[str], groups: dict[str, InstanceGroup]) -> Condition:
    if missing := [name for name in names if name not in groups]:
        return "False", "InstanceGroupNotFound", f"instance groups not found: {', '.join(missing)}"
    if unsupported := [name for name in names if groups[name].unsupported]:
        why = groups[unsupported[0]].unsupported
        return "False", "InstanceGroupNotSupported", f"instance group {unsupported[0]} is not supported: {why}"
    return "True", "InstanceGroupReady", ""


def _subnets(groups: list[InstanceGroup]) -> Condition:
    if without := [group.name for group in groups if not group.subnets]:
        return "False", "SubnetsNotFound", f"subnets of instance group {without[0]} not found"
    return "True", "SubnetsReady", ""


def pool_status(pool: Json, node_class: Json | None, claims: list[Json], now: str) -> Json:
    """Conditions ValidationSucceeded, NodeClassReady and Ready, and what the pool's claims have together."""
    reference = dig(pool, "spec.template.spec.nodeClassRef", {})
    if reference.get("group") != NODE_CLASS_GROUP or node_class is None:
        ready: Condition = ("False", "NodeClassNotFound", "NodeClass not found on cluster")
    elif is_true(node_class, "Ready"):
        ready = ("True", "NodeClassReady", "")
    else:
        ready = ("False", "NodeClassNotReady", "NodeClass is not ready")
    conditions = {"ValidationSucceeded": ("True", "ValidationSucceeded", ""), "NodeClassReady": ready}
    status = with_conditions(pool, now, {**conditions, "Ready": summary(conditions)})
    totals: dict[str, Decimal] = {}
    for claim in claims:
        for name, amount in dig(claim, "status.capacity", {}).items():
            totals[name] = totals.get(name, Decimal(0)) + parse_quantity(str(amount))
    status["resources"] = {
        "nodes": str(len(claims)),
        **{n: format(total.normalize(), "f") for n, total in totals.items()},
    }
    return status
