"""The controller: one pass looks at everything, and what it writes brings the next.

Managed Karpenter runs in AWS: what is in the cluster are its definitions and objects. They come when autoscaling is in
service and go, once nothing uses them, when it is turned off.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.cloud import Cloud, CloudError, InstanceGroup, Machine
from sandbox.dataplane import NodeFacts
from sandbox.kubernetes.controllers import placement
from sandbox.kubernetes.controllers.base import NODES, PODS, Controller, Key, is_deleted
from sandbox.kubernetes.controllers.definitions import DEFINITIONS
from sandbox.kubernetes.objects import condition, dig, is_true
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change, StorageKey

from . import disruption
from .claims import Claims
from .definitions import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, definitions
from .model import NODE_POOL, class_name, is_workload, logical_id, pool_of
from .readiness import class_status, pool_status
from .simulation import Simulation, provisionable

TICK_SECONDS, IDLE_TICK_SECONDS = 15.0, 30.0
STRAY_SECONDS = 60.0
"""How long a node that others started in one of Karpenter's groups is empty before it goes. UNVERIFIED."""
PASS: Key = ("pass",)
TICK: Key = ("tick",)


@dataclass
class Snapshot:
    """What there is at the beginning of a pass."""

    classes: dict[str, Json]
    pools: dict[str, Json]
    claims: list[Json]
    nodes: dict[str, Json]
    pods: dict[str, list[Json]]
    """Workloads by their node's name."""
    waiting: list[Json]
    groups: dict[str, InstanceGroup]
    machines: dict[str, Machine]


class Karpenter(Controller):
    name = "karpenter"
    watches = (("", "namespaces"), PODS, NODES, NODE_CLASSES, NODE_POOLS, NODE_CLAIMS)
    calls_cloud = True
    SOON = 5.0

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._autoscaling = ""
        self._next_tick = self._next_pass = 0.0
        self._empty_since: dict[str, float] = {}

    def keys(self, change: Change) -> Iterable[Key]:
        if self.cluster.cloud is None or self.cluster.facts is None:
            return
        if change.storage_key == ("", "namespaces"):
            if change.type != DELETED and change.new["metadata"]["name"] == "kube-system":
                yield TICK
        elif self._autoscaling and _matters(change):
            yield PASS

    def again(self, seconds: float) -> None:
        """Another pass in so many seconds, unless one is due before."""
        now = self.registry.now()
        if not now < self._next_pass <= now + seconds:
            self._next_pass = now + seconds
            self.later(seconds, PASS)

    def reconcile(self, key: Key) -> None:
        cloud, facts = self.cluster.cloud, self.cluster.facts
        if cloud is None or facts is None:
            return
        if key == TICK:
            now = self.registry.now()
            if now < self._next_tick:
                return
            seconds = TICK_SECONDS if self._autoscaling else IDLE_TICK_SECONDS
            self._next_tick = now + seconds
            self.later(seconds, TICK)
            self._autoscaling = cloud.autoscaling(facts.arn)
            self._install(self._autoscaling == "InService")
        if self._autoscaling in ("InService", "Deleting") and self._served():
            self._pass(cloud, facts.arn)

    # Definitions

    def _served(self) -> bool:
        return self.store.type(*NODE_CLAIMS[:1], "v1", NODE_CLAIMS[1]) is not None

    def _install(self, wanted: bool) -> None:
        kind = self.kind(DEFINITIONS[1], DEFINITIONS[0])
        with self.store.lock:
            for definition in definitions():
                held = self.store.get(kind, None, definition["metadata"]["name"])
                if wanted and held is None:
                    self.registry.create(kind, None, definition)
                elif not wanted and held is not None and not is_deleted(held) and not self._in_use():
                    self.registry.delete(kind, held)

    def _in_use(self) -> bool:
        return any(self._objects(storage_key) for storage_key in (NODE_CLASSES, NODE_POOLS, NODE_CLAIMS))

    def _objects(self, storage_key: StorageKey) -> list[Json]:
        kind = self.store.type(storage_key[0], "v1", storage_key[1])
        return list(self.store.objects(kind).values()) if kind is not None else []

    # A pass

    def _pass(self, cloud: Cloud, arn: str) -> None:
        claims = Claims(self, cloud, arn)
        now = self._look(cloud, arn)
        self._report(now)
        for claim in now.claims:
            claims.advance(claim, now.machines)
        now = self._look(cloud, arn)
        simulation = self._simulate(now)
        if self._autoscaling == "InService":
            for wish in simulation.wishes:
                claims.create(wish)
        self._disrupt(claims, now, simulation)
        self._clear_groups(cloud, arn, now)

    def _look(self, cloud: Cloud, arn: str) -> Snapshot:
        groups, machines = cloud.instance_groups(arn), cloud.machines(arn)
        with self.store.lock:
            pods = list(self.store.objects(self.kind("pods")).values())
            found = Snapshot(
                {c["metadata"]["name"]: c for c in self._objects(NODE_CLASSES)},
                {p["metadata"]["name"]: p for p in self._objects(NODE_POOLS)},
                self._objects(NODE_CLAIMS),
                {n["metadata"]["name"]: n for n in self.store.objects(self.kind("nodes")).values()},
                {},
                [pod for pod in pods if provisionable(pod)],
                groups,
                machines,
            )
        for pod in pods:
            if (node := dig(pod, "spec.nodeName")) and dig(pod, "status.phase") not in ("Succeeded", "Failed"):
                found.pods.setdefault(node, []).append(pod)
        return found

    def _report(self, now: Snapshot) -> None:
        """Write the statuses of classes and pools, and keep them in the snapshot."""
        timestamp = self.registry.timestamp()
        for name, node_class in now.classes.items():
            now.classes[name] = {**node_class, "status": class_status(node_class, now.groups, timestamp)}
            self.status(self.kind(NODE_CLASSES[1], NODE_CLASSES[0]), node_class, now.classes[name]["status"])
        for name, pool in now.pools.items():
            own = [claim for claim in now.claims if pool_of(claim) == name]
            now.pools[name] = {
                **pool,
                "status": pool_status(pool, now.classes.get(class_name(pool)), own, timestamp),
            }
            self.status(self.kind(NODE_POOLS[1], NODE_POOLS[0]), pool, now.pools[name]["status"])

    def _simulate(self, now: Snapshot) -> Simulation:
        """Place the pods that wait, on paper."""
        daemon_sets = list(self.store.objects(self.kind("daemonsets", "apps")).values())
        simulation = Simulation(self.cluster.git_version, daemon_sets)
        pools = [
            (pool, self._shapes(pool, now))
            for pool in sorted(now.pools.values(), key=lambda p: (-dig(p, "spec.weight", 0), p["metadata"]["name"]))
            if is_true(pool, "Ready") and not is_deleted(pool)
        ]
        joined = set()
        for claim in now.claims:
            pool = now.pools.get(pool_of(claim))
            if is_deleted(claim) or is_true(claim, "Initialized") or pool is None:
                continue
            if node := self._expected(claim, pool, now):
                joined.add(dig(claim, "status.nodeName"))
                simulation.add_virtual(claim["metadata"]["name"], node)
        for name, held in now.nodes.items():
            if name not in joined and is_true(held, "Ready"):
                simulation.add_node(held, now.pods.get(name, []))
        for pod in sorted(
            now.waiting, key=lambda p: (-p["spec"].get("priority", 0), p["metadata"]["creationTimestamp"])
        ):
            if problem := simulation.place(pod, pools):
                text = f"Failed to schedule pod, {problem}"
                self.registry.event(pod, "FailedScheduling", text, True, "karpenter")
        return simulation

    def _shapes(self, pool: Json, now: Snapshot) -> list[tuple[InstanceGroup, NodeFacts]]:
        """The nodes that a pool's class offers, smallest first."""
        names = dig(now.classes.get(class_name(pool)), "spec.instanceGroups", [])
        offered = [(now.groups[n], shape) for n in names if n in now.groups for shape in now.groups[n].shapes]
        return sorted(offered, key=lambda o: (o[1].gpus, o[1].neuron_devices, o[1].vcpus, o[1].memory_mib))

    def _expected(self, claim: Json, pool: Json, now: Snapshot) -> Json | None:
        """The node that a claim will have."""
        labels = claim["metadata"]["labels"]
        held = now.nodes.get(dig(claim, "status.nodeName", ""), {"metadata": {"labels": {}}})
        status = dig(claim, "status", {})
        if not status.get("allocatable"):
            return None
        group = now.groups.get(labels.get("sagemaker.amazonaws.com/instance-group-name", ""))
        taints = [
            *(
                {"key": k, "value": v, "effect": e}
                for k, v, e in (group.shapes[0].taints if group and group.shapes else ())
            ),
            *dig(pool, "spec.template.spec.taints", []),
        ]
        merged = {
            **(group.shapes[0].labels if group and group.shapes else {}),
            **held["metadata"].get("labels", {}),
            **labels,
        }
        return {
            "metadata": {"name": claim["metadata"]["name"], "labels": merged},
            "spec": {"taints": taints} if taints else {},
            "status": {"capacity": status["capacity"], "allocatable": status["allocatable"]},
        }

    def _disrupt(self, claims: Claims, now: Snapshot, simulation: Simulation) -> None:
        clock, timestamp = self.registry.now(), self.registry.timestamp()
        for claim in now.claims:
            pool, name = now.pools.get(pool_of(claim)), dig(claim, "status.nodeName", "")
            pods = now.pods.get(name, [])
            if is_deleted(claim) or pool is None or not disruption.disruptable(claim, now.nodes.get(name), pods):
                continue
            if disruption.forbidden(pool):
                continue
            if why := disruption.obsolete(claim, now.classes.get(class_name(pool)), clock):
                claims.delete(claim, why)
                continue
            busy = name in simulation.nominated or any(is_workload(pod) for pod in pods)
            status, left = disruption.emptiness(claim, pool, busy, clock, timestamp)
            if left == 0:
                claims.delete(claim, "it is empty")
                continue
            self.status(claims.kind, claim, status)
            if left is not None:
                self.again(left)

    def _clear_groups(self, cloud: Cloud, arn: str, now: Snapshot) -> None:
        """Scale down what others started in the groups of a class that is ready."""
        owned = {logical_id(claim) for claim in now.claims}
        ours = {
            name
            for node_class in now.classes.values()
            if is_true(node_class, "Ready")
            for name in dig(node_class, "spec.instanceGroups", [])
        }
        strays = {
            m.node: m
            for m in now.machines.values()
            if m.group in ours and m.status == "Running" and m.node and m.logical_id not in owned
        }
        clock = self.registry.now()
        empty = {n for n in strays if n in now.nodes and not any(is_workload(p) for p in now.pods.get(n, []))}
        self._empty_since = {n: self._empty_since.get(n, clock) for n in empty}
        for name, since in self._empty_since.items():
            if NODE_POOL not in now.nodes[name]["metadata"].get("labels", {}) and clock - since >= STRAY_SECONDS:
                try:
                    cloud.remove_machine(arn, strays[name].logical_id)
                except CloudError:
                    self.again(TICK_SECONDS)


def _matters(change: Change) -> bool:
    """Whether a pod came to wait for a node or left one, or anything else is no longer as it was."""
    if change.type == DELETED or change.old is None or change.storage_key not in (PODS, NODES):
        return True
    if change.storage_key == NODES:
        return placement.differs(change.old, change.new)
    old, new = change.old, change.new
    return (
        dig(old, "spec.nodeName") != dig(new, "spec.nodeName")
        or dig(old, "status.phase") != dig(new, "status.phase")
        or (condition(old, "PodScheduled") or {}).get("reason") != (condition(new, "PodScheduled") or {}).get("reason")
    )
