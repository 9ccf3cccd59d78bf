"""What nodes have to give to replicas: whether a replica can ever fit, and how many would fit now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from kubernetes import client
from kubernetes.utils.quantity import parse_quantity

from activities.deployments.manifests import LABEL_TYPE
from activities.instance_types import EFA, NVIDIA
from activities.node_pools.objects import NODE_POOL, Object, list_all
from activities.nodes.pods import live_pods
from activities.nodes.sight import Raw, count, is_ready, labels_of, nodes_of
from activities.nodes.view import use_of
from contracts.words import number_of

WORDS = {NVIDIA: "GPUs", EFA: "EFA interfaces", "cpu": "CPUs"}
REPELS = frozenset({"NoSchedule", "NoExecute"})


class Asked(Protocol):
    """What of a specification says where its replicas may run. (``contracts.deployments.DeploymentSpec``)"""

    @property
    def instance_types(self) -> list[str]: ...

    @property
    def gpu_count(self) -> int: ...

    @property
    def efa(self) -> int: ...


@dataclass
class TypeRoom:
    """The nodes of one instance type that may take a replica."""

    instance_type: str
    nodes: int = 0
    gpus_of_node: int = 0
    """The most that one has."""
    gpus: int = 0
    free: int = 0
    slots: int = 0
    """Replicas that would find their GPUs now."""
    large_enough: bool = False
    """One of its nodes would hold a replica, if nothing else ran there."""

    def words(self) -> str:
        if not self.gpus:
            return f"{number_of(self.nodes, 'node')} without GPUs"
        room = f"room for {number_of(self.slots, 'replica')}"
        return f"{number_of(self.nodes, 'node')}, {self.free} of {self.gpus} GPUs free, {room}"


@dataclass
class Room:
    """All of it."""

    types: dict[str, TypeRoom] = field(default_factory=dict)
    scaled: list[str] = field(default_factory=list)
    """Karpenter's node pools that may make a node for a replica."""
    most: dict[str, str] = field(default_factory=dict)
    """The most that one of the nodes has, of what a replica requests; as Kubernetes writes it."""

    @property
    def slots(self) -> int:
        return sum(each.slots for each in self.types.values())

    @property
    def large_enough(self) -> bool:
        return any(each.large_enough for each in self.types.values())

    def short_of(self, requests: dict[str, str]) -> list[str]:
        """What no node has as much of as a replica requests."""
        return [name for name, amount in requests.items() if _amount(self.most.get(name, "0")) < _amount(amount)]


def in_words(name: str, quantity: str) -> str:
    """An amount of what a replica requests, as people say it."""
    amount = _amount(quantity)
    if name == "memory":
        return f"{amount / 2**30:.4g} GiB of memory"
    return f"{amount.normalize():f} {WORDS.get(name, name)}"


def room_for(api: client.ApiClient, spec: Asked, requests: dict[str, str], freed: list[Raw]) -> Room:
    """What there is for replicas of ``spec`` that request ``requests``. ``freed`` are pods that make room for them."""
    going = {pod["metadata"]["uid"] for pod in freed}
    use = use_of(pod for pod in live_pods(api) if pod["metadata"]["uid"] not in going)
    room = Room(scaled=[each["metadata"]["name"] for each in list_all(api, NODE_POOL) if _may_scale(each, spec)])
    for node in nodes_of(api):
        kind = labels_of(node).get(LABEL_TYPE, "")
        if (spec.instance_types and kind not in spec.instance_types) or _repels(node, spec):
            continue
        gives = (node.get("status") or {}).get("allocatable") or {}
        found = room.types.setdefault(kind, TypeRoom(kind))
        used: Counter[str] = use.devices.get(node["metadata"]["name"], Counter())
        total = count(gives, NVIDIA)
        free = max(total - used[NVIDIA], 0)
        found.nodes += 1
        found.gpus_of_node = max(found.gpus_of_node, total)
        found.gpus += total
        found.free += free
        for name in requests:
            room.most[name] = max(room.most.get(name, "0"), str(gives.get(name, "0")), key=_amount)
        fits = all(_amount(gives.get(name, "0")) >= _amount(amount) for name, amount in requests.items())
        found.large_enough = found.large_enough or fits
        if fits and spec.gpu_count:
            slots = free // spec.gpu_count
            if spec.efa:
                slots = min(slots, max(count(gives, EFA) - used[EFA], 0) // spec.efa)
            found.slots += slots
    return room


def _repels(node: Raw, spec: Asked) -> bool:
    body: Any = node.get("spec") or {}
    taints = [each for each in body.get("taints") or () if each.get("effect") in REPELS]
    tolerated = {NVIDIA} if spec.gpu_count else set()
    return (
        not is_ready(node)
        or bool(body.get("unschedulable"))
        or any(each.get("key") not in tolerated for each in taints)
    )


def _may_scale(pool: Object, spec: Asked) -> bool:
    if not spec.instance_types:
        return True
    requirements = pool.get("spec", {}).get("template", {}).get("spec", {}).get("requirements", [])
    types = [each for each in requirements if each.get("key") == LABEL_TYPE and each.get("operator") == "In"]
    return not types or any(set(each.get("values", ())) & set(spec.instance_types) for each in types)


def _amount(quantity: str) -> Decimal:
    read: Any = parse_quantity
    return Decimal(read(str(quantity)))
