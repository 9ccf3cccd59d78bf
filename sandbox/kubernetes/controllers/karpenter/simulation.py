"""Which nodes pending pods need: those that are there, those that are coming, and new ones as node pools allow them.

https://karpenter.sh/docs/concepts/scheduling/
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from sandbox.cloud import InstanceGroup
from sandbox.dataplane import NodeFacts
from sandbox.kubernetes.controllers import placement
from sandbox.kubernetes.controllers.nodes import DEVICE_PLUGINS
from sandbox.kubernetes.controllers.scheduler import Candidate, Scheduler
from sandbox.kubernetes.nodeobjects import node_object
from sandbox.kubernetes.objects import condition, dig
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json

from .model import CAPACITY_TYPE, CAPACITY_TYPES, INSTANCE_GROUP, INSTANCE_TYPE, NODE_POOL, ZONE

SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


@dataclass
class Wish:
    """A node that is to be made for a node pool."""

    name: str
    pool: Json
    node: Json
    group: str
    instance_type: str
    zone: str
    requests: placement.Resources = field(default_factory=dict)
    """What the pods ask for that it is made for."""


@dataclass
class Simulation:
    """Pods are placed one after the other; what each takes is gone for the next."""

    version: str
    daemon_sets: list[Json]
    candidates: dict[str, Candidate] = field(default_factory=dict)
    nominated: set[str] = field(default_factory=set)
    """Nodes, and claims that have none yet, which pending pods will go to."""
    wishes: list[Wish] = field(default_factory=list)
    _hopeless: dict[str, set[str]] = field(default_factory=dict)
    """Form of a pod -> candidates that it does not fit. Candidates only fill up, so it will not fit later."""

    def add_node(self, node: Json, pods: list[Json]) -> None:
        candidate = Candidate(node["metadata"]["name"], node, placement.allocatable(node))
        for pod in pods:
            candidate.take(pod)
        self.candidates[candidate.name] = candidate

    def add_virtual(self, name: str, node: Json) -> None:
        """A node that has not joined, without what DaemonSets will take of it."""
        candidate = Candidate(name, node, placement.allocatable(node))
        for daemon_set in self.daemon_sets:
            pod = {"metadata": {"namespace": "", "name": ""}, "spec": daemon_set["spec"]["template"]["spec"]}
            tolerated = placement.untolerated(pod["spec"], node) is None
            if tolerated and placement.affinity_matches(pod["spec"], node):
                candidate.take(pod)
        self.candidates[name] = candidate

    def place(self, pod: Json, pools: Iterable[tuple[Json, list[tuple[InstanceGroup, NodeFacts]]]]) -> str:
        """Find a node for a pod, or wish for one; why there is none, or nothing."""
        wanted = placement.requests(pod["spec"])
        hopeless = self._hopeless.setdefault(_form(pod), set())
        for name, candidate in self.candidates.items():
            if name in hopeless:
                continue
            if not Scheduler.against(pod, candidate, self.candidates, wanted):
                self._take(name, pod, wanted)
                return ""
            hopeless.add(name)
        reason = "no node pool has a type that fits"
        for pool, shapes in pools:
            for group, shape in shapes:
                node = virtual_node(pool, group, shape, self.version)
                if not allowed(pool, node):
                    continue
                name = f"{pool['metadata']['name']}-{''.join(random.choices(SUFFIX, k=5))}"
                self.add_virtual(name, node)
                if Scheduler.against(pod, self.candidates[name], self.candidates, wanted):
                    del self.candidates[name]
                    continue
                if exceeded := self._exceeded(pool, node):
                    del self.candidates[name]
                    reason = f"node pool {pool['metadata']['name']} is at its limit of {exceeded}"
                    continue
                self.wishes.append(Wish(name, pool, node, group.name, shape.instance_type, shape.zone))
                self._take(name, pod, wanted)
                return ""
        return reason

    def _take(self, name: str, pod: Json, wanted: placement.Resources) -> None:
        self.candidates[name].take(pod)
        self.nominated.add(name)
        for wish in self.wishes:
            if wish.name == name:
                for resource, amount in wanted.items():
                    wish.requests[resource] = wish.requests.get(resource, Decimal(0)) + amount

    def _exceeded(self, pool: Json, node: Json) -> str:
        """The limit of the pool that another such node would break."""
        used: dict[str, Decimal] = {}
        planned = [w.node for w in self.wishes if w.pool is pool]
        capacities = [dig(pool, "status.resources", {}), *({**n["status"]["capacity"], "nodes": "1"} for n in planned)]
        for capacity in (*capacities, {**node["status"]["capacity"], "nodes": "1"}):
            for name, amount in capacity.items():
                used[name] = used.get(name, Decimal(0)) + parse_quantity(str(amount))
        limits = dig(pool, "spec.limits", {})
        return next((n for n, limit in limits.items() if used.get(n, Decimal(0)) > parse_quantity(str(limit))), "")


def _form(pod: Json) -> str:
    """What decides where a pod fits. A pod that wants to be near others is of a form of its own."""
    spec = pod["spec"]
    if dig(spec, "affinity.podAffinity") or dig(spec, "affinity.podAntiAffinity"):
        return str(pod["metadata"].get("uid", ""))
    resources = [c.get("resources") for c in (*spec.get("containers", []), *spec.get("initContainers", []))]
    return json.dumps([spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"), resources])


def virtual_node(pool: Json, group: InstanceGroup, shape: NodeFacts, version: str) -> Json:
    """A node of a group and type as it will be once Karpenter has registered it and its device plugins run."""
    node = node_object(shape, version)
    template = dig(pool, "spec.template", {})
    node["metadata"]["labels"].update(
        {
            **dig(template, "metadata.labels", {}),
            NODE_POOL: pool["metadata"]["name"],
            CAPACITY_TYPE: CAPACITY_TYPES.get(group.capacity, "on-demand"),
            INSTANCE_GROUP: group.name,
            INSTANCE_TYPE: shape.instance_type,
            ZONE: shape.zone,
        }
    )
    if taints := [*node["spec"].get("taints", []), *dig(template, "spec.taints", [])]:
        node["spec"]["taints"] = taints
    for resource, fact in DEVICE_PLUGINS.values():
        if count := getattr(shape, fact):
            node["status"]["capacity"][resource] = node["status"]["allocatable"][resource] = str(count)
    return node


def allowed(pool: Json, node: Json) -> bool:
    """Whether the pool's requirements accept a node."""
    expressions = [
        {"key": r["key"], "operator": r["operator"], "values": r.get("values") or []}
        for r in dig(pool, "spec.template.spec.requirements", [])
    ]
    if not expressions:
        return True
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return placement.affinity_matches({"affinity": affinity}, node)


def provisionable(pod: Json) -> bool:
    """Whether a pod waits for a node, and for nothing else."""
    if dig(pod, "spec.nodeName") or pod["metadata"].get("deletionTimestamp"):
        return False
    scheduled = condition(pod, "PodScheduled") or {}
    waits_for_volume = "persistentvolumeclaim" in scheduled.get("message", "").lower()
    return scheduled.get("reason") == "Unschedulable" and not waits_for_volume
