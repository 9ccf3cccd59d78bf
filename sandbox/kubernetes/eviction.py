"""Disruption budgets, and what they let happen: evictions one by one, and the draining of a node.

https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import selectors
from .objects import dig, is_true
from .resources import Json

if TYPE_CHECKING:
    from .cluster import Cluster

_SCALED = {"ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}


def budget_status(cluster: Cluster, budget: Json) -> Json:
    """The counts of a budget's status, as they are now."""
    pods = [p for p in _covered(cluster, budget) if dig(p, "status.phase") not in ("Succeeded", "Failed")]
    standing = [p for p in pods if not p["metadata"].get("deletionTimestamp")]
    healthy = sum(is_true(pod, "Ready") for pod in standing)
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        expected = _expected(cluster, pods)
        desired = max(0, expected - _share(spec["maxUnavailable"], expected))
    else:
        minimum = spec.get("minAvailable", 1)
        expected = _expected(cluster, pods) if isinstance(minimum, str) else len(standing)
        desired = _share(minimum, expected)
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
        "expectedPods": expected,
    }


def forbidding_budget(cluster: Cluster, pod: Json) -> Json | None:
    """The budget that does not let a pod be evicted now. Pods that have ended or not begun are always let go."""
    if dig(pod, "status.phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
        return None
    for budget in cluster.store.objects(cluster.registry.type("poddisruptionbudgets", "policy")).values():
        if budget["metadata"]["namespace"] != pod["metadata"]["namespace"] or not _selects(budget, pod):
            continue
        counts = budget_status(cluster, budget)
        if not is_true(pod, "Ready") and (
            dig(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow"
            or counts["currentHealthy"] >= counts["desiredHealthy"] > 0
        ):
            continue
        if counts["disruptionsAllowed"] <= 0:
            return budget
    return None


def drain(cluster: Cluster, node: str) -> int:
    """Cordon a node and evict from it what may go; how many pods are still there. Pods of DaemonSets stay."""
    pods = cluster.registry.type("pods")
    with cluster.store.lock:
        cordon(cluster, node, True)
        left = 0
        for pod in list(cluster.store.objects(pods).values()):
            if dig(pod, "spec.nodeName") != node or _is_daemon(pod):
                continue
            if dig(pod, "status.phase") in ("Succeeded", "Failed"):
                continue
            if not pod["metadata"].get("deletionTimestamp") and forbidding_budget(cluster, pod) is None:
                cluster.registry.delete(pods, pod)
            left += cluster.store.get(pods, pod["metadata"]["namespace"], pod["metadata"]["name"]) is not None
        return left


def cordon(cluster: Cluster, node: str, unschedulable: bool) -> None:
    """Let no more pods come to a node, or let them again."""

    def mutate(obj: Json) -> None:
        if unschedulable:
            obj["spec"]["unschedulable"] = True
        else:
            obj["spec"].pop("unschedulable", None)

    kind = cluster.registry.type("nodes")
    found = cluster.store.get(kind, None, node)
    if found is not None and bool(dig(found, "spec.unschedulable")) != unschedulable:
        cluster.registry.modify(kind, None, node, mutate)


def _covered(cluster: Cluster, budget: Json) -> list[Json]:
    pods = cluster.store.objects(cluster.registry.type("pods")).values()
    return [p for p in pods if p["metadata"]["namespace"] == budget["metadata"]["namespace"] and _selects(budget, p)]


def _selects(budget: Json, pod: Json) -> bool:
    """An empty selector takes every pod of the namespace, a missing one none."""
    selector = dig(budget, "spec.selector")
    if selector is None:
        return False
    return selectors.matches_labels(selectors.from_label_selector(selector), pod["metadata"].get("labels"))


def _expected(cluster: Cluster, pods: list[Json]) -> int:
    """How many pods there should be: what their owners are scaled to, and those without such an owner."""
    owners: dict[str, int] = {}
    alone = 0
    for pod in pods:
        reference = next((r for r in pod["metadata"].get("ownerReferences") or [] if r.get("controller")), None)
        owner = None
        if reference is not None and reference["kind"] in _SCALED:
            kind = cluster.registry.type(_SCALED[reference["kind"]], "apps")
            owner = cluster.store.get(kind, pod["metadata"]["namespace"], reference["name"])
        if reference is None or owner is None:
            alone += not pod["metadata"].get("deletionTimestamp")
        else:
            owners[reference["uid"]] = dig(owner, "spec.replicas", 1)
    return sum(owners.values()) + alone


def _share(value: Any, total: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return -(-total * int(value[:-1]) // 100)
    return int(value)


def _is_daemon(pod: Json) -> bool:
    return any(r["kind"] == "DaemonSet" and r.get("controller") for r in pod["metadata"].get("ownerReferences") or [])
