"""Names and small questions that the parts of Karpenter share."""

from __future__ import annotations

import re

from sandbox.kubernetes.controllers.base import is_active
from sandbox.kubernetes.objects import clone, dig, set_condition
from sandbox.kubernetes.resources import Json

NODE_POOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
TERMINATION = "karpenter.sh/termination"
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
LOGICAL_ID = "sandbox/hyperpod-node-logical-id"
INSTANCE_GROUP = "sagemaker.amazonaws.com/instance-group-name"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPES = {"OnDemand": "on-demand", "Spot": "spot"}
DEFAULT_CONSOLIDATE_AFTER = "0s"


def seconds(duration: str) -> float | None:
    """``1h30m`` in seconds; None for ``Never``."""
    if duration == "Never":
        return None
    unit = {"h": 3600, "m": 60, "s": 1}
    return float(sum(int(number) * unit[letter] for number, letter in re.findall(r"(\d+)([hms])", duration)))


def pool_of(claim: Json) -> str:
    return str((claim["metadata"].get("labels") or {}).get(NODE_POOL, ""))


def group_of(claim: Json) -> str:
    return str((claim["metadata"].get("labels") or {}).get(INSTANCE_GROUP, ""))


def logical_id(claim: Json) -> str:
    return str((claim["metadata"].get("annotations") or {}).get(LOGICAL_ID, ""))


def is_workload(pod: Json) -> bool:
    """Whether a pod keeps its node from being empty: not one of a DaemonSet or the kubelet's own, and not finished."""
    owners = {r["kind"] for r in pod["metadata"].get("ownerReferences") or [] if r.get("controller")}
    return is_active(pod) and not owners & {"DaemonSet", "Node"}


def class_name(pool: Json) -> str:
    return str(dig(pool, "spec.template.spec.nodeClassRef.name", ""))


def with_conditions(obj: Json, now: str, conditions: dict[str, tuple[str, str, str]]) -> Json:
    """A copy of the status with these conditions: type -> (status, reason, message)."""
    status: Json = clone(obj.get("status") or {})
    generation = obj["metadata"].get("generation", 1)
    for kind, (value, reason, message) in conditions.items():
        set_condition(status, kind, value, reason, message, now, observedGeneration=generation)
    return status


def summary(conditions: dict[str, tuple[str, str, str]]) -> tuple[str, str, str]:
    """The condition Ready over others: false with the first that is not true."""
    for kind, (value, _, message) in conditions.items():
        if value != "True":
            return value, "UnhealthyDependents", f"{kind}={value}" + (f", {message}" if message else "")
    return "True", "Ready", ""
