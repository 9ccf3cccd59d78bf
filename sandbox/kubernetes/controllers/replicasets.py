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
            # Pods that do not run yet go first.
            surplus = sorted(active, key=lambda p: (is_ready(p), bool(dig(p, "spec.nodeName"))))[: len(active) - wanted]
            for pod in surplus:
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
