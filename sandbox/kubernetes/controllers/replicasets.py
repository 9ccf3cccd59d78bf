"""ReplicaSets keep a number of pods: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, condition, dig, parse_time, set_condition
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, controller_of, is_active, is_deleted, is_ready, object_key

REPLICA_SETS = ("apps", "replicasets")
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
BURST = 50
"""How many pods are made before the others are looked at."""


class ReplicaSetController(Controller):
    name = "replicaset"
    watches = (REPLICA_SETS, PODS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == PODS:
            owner = controller_of(change.new, "ReplicaSet")
            if owner is not None:
                yield owner
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self.kind("replicasets", "apps")
        found = self.find(kind, key)
        if found is None or is_deleted(found):
            return
        pods = self.kind("pods")
        active = [pod for pod in self.owned(found, "Pod") if is_active(pod)]
        wanted = found["spec"].get("replicas", 1)
        failure = ""
        for _ in range(min(wanted - len(active), BURST)):
            try:
                active.append(self.registry.create(pods, key[0], self.make_pod(found, found["spec"]["template"])))
            except ApiError as error:
                # As Kubernetes words it, without the random end of the pod's name: the same failure, the same words.
                failure = re.sub(rf'"({re.escape(key[1])}-)\w+"', r'"\1"', error.message)
                self.registry.event(found, "FailedCreate", f"Error creating: {failure}", True, "replicaset-controller")
                self.later(10, key)
                break
        if len(active) > wanted:
            for pod in sorted(active, key=_worth)[: len(active) - wanted]:
                self.registry.delete(pods, pod)
                active.remove(pod)
        elif len(active) < wanted and failure is None:
            self.later(0, key)
        self._report(found, active, failure)

    def _report(self, found: Json, active: list[Json], failure: str) -> None:
        ready = [pod for pod in active if is_ready(pod)]
        available, soon = self._available(found, ready)
        status: Json = {"replicas": len(active), "observedGeneration": found["metadata"]["generation"]}
        if active:
            status["fullyLabeledReplicas"] = len(active)
        if ready:
            status["readyReplicas"] = len(ready)
        if available:
            status["availableReplicas"] = available
        if failure:
            # The time of the condition must stay, or each write of it would call for the next.
            status["conditions"] = clone(dig(found, "status.conditions", []))
            set_condition(status, "ReplicaFailure", "True", "FailedCreate", failure, self.registry.timestamp())
        self.status(self.kind("replicasets", "apps"), found, status)
        if soon is not None:
            self.later(soon, object_key(found))

    def _available(self, found: Json, ready: list[Json]) -> tuple[int, float | None]:
        """How many pods have been Ready for minReadySeconds, and in how many seconds the next will have been."""
        wanted = found["spec"].get("minReadySeconds") or 0
        if not wanted:
            return len(ready), None
        since = [parse_time((condition(pod, "Ready") or {})["lastTransitionTime"]) for pod in ready]
        left = [at + wanted - self.registry.now() for at in since]
        return sum(seconds <= 0 for seconds in left), min((seconds for seconds in left if seconds > 0), default=None)


def _worth(pod: Json) -> tuple[bool, int, bool, int, float, int, float]:
    """What goes first when there are too many: without a node, not running, not Ready, of low deletion cost, Ready for
    a short time only, often restarted, new.

    (Kubernetes: ReplicaSet, isolating pods and pod deletion cost; pkg/controller, ActivePodsWithRanks)
    """
    phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(dig(pod, "status.phase", "Unknown"), 1)
    ready = is_ready(pod)
    since = parse_time((condition(pod, "Ready") or {})["lastTransitionTime"]) if ready else 0.0
    restarts = sum(status.get("restartCount", 0) for status in dig(pod, "status.containerStatuses", []))
    made = parse_time(pod["metadata"]["creationTimestamp"])
    return bool(dig(pod, "spec.nodeName")), phase, ready, _cost(pod), -since, -restarts, -made


def _cost(pod: Json) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0
