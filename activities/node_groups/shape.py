"""A node group in EKS's words: what is sent, and how what exists is compared with what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from activities.node_groups.observe import CAPACITY, LABEL_EFA
from contracts.node_groups import EnsureNodeGroup, NodeGroupScaling, NodeGroupSpec

if TYPE_CHECKING:
    from mypy_boto3_eks.type_defs import NodegroupTypeDef

UNBORN = ("CREATING", "CREATE_FAILED")
"""Statuses of a group that has not worked yet."""
EFFECTS = {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}
CAPACITY_TYPES = {name: code for code, name in CAPACITY.items()}


def scaling_config(wanted: NodeGroupScaling, found: NodegroupTypeDef | None) -> Any:
    """``minSize``, ``maxSize`` and ``desiredSize``: what is not asked for stays, moved as far as it must."""
    now: Any = found.get("scalingConfig", {}) if found else {}
    low = wanted.minimum if wanted.minimum is not None else min(now.get("minSize", 0), wanted.desired)
    high = wanted.maximum if wanted.maximum is not None else max(now.get("maxSize", 0), wanted.desired, 1)
    return {"minSize": low, "maxSize": high, "desiredSize": wanted.desired}


def taints_of(spec: NodeGroupSpec) -> list[Any]:
    """The taints of the group's nodes."""
    return [
        {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": EFFECTS[taint.effect]}
        for taint in spec.taints
    ]


def difference(request: EnsureNodeGroup, found: NodegroupTypeDef) -> str:
    """What of a node group cannot be changed, or is not ours to change here, and differs; in words."""
    spec, template = request.spec, found.get("launchTemplate", {})
    asked = {
        "capacity": spec.capacity,
        "role": request.role_arn,
        "subnets": sorted(request.subnet_ids),
        "launch template": f"{request.launch_template.launch_template_id} version {request.launch_template.version}",
        **describable(spec),
    }
    exists = {
        "capacity": CAPACITY.get(found.get("capacityType", ""), ""),
        "role": found.get("nodeRole"),
        "subnets": sorted(found.get("subnets", [])),
        "launch template": f"{template.get('id')} version {template.get('version')}",
        **described(found),
    }
    if not spec.subnet_ids and found["status"] not in UNBORN:
        # Its nodes take addresses, so that others may be found for it now.
        del asked["subnets"], exists["subnets"]
    if spec.capacity == "capacity-block":
        # The type stands in the launch template.
        del asked["instance types"], exists["instance types"]
    return "; ".join(f"{key} is {exists[key]}, asked was {asked[key]}" for key in asked if asked[key] != exists[key])


def labels_of(spec: NodeGroupSpec) -> dict[str, str]:
    """The labels of the group's nodes."""
    return {**spec.labels, **({LABEL_EFA: "true"} if spec.efa else {})}


def describable(spec: NodeGroupSpec) -> dict[str, Any]:
    """What a specification says of a group by itself, in the form of :func:`described`."""
    return {
        "instance types": list(spec.instance_types),
        "labels": labels_of(spec),
        "taints": sorted(f"{taint.key}={taint.value}:{taint.effect}" for taint in spec.taints),
    }


def described(found: NodegroupTypeDef) -> dict[str, Any]:
    effects = {code: name for name, code in EFFECTS.items()}
    return {
        "instance types": list(found.get("instanceTypes", [])),
        "labels": dict(found.get("labels", {})),
        "taints": sorted(
            f"{taint.get('key')}={taint.get('value', '')}:{effects.get(taint.get('effect', ''), '')}"
            for taint in found.get("taints", [])
        ),
    }
