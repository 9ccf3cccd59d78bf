"""Whether a pod fits on a node: selectors, affinity, taints, resources.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and .../taint-and-toleration/
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from sandbox.kubernetes.objects import dig, is_true
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json

Resources = dict[str, Decimal]


def _expression_matches(expression: Json, values: Json) -> bool:
    value, operands = values.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in operands
        case "NotIn":
            return value not in operands
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            try:
                return (
                    int(value or "") > int(operands[0])
                    if expression["operator"] == "Gt"
                    else int(value or "") < int(operands[0])
                )
            except (TypeError, ValueError, IndexError):
                return False
    return False


def affinity_matches(spec: Json, node: Json) -> bool:
    """nodeSelector and the required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = dig(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_expression_matches(e, labels) for e in term.get("matchExpressions") or [])
        and all(_expression_matches(e, fields) for e in term.get("matchFields") or [])
        for term in required.get("nodeSelectorTerms") or []
    )


def tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    return any(
        (not t.get("effect") or t["effect"] == taint["effect"])
        and (
            (not t.get("key") and t.get("operator") == "Exists")
            or (
                t.get("key") == taint["key"]
                and (t.get("operator") == "Exists" or t.get("value", "") == (taint.get("value") or ""))
            )
        )
        for t in tolerations
    )


def untolerated(spec: Json, node: Json) -> Json | None:
    """The first taint that keeps the pod away."""
    for taint in dig(node, "spec.taints", []):
        if taint["effect"] != "PreferNoSchedule" and not tolerates(spec.get("tolerations") or [], taint):
            return dict(taint)
    return None


def requests(spec: Json) -> Resources:
    """What a pod asks for: the sum of its containers or its largest init container."""
    total: Resources = {"pods": Decimal(1)}
    for container in spec.get("containers") or []:
        for name, value in dig(container, "resources.requests", {}).items():
            total[name] = total.get(name, Decimal(0)) + parse_quantity(value)
    for container in spec.get("initContainers") or []:
        for name, value in dig(container, "resources.requests", {}).items():
            total[name] = max(total.get(name, Decimal(0)), parse_quantity(value))
    return total


def allocatable(node: Json) -> Resources:
    return {name: parse_quantity(value) for name, value in dig(node, "status.allocatable", {}).items()}


def insufficient(wanted: Resources, free: Resources) -> list[str]:
    return [name for name, amount in wanted.items() if amount > free.get(name, Decimal(0))]


def differs(old: Json, new: Json) -> bool:
    """Whether a node changed in a way that matters to placement."""
    return (
        old["metadata"].get("labels") != new["metadata"].get("labels")
        or old.get("spec") != new.get("spec")
        or dig(old, "status.allocatable") != dig(new, "status.allocatable")
        or is_true(old, "Ready") != is_true(new, "Ready")
    )
