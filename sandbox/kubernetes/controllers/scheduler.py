"""The scheduler: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/

It filters as kube-scheduler's plugins do (NodeResourcesFit, NodeAffinity, TaintToleration, NodeUnschedulable,
InterPodAffinity, VolumeBinding) and takes the node with the fewest pods. There is no preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from sandbox.kubernetes.objects import clone, condition, dig, set_condition
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.selectors import from_label_selector, matches_labels
from sandbox.kubernetes.store import DELETED, Change

from . import placement
from .base import NODES, PODS, Controller, Key, is_deleted

CLAIMS = ("", "persistentvolumeclaims")
CLASSES = ("storage.k8s.io", "storageclasses")
SELECTED_NODE = "volume.kubernetes.io/selected-node"
COMPONENT = "default-scheduler"
NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_ALL: Key = ("pending",)


@dataclass
class Candidate:
    """A node while pods are placed."""

    name: str
    obj: Json
    free: placement.Resources
    pods: list[Json] = field(default_factory=list)

    def take(self, pod: Json) -> None:
        for name, amount in placement.requests(pod["spec"]).items():
            self.free[name] = self.free.get(name, Decimal(0)) - amount
        self.pods.append(pod)


class _Candidates(Mapping[str, Candidate]):
    """The cluster's nodes in order of their names, each looked at when it is first asked for."""

    def __init__(self, controller: Controller) -> None:
        self._store = controller.store
        self._objects = {name: obj for (_, name), obj in controller.store.objects(controller.kind("nodes")).items()}
        self._known: dict[str, Candidate] = {}

    def __getitem__(self, name: str) -> Candidate:
        if name not in self._known:
            node = self._objects[name]
            found = self._known[name] = Candidate(name, node, placement.allocatable(node))
            for pod in self._store.pods_on(name):
                if dig(pod, "status.phase") not in ("Succeeded", "Failed"):
                    found.take(pod)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._objects))

    def __len__(self) -> int:
        return len(self._objects)


def _pinned(spec: Json) -> set[str] | None:
    """The only nodes that a pod's required affinity names, as those of a DaemonSet have; None where it names none."""
    terms = dig(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", [])
    names: set[str] = set()
    for term in terms:
        fields = [
            f for f in term.get("matchFields") or [] if (f.get("key"), f.get("operator")) == ("metadata.name", "In")
        ]
        if not fields:
            return None
        names.update(fields[0].get("values") or [])
    return names if terms else None


def _is_shortage(reason: str) -> bool:
    return reason.startswith("Insufficient ") or reason == "Too many pods"


def _holds(pod: Json) -> bool:
    """Whether a pod takes room on a node: also while it stops."""
    return bool(dig(pod, "spec.nodeName")) and dig(pod, "status.phase") not in ("Succeeded", "Failed")


def _waits(pod: Json) -> bool:
    return not dig(pod, "spec.nodeName") and not is_deleted(pod) and dig(pod, "status.phase", "Pending") == "Pending"


class Scheduler(Controller):
    """One key for all: a pass looks at every pod that waits."""

    name = "scheduler"
    watches = (PODS, NODES, CLAIMS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == PODS:
            came = change.type != DELETED and _waits(change.new) and change.old is None
            held = change.old is not None and _holds(change.old)
            freed = held and (change.type == DELETED or not _holds(change.new))
            ungated = change.old is not None and dig(change.old, "spec.schedulingGates") != dig(
                change.new, "spec.schedulingGates"
            )
            if came or freed or ungated:
                yield _ALL
        elif change.storage_key == NODES:
            if change.old is None or change.type == DELETED or placement.differs(change.old, change.new):
                yield _ALL
        elif change.old is None or dig(change.old, "status.phase") != dig(change.new, "status.phase"):
            yield _ALL

    def reconcile(self, key: Key) -> None:
        waiting = [pod for pod in self.store.pods_on("") if _waits(pod)]
        if not waiting:
            return
        nodes = _Candidates(self)
        waiting.sort(key=lambda p: (-p["spec"].get("priority", 0), p["metadata"]["creationTimestamp"]))
        for pod in waiting:
            self._place(pod, nodes)

    def _place(self, pod: Json, nodes: Mapping[str, Candidate]) -> None:
        if pod["spec"].get("schedulingGates"):
            self._condition(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
            return
        problem = self._volume_problem(pod)
        if problem:
            self._unschedulable(
                pod,
                f"0/{len(nodes)} nodes are available: {problem}. preemption: 0/{len(nodes)} nodes "
                "are available: Preemption is not helpful for scheduling.",
            )
            return
        wanted = placement.requests(pod["spec"])
        reasons: Counter[str] = Counter()
        fitting = []
        pinned = _pinned(pod["spec"])
        if pinned is not None and (others := len(nodes) - sum(name in nodes for name in pinned)):
            reasons[NO_AFFINITY] = others
        for name in nodes if pinned is None else sorted(pinned):
            if (node := nodes.get(name)) is None:
                continue
            against = self.against(pod, node, nodes, wanted)
            if against:
                reasons.update(against)
            else:
                fitting.append(node)
        if not fitting:
            self._unschedulable(pod, self._message(len(nodes), reasons))
            return
        best = min(fitting, key=lambda n: (len(n.pods), n.name))
        self._bind(pod, best)

    @classmethod
    def against(
        cls, pod: Json, node: Candidate, nodes: Mapping[str, Candidate], wanted: placement.Resources
    ) -> list[str]:
        """Why the pod cannot be on the node, in kube-scheduler's words."""
        spec = pod["spec"]
        taint = placement.untolerated(spec, node.obj)
        if dig(node.obj, "spec.unschedulable") and (
            taint is None or taint["key"] == "node.kubernetes.io/unschedulable"
        ):
            unschedulable = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}
            if not placement.tolerates(spec.get("tolerations") or [], unschedulable):
                return ["node(s) were unschedulable"]
        if taint is not None:
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
        if not placement.affinity_matches(spec, node.obj):
            return [NO_AFFINITY]
        lacking = placement.insufficient(wanted, node.free)
        if lacking:
            return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in lacking]
        return cls._affinity_problem(pod, node, nodes)

    @staticmethod
    def _affinity_problem(pod: Json, node: Candidate, nodes: Mapping[str, Candidate]) -> list[str]:
        """Required affinity to and against other pods."""
        namespace = pod["metadata"]["namespace"]
        labels = node.obj["metadata"].get("labels") or {}
        for which, wanted in (("podAffinity", True), ("podAntiAffinity", False)):
            for term in dig(pod, f"spec.affinity.{which}.requiredDuringSchedulingIgnoredDuringExecution", []):
                topology, requirements = term["topologyKey"], from_label_selector(term.get("labelSelector"))
                namespaces = term.get("namespaces") or [namespace]
                domain = [
                    other
                    for candidate in nodes.values()
                    if (candidate.obj["metadata"].get("labels") or {}).get(topology) == labels.get(topology)
                    for other in candidate.pods
                ]
                found = any(
                    other["metadata"]["namespace"] in namespaces
                    and matches_labels(requirements, other["metadata"].get("labels"))
                    for other in domain
                )
                # The first pod of a group that wants to be together may start anywhere.
                own = wanted and matches_labels(requirements, pod["metadata"].get("labels"))
                if found != wanted and not own:
                    kind = "affinity" if wanted else "anti-affinity"
                    return [f"node(s) didn't match pod {kind} rules"]
        return []

    @staticmethod
    def _message(total: int, reasons: Counter[str]) -> str:
        if total == 0:
            return "no nodes available to schedule pods"
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        # Nodes that are full might be freed by ending pods of a lower priority, of which there are none.
        full = min(sum(count for reason, count in reasons.items() if _is_shortage(reason)), total)
        hopeless = {"No preemption victims found for incoming pod": full}
        hopeless["Preemption is not helpful for scheduling"] = total - full
        counts = ", ".join(f"{count} {why}" for why, count in hopeless.items() if count)
        return f"0/{total} nodes are available: {listed}. preemption: 0/{total} nodes are available: {counts}."

    def _volume_problem(self, pod: Json) -> str | None:
        claims = self.kind("persistentvolumeclaims")
        for volume in dig(pod, "spec.volumes", []):
            name = dig(volume, "persistentVolumeClaim.claimName")
            if not name:
                continue
            claim = self.store.get(claims, pod["metadata"]["namespace"], name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if is_deleted(claim):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if dig(claim, "status.phase") != "Bound" and not self._binds_late(claim):
                return "pod has unbound immediate PersistentVolumeClaims"
        return None

    def _binds_late(self, claim: Json) -> bool:
        """A claim that is provisioned when its first pod is placed."""
        storage_class = self.store.get(self.kind(*reversed(CLASSES)), None, dig(claim, "spec.storageClassName", ""))
        return bool(dig(storage_class, "volumeBindingMode") == "WaitForFirstConsumer")

    def _bind(self, pod: Json, node: Candidate) -> None:
        meta, now = pod["metadata"], self.registry.timestamp()
        for volume in dig(pod, "spec.volumes", []):
            name = dig(volume, "persistentVolumeClaim.claimName")
            claim = self.store.get(self.kind("persistentvolumeclaims"), meta["namespace"], name) if name else None
            if claim is not None and dig(claim, "status.phase") != "Bound":
                self.registry.modify(
                    self.kind("persistentvolumeclaims"),
                    meta["namespace"],
                    claim["metadata"]["name"],
                    lambda o: o["metadata"].setdefault("annotations", {}).update({SELECTED_NODE: node.name}),
                )

        def mutate(obj: Json) -> None:
            obj["spec"]["nodeName"] = node.name
            set_condition(obj["status"], "PodScheduled", "True", "", "", now)
            scheduled = condition(obj, "PodScheduled") or {}
            for empty in ("reason", "message"):
                scheduled.pop(empty, None)

        bound = self.registry.modify(self.kind("pods"), meta["namespace"], meta["name"], mutate)
        if bound is not None:
            node.take(bound)
            text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node.name}"
            self.registry.event(bound, "Scheduled", text, component=COMPONENT)

    def _unschedulable(self, pod: Json, message: str) -> None:
        if self._condition(pod, "Unschedulable", message):
            self.registry.event(pod, "FailedScheduling", message, True, COMPONENT)

    def _condition(self, pod: Json, reason: str, message: str) -> bool:
        """Say why the pod is not placed; whether that is news."""
        status = clone(pod["status"])
        set_condition(status, "PodScheduled", "False", reason, message, self.registry.timestamp())
        changed = status != pod["status"]
        self.status(self.kind("pods"), pod, status)
        return bool(changed)
