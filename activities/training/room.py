"""Whether the nodes of a cluster have room for a run: now, when others have ended, or never."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kubernetes import client
from kubernetes.utils.quantity import parse_quantity

from activities.deployments.capacity import REPELS
from activities.instance_types import EFA, NVIDIA
from activities.node_pools.objects import NODE_POOL, Object, list_all
from activities.nodes.pods import live_pods
from activities.nodes.sight import Raw, count, is_ready, labels_of, nodes_of
from activities.nodes.view import use_of
from activities.training.manifests import LABEL_HEALTH, LABEL_TYPE, UNHEALTHY
from contracts.training import TrainingSpec


@dataclass
class Room:
    """The nodes of a run's instance type."""

    nodes: int = 0
    """That are Ready and take pods."""
    large_enough: int = 0
    """That would hold a pod of the run, if nothing else ran there."""
    free: int = 0
    """That hold one now."""
    most: dict[str, str] = field(default_factory=dict)
    """The most that one has, of what a pod requests; as Kubernetes writes it."""
    scaled: list[str] = field(default_factory=list)
    """Karpenter's node pools that may make such nodes."""

    def short_of(self, requests: dict[str, str]) -> list[str]:
        """What no node has as much of as a pod requests."""
        return [name for name, amount in requests.items() if amount_of(self.most.get(name, "0")) < amount_of(amount)]


def room_for(api: client.ApiClient, spec: TrainingSpec, requests: dict[str, str]) -> Room:
    """What there is for a run whose pods request ``requests``."""
    room = Room(scaled=[each["metadata"]["name"] for each in list_all(api, NODE_POOL) if _makes(each, spec)])
    # Only devices are counted; hundreds of pods need not be read for a run that asks for none.
    use = use_of(live_pods(api) if {NVIDIA, EFA} & requests.keys() else [])
    for node in nodes_of(api):
        if labels_of(node).get(LABEL_TYPE) != spec.instance_type or _repels(node):
            continue
        room.nodes += 1
        gives = (node.get("status") or {}).get("allocatable") or {}
        for name in requests:
            room.most[name] = max(room.most.get(name, "0"), str(gives.get(name, "0")), key=amount_of)
        if any(amount_of(str(gives.get(name, "0"))) < amount_of(amount) for name, amount in requests.items()):
            continue
        room.large_enough += 1
        used: Counter[str] = use.devices.get(node["metadata"]["name"], Counter())
        room.free += all(
            count(gives, name) - used[name] >= int(requests[name]) for name in (NVIDIA, EFA) if name in requests
        )
    return room


def amount_of(quantity: str) -> Decimal:
    read: Any = parse_quantity
    return Decimal(read(str(quantity)))


def _repels(node: Raw) -> bool:
    body: Any = node.get("spec") or {}
    taints = [each for each in body.get("taints") or () if each.get("effect") in REPELS]
    return (
        not is_ready(node)
        or bool(body.get("unschedulable"))
        or labels_of(node).get(LABEL_HEALTH) in UNHEALTHY
        or any(each.get("key") != NVIDIA for each in taints)
    )


def _makes(pool: Object, spec: TrainingSpec) -> bool:
    """Whether a node pool may make nodes of the type: it names its types, or takes any."""
    requirements = pool.get("spec", {}).get("template", {}).get("spec", {}).get("requirements", [])
    types = [each for each in requirements if each.get("key") == LABEL_TYPE and each.get("operator") == "In"]
    return not types or any(spec.instance_type in each.get("values", ()) for each in types)
