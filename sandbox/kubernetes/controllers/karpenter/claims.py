"""Node claims from the wish to the end: launched, registered, initialized, drained, gone.

https://karpenter.sh/docs/concepts/nodeclaims/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.cloud import Cloud, CloudError, Machine
from sandbox.kubernetes import eviction
from sandbox.kubernetes.controllers import placement
from sandbox.kubernetes.controllers.base import is_deleted
from sandbox.kubernetes.objects import Mutator, clone, dig, is_true, owner_reference, parse_time
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json

from .definitions import NODE_CLAIMS
from .model import (
    CAPACITY_TYPE,
    DISRUPTED,
    INSTANCE_GROUP,
    INSTANCE_TYPE,
    LOGICAL_ID,
    NODE_POOL,
    TERMINATION,
    ZONE,
    group_of,
    logical_id,
    with_conditions,
)
from .simulation import Wish

if TYPE_CHECKING:
    from .controller import Karpenter

REGISTRATION_SECONDS = 900.0
"""A claim whose node has not joined by then is given up (karpenter.sh/docs/concepts/nodeclaims)."""


class Claims:
    """Acts on claims; the controller reads them anew at every pass."""

    def __init__(self, karpenter: Karpenter, cloud: Cloud, arn: str) -> None:
        self.karpenter, self.cloud, self.arn = karpenter, cloud, arn
        self.registry, self.store = karpenter.registry, karpenter.store
        self.kind = karpenter.kind(NODE_CLAIMS[1], NODE_CLAIMS[0])
        self.nodes = karpenter.kind("nodes")

    def create(self, wish: Wish) -> None:
        template = dig(wish.pool, "spec.template", {})
        labels = {
            **dig(template, "metadata.labels", {}),
            **{key: wish.node["metadata"]["labels"][key] for key in (NODE_POOL, CAPACITY_TYPE)},
            INSTANCE_GROUP: wish.group,
            INSTANCE_TYPE: wish.instance_type,
            ZONE: wish.zone,
        }
        spec = clone(template["spec"])
        spec["requirements"] = [
            *spec.get("requirements", []),
            {"key": INSTANCE_TYPE, "operator": "In", "values": [wish.instance_type]},
        ]
        spec["resources"] = {"requests": {n: format(q.normalize(), "f") for n, q in wish.requests.items()}}
        owner = owner_reference(wish.pool)
        owner.pop("controller", None)
        claim = {
            "metadata": {
                "name": wish.name,
                "labels": labels,
                "finalizers": [TERMINATION],
                "ownerReferences": [owner],
            },
            "spec": spec,
            "status": {"capacity": wish.node["status"]["capacity"], "allocatable": wish.node["status"]["allocatable"]},
        }
        self.registry.create(self.kind, None, claim)

    def advance(self, claim: Json, machines: dict[str, Machine]) -> None:
        """Take a claim one step on."""
        if is_deleted(claim):
            self._terminate(claim, machines)
            return
        identifier = logical_id(claim)
        if not identifier:
            self._launch(claim)
            return
        machine = machines.get(identifier)
        age = self.registry.now() - parse_time(claim["metadata"]["creationTimestamp"])
        if machine is None or (age > REGISTRATION_SECONDS and not is_true(claim, "Registered")):
            self.delete(claim, "the instance is gone" if machine is None else "the node did not register in time")
            return
        if machine.node:
            self._observe(claim, machine)

    def _launch(self, claim: Json) -> None:
        labels = claim["metadata"]["labels"]
        try:
            identifier = self.cloud.add_machine(self.arn, group_of(claim), labels[INSTANCE_TYPE], labels[ZONE])
        except CloudError as error:
            self._conditions(claim, {"Launched": ("False", "LaunchFailed", str(error))})
            self.registry.event(claim, "LaunchFailed", str(error), True, "karpenter")
            return
        changed = self._modify(
            claim, lambda o: o["metadata"].setdefault("annotations", {}).update({LOGICAL_ID: identifier})
        )
        self._conditions(
            changed, {"Launched": ("Unknown", "AwaitingCapacity", f"node {identifier} has no instance yet")}
        )

    def _observe(self, claim: Json, machine: Machine) -> None:
        """Follow the instance until its node is ready with all its resources."""
        conditions = {"Launched": ("True", "Launched", "")}
        node = self.store.get(self.nodes, None, machine.node)
        if node is not None and node["metadata"].get("labels", {}).get(NODE_POOL) is None:
            node = self._register(claim, node)
        registered = node is not None
        unknown = ("Unknown", "NodeNotFound", "Node hasn't registered with cluster")
        conditions["Registered"] = ("True", "Registered", "") if registered else unknown
        if node is None:
            conditions["Initialized"] = unknown
        elif not is_true(node, "Ready"):
            conditions["Initialized"] = ("Unknown", "NodeNotReady", "Node status is NotReady")
        elif lacking := placement.insufficient(_requested(claim), placement.allocatable(node)):
            text = f"Resource {lacking[0]} was requested but not registered"
            conditions["Initialized"] = ("Unknown", "ResourceNotRegistered", text)
        else:
            conditions["Initialized"] = ("True", "Initialized", "")
        open_ones = [k for k, c in conditions.items() if c[0] != "True"]
        ready = ("Unknown", "ReconcilingDependents", f"{open_ones[0]}=Unknown") if open_ones else ("True", "Ready", "")
        fields = {
            "providerID": f"aws:///{machine.zone}/sagemaker/cluster/{machine.node}",
            **({"nodeName": machine.node} if registered else {}),
        }
        self._conditions(claim, {**conditions, "Ready": ready}, fields)

    def _register(self, claim: Json, node: Json) -> Json:
        """Put the claim's labels and taints on its node."""

        def mutate(obj: Json) -> None:
            obj["metadata"].setdefault("labels", {}).update(
                {**claim["metadata"]["labels"], "karpenter.sh/registered": "true"}
            )
            taints = obj["spec"].setdefault("taints", [])
            held = {t["key"] for t in taints}
            taints += [dict(t) for t in dig(claim, "spec.taints", []) if t["key"] not in held]
            if not taints:
                del obj["spec"]["taints"]

        return self.registry.modify(self.nodes, None, node["metadata"]["name"], mutate) or node

    def delete(self, claim: Json, why: str) -> None:
        """Begin the end of a claim."""
        self.registry.event(claim, "DisruptionTerminating", f"Disrupting NodeClaim: {why}", component="karpenter")
        self.registry.delete(self.kind, claim)

    def _terminate(self, claim: Json, machines: dict[str, Machine]) -> None:
        machine = machines.get(logical_id(claim))
        if machine is None:
            self._modify(claim, lambda o: o["metadata"].update(finalizers=_without(o, TERMINATION)))
            return
        node = self.store.get(self.nodes, None, machine.node) if machine.node else None
        if node is not None:
            self._taint(node)
            if eviction.drain(self.karpenter.cluster, machine.node):
                self.karpenter.again(self.karpenter.SOON)
                return
        if machine.status != "ShuttingDown":
            self.cloud.remove_machine(self.arn, machine.logical_id)

    def _taint(self, node: Json) -> None:
        if all(t["key"] != DISRUPTED["key"] for t in dig(node, "spec.taints", [])):
            self.registry.modify(
                self.nodes,
                None,
                node["metadata"]["name"],
                lambda o: o["spec"].setdefault("taints", []).append(dict(DISRUPTED)),
            )

    def _modify(self, claim: Json, mutate: Mutator) -> Json:
        return self.registry.modify(self.kind, None, claim["metadata"]["name"], mutate) or claim

    def _conditions(self, claim: Json, conditions: dict[str, tuple[str, str, str]], fields: Json | None = None) -> None:
        status = with_conditions(claim, self.registry.timestamp(), conditions)
        self.karpenter.status(self.kind, claim, {**status, **(fields or {})})


def _requested(claim: Json) -> placement.Resources:
    return {n: parse_quantity(q) for n, q in dig(claim, "spec.resources.requests", {}).items() if "/" in n}


def _without(obj: Json, finalizer: str) -> list[str]:
    return [f for f in obj["metadata"].get("finalizers") or [] if f != finalizer]
