"""DaemonSets put a pod on every node: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, dig
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from . import placement
from .base import NODES, PODS, Controller, Key, controller_of, is_active, is_deleted, is_ready, object_key
from .deployments import template_hash

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

DAEMON_SETS = ("apps", "daemonsets")
_REPORT = ("", "report")
HASH_LABEL = "controller-revision-hash"

# https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations
_TOLERATIONS = [
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ),
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"}
        for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
]
_HOST_NETWORK = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True)
class _Place:
    """A DaemonSet on one node: whether it is wanted there, and its pod."""

    wanted: bool
    active: int = 0
    ready: bool = False
    updated: bool = False


class DaemonSetController(Controller):
    """Keys are (namespace, name) for the whole DaemonSet, with a node for its pod there, and with :data:`_REPORT` for
    its status: in a cluster of a thousand nodes a pod that becomes ready must not be a reason to look at all others."""

    name = "daemonset"
    watches = (DAEMON_SETS, PODS, NODES)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._places: dict[Key, dict[str, _Place]] = {}
        self._pods: dict[Key, dict[Key, None]] = {}
        """(namespace, DaemonSet, node) -> keys of its pods there."""

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == NODES:
            if change.old is None or change.type == DELETED or placement.differs(change.old, change.new):
                node = change.new["metadata"]["name"]
                yield from [(*key, node) for key in self.store.objects(self.kind("daemonsets", "apps"))]
        elif change.storage_key == PODS:
            owner = controller_of(change.new, "DaemonSet")
            if owner is not None:
                key = (*owner, self._node_of(change.new))
                held = self._pods.setdefault(key, {})
                if change.type == DELETED:
                    held.pop(object_key(change.new), None)
                else:
                    held[object_key(change.new)] = None
                yield key
        elif change.type == DELETED:
            self._places.pop(object_key(change.new), None)
        elif change.old is None or _asks(change.old) != _asks(change.new):
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind, whole = self.kind("daemonsets", "apps"), key[:2]
        found = self.find(kind, whole)
        if found is None or is_deleted(found):
            return
        if key[2:] == _REPORT:
            if any(place.active and not place.updated for place in self._places.get(whole, {}).values()):
                self._roll(found)
            self._report(found)
            return
        if len(key) == 2 or whole not in self._places:
            self._places[whole] = {}
            names = {name for _, name in self.store.objects(self.kind("nodes"))}
            names |= {of[2] for of, pods in self._pods.items() if of[:2] == whole and pods}
            for name in sorted(names):
                self._settle(found, name)
        else:
            self._settle(found, key[2])
        self.cluster.controllers.enqueue(self.name, (*whole, *_REPORT))

    def _settle(self, found: Json, name: str) -> None:
        """Bring one node into order, and note how it is."""
        key = object_key(found)
        node = self.store.get(self.kind("nodes"), None, name)
        pods = self._pods_of(key, name)
        digest = template_hash(found["spec"]["template"])
        wanted = node is not None and self._fits(found, node)
        if wanted:
            self._ensure(found, name, pods, digest)
        elif node is None or not self._fits(found, node, only="NoExecute"):
            for pod in pods:
                if not is_deleted(pod):
                    self.registry.delete(self.kind("pods"), pod)
        active = [pod for pod in self._pods_of(key, name) if is_active(pod)]
        if not wanted and not active:
            self._places[key].pop(name, None)
            return
        self._places[key][name] = _Place(
            wanted,
            len(active),
            any(is_ready(pod) for pod in active),
            any(_hash_of(pod) == digest for pod in active),
        )

    def _pods_of(self, key: Key, node: str) -> list[Json]:
        kind, held = self.kind("pods"), self._pods.get((*key, node), {})
        found = [(pod_key, self.store.get(kind, *pod_key)) for pod_key in list(held)]
        for pod_key, pod in found:
            if pod is None:
                # Left over from before a snapshot was loaded.
                held.pop(pod_key, None)
        return [pod for _, pod in found if pod is not None]

    @staticmethod
    def _node_of(pod: Json) -> str:
        """The node that a pod is on or is meant for."""
        if name := dig(pod, "spec.nodeName"):
            return str(name)
        terms = dig(
            pod, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", []
        )
        for term in terms:
            for field in term.get("matchFields") or []:
                return str(field["values"][0])
        return ""

    def _fits(self, found: Json, node: Json, only: str = "") -> bool:
        """Whether the node may have a pod; with ``only`` NoExecute whether a pod that is there may stay."""
        spec = found["spec"]["template"]["spec"]
        tolerations = [*(spec.get("tolerations") or []), *_TOLERATIONS]
        if spec.get("hostNetwork"):
            tolerations.append(_HOST_NETWORK)
        untolerated = [
            taint
            for taint in dig(node, "spec.taints", [])
            if taint["effect"] in ((only,) if only else ("NoSchedule", "NoExecute"))
            and not placement.tolerates(tolerations, taint)
        ]
        return not is_deleted(node) and placement.affinity_matches(spec, node) and not untolerated

    @staticmethod
    def _pod_spec(found: Json, node: str) -> Json:
        spec: Json = clone(found["spec"]["template"]["spec"])
        tolerations = spec.setdefault("tolerations", [])
        tolerations += [clone(t) for t in _TOLERATIONS]
        if spec.get("hostNetwork"):
            tolerations.append(dict(_HOST_NETWORK))
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = required.get("nodeSelectorTerms") or [{}]
        required["nodeSelectorTerms"] = [{**term, "matchFields": [field]} for term in terms]
        return spec

    def _ensure(self, found: Json, node: str, pods: list[Json], digest: str) -> None:
        failed = [pod for pod in pods if dig(pod, "status.phase") in ("Succeeded", "Failed") and not is_deleted(pod)]
        for pod in failed:
            self.registry.delete(self.kind("pods"), pod)
        if any(is_active(pod) for pod in pods) or any(is_deleted(pod) for pod in pods):
            return
        template = {**found["spec"]["template"], "spec": self._pod_spec(found, node)}
        pod = self.make_pod(found, template, labels={HASH_LABEL: digest})
        try:
            self.registry.create(self.kind("pods"), found["metadata"]["namespace"], pod)
        except ApiError as error:
            self.registry.event(found, "FailedCreate", f"Error creating: {error.message}", True, "daemonset-controller")
            self.later(10, object_key(found))

    def _roll(self, found: Json) -> None:
        """Replace pods of an older template, at most maxUnavailable at a time."""
        wanted = {name for name, place in self._places[object_key(found)].items() if place.wanted}
        strategy, digest = found["spec"]["updateStrategy"], template_hash(found["spec"]["template"])
        if strategy.get("type") == "OnDelete":
            return
        limit = dig(strategy, "rollingUpdate.maxUnavailable", 1)
        if isinstance(limit, str):
            limit = max(1, -(-len(wanted) * int(limit.rstrip("%")) // 100))
        pods = [pod for pod in self.owned(found, "Pod") if self._node_of(pod) in wanted]
        down = len(wanted) - sum(is_ready(pod) for pod in pods)
        for pod in pods:
            if is_deleted(pod) or _hash_of(pod) == digest:
                continue
            if not is_ready(pod):
                self.registry.delete(self.kind("pods"), pod)
            elif down < limit:
                down += 1
                self.registry.delete(self.kind("pods"), pod)

    def _report(self, found: Json) -> None:
        places = self._places.get(object_key(found), {}).values()
        wanted = sum(place.wanted for place in places)
        placed = [place for place in places if place.wanted and place.active]
        ready = sum(place.ready for place in placed)
        status: Json = {
            "currentNumberScheduled": len(placed),
            "desiredNumberScheduled": wanted,
            "numberReady": ready,
            "numberMisscheduled": sum(place.active for place in places if not place.wanted),
            "observedGeneration": found["metadata"]["generation"],
        }
        optional = {
            "numberAvailable": ready,
            "numberUnavailable": wanted - ready,
            "updatedNumberScheduled": sum(place.updated for place in placed),
        }
        status |= {name: count for name, count in optional.items() if count}
        self.status(self.kind("daemonsets", "apps"), found, status)


def _hash_of(pod: Json) -> str:
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def _asks(found: Json) -> tuple[Any, ...]:
    """What of a DaemonSet its pods depend on."""
    return found["spec"], found["metadata"].get("deletionTimestamp"), found["metadata"].get("generation")
