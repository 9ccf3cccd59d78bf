"""Whether a cluster has room for the pod of a download: on a node that is there, or by a node pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kubernetes import client
from kubernetes.utils.quantity import parse_quantity

from activities.models.job import ACCELERATORS, LABEL_TYPE
from activities.node_pools.objects import NODE_POOL, list_all
from activities.nodes.sight import Raw, is_ready, labels_of, nodes_of
from contracts.models import DownloadSpec

GIB = 2**30
_REPELS = frozenset({"NoSchedule", "NoExecute"})


@dataclass
class Room:
    """What the nodes that may take the pod could give at most; pods that are there now are left out."""

    nodes: int = 0
    """That are Ready and repel no such pod."""
    fitting: int = 0
    of_types: int = 0
    """Of the types that are asked for."""
    types: list[str] = field(default_factory=list)
    most_cpu: float = 0.0
    most_memory: float = 0.0
    """GiB."""
    most_disk: float = 0.0
    """GiB of ephemeral storage, of a node that fits."""
    autoscaled: bool = False
    """A node pool may make a node that fits."""


def room_for(api: client.ApiClient, spec: DownloadSpec) -> Room:
    """What there is for the pod that ``spec`` asks for."""
    room = Room(autoscaled=any(_makes(pool, spec) for pool in list_all(api, NODE_POOL)))
    types = set()
    for node in nodes_of(api):
        if not is_ready(node) or _repels(node):
            continue
        room.nodes += 1
        kind = labels_of(node).get(LABEL_TYPE, "")
        types.add(kind)
        if spec.instance_types and kind not in spec.instance_types:
            continue
        room.of_types += 1
        gives = (node.get("status") or {}).get("allocatable") or {}
        cpu, memory = float(_quantity(gives, "cpu")), float(_quantity(gives, "memory")) / GIB
        room.most_cpu, room.most_memory = max(room.most_cpu, cpu), max(room.most_memory, round(memory, 1))
        if cpu >= spec.cpu and memory >= spec.memory_gib:
            room.fitting += 1
            disk = round(float(_quantity(gives, "ephemeral-storage")) / GIB, 1)
            room.most_disk = max(room.most_disk, disk)
    room.types = sorted(filter(None, types))
    return room


def _makes(pool: Raw, spec: DownloadSpec) -> bool:
    """Whether a node pool may make nodes of the types that are asked for: it names its types, or takes any."""
    template = (pool.get("spec") or {}).get("template") or {}
    for each in (template.get("spec") or {}).get("requirements") or ():
        if each.get("key") == LABEL_TYPE and each.get("operator") == "In" and spec.instance_types:
            return bool(set(each.get("values") or ()) & set(spec.instance_types))
    return True


def _repels(node: Raw) -> bool:
    spec = node.get("spec") or {}
    taints = [each for each in spec.get("taints") or () if each.get("effect") in _REPELS]
    return bool(spec.get("unschedulable")) or any(each.get("key") not in ACCELERATORS for each in taints)


def _quantity(resources: Raw, name: str) -> Decimal:
    parse: Any = parse_quantity
    return Decimal(parse(str(resources.get(name, "0"))))
