"""DaemonSets put a pod on every node: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, dig
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from . import placement
from .base import NODES, PODS, Controller, Key, controller_of, is_active, is_deleted, is_ready, object_key
from .deployments import template_hash

DAEMON_SETS = ("apps", "daemonsets")
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


class DaemonSetController(Controller):
    name = "daemonset"
    watches = (DAEMON_SETS, PODS, NODES)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == NODES:
            if change.old is None or change.type == DELETED or placement.differs(change.old, change.new):
                yield from list(self.store.objects(self.kind("daemonsets", "apps")))
        elif change.storage_key == PODS:
            owner = controller_of(change.new, "DaemonSet")
            if owner is not None:
                yield owner
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self.kind("daemonsets", "apps")
        found = self.find(kind, key)
        if found is None or is_deleted(found):
            return
        digest = template_hash(found["spec"]["template"])
        nodes = {name: node for (_, name), node in self.store.objects(self.kind("nodes")).items()}
        wanted = {name for name, node in nodes.items() if self._fits(found, node)}
        by_node: dict[str, list[Json]] = {}
        for pod in self.owned(found, "Pod"):
            by_node.setdefault(self._node_of(pod), []).append(pod)
        for name in sorted(wanted):
            self._ensure(found, name, by_node.get(name, []), digest)
        for name, pods in by_node.items():
            if name not in wanted:
                for pod in pods:
                    if not is_deleted(pod):
                        self.registry.delete(self.kind("pods"), pod)
        self._roll(found, wanted, digest)
        self._report(key, wanted, digest)

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

    def _fits(self, found: Json, node: Json) -> bool:
        spec = self._pod_spec(found, node["metadata"]["name"])
        return not is_deleted(node) and placement.affinity_matches(spec, node) and not placement.untolerated(spec, node)

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

    def _roll(self, found: Json, wanted: set[str], digest: str) -> None:
        """Replace pods of an older template, at most maxUnavailable at a time."""
        strategy = found["spec"]["updateStrategy"]
        if strategy.get("type") == "OnDelete":
            return
        limit = dig(strategy, "rollingUpdate.maxUnavailable", 1)
        if isinstance(limit, str):
            limit = max(1, -(-len(wanted) * int(limit.rstrip("%")) // 100))
        pods = [pod for pod in self.owned(found, "Pod") if self._node_of(pod) in wanted]
        down = len(wanted) - sum(is_ready(pod) for pod in pods)
        for pod in pods:
            if is_deleted(pod) or (pod["metadata"].get("labels") or {}).get(HASH_LABEL) == digest:
                continue
            if not is_ready(pod):
                self.registry.delete(self.kind("pods"), pod)
            elif down < limit:
                down += 1
                self.registry.delete(self.kind("pods"), pod)

    def _report(self, key: Key, wanted: set[str], digest: str) -> None:
        kind = self.kind("daemonsets", "apps")
        found = self.find(kind, key)
        if found is None:
            return
        pods = [pod for pod in self.owned(found, "Pod") if is_active(pod)]
        placed = [pod for pod in pods if self._node_of(pod) in wanted]
        ready = sum(is_ready(pod) for pod in placed)
        updated = sum((pod["metadata"].get("labels") or {}).get(HASH_LABEL) == digest for pod in placed)
        status: Json = {
            "currentNumberScheduled": len(placed),
            "desiredNumberScheduled": len(wanted),
            "numberReady": ready,
            "numberMisscheduled": len(pods) - len(placed),
            "observedGeneration": found["metadata"]["generation"],
        }
        optional = {
            "numberAvailable": ready,
            "numberUnavailable": len(wanted) - ready,
            "updatedNumberScheduled": updated,
        }
        status |= {name: count for name, count in optional.items() if count}
        self.status(kind, found, status)
