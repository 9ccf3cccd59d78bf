"""Deployments: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

from sandbox.kubernetes.objects import clone, dig, owner_reference, parse_time, set_condition
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, controller_of, is_deleted, object_key
from .replicasets import REPLICA_SETS

DEPLOYMENTS = ("apps", "deployments")
REVISION = "deployment.kubernetes.io/revision"
HASH_LABEL = "pod-template-hash"


def template_hash(template: Json) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def _absolute(value: Any, total: int, round_up: bool) -> int:
    """A number or a percentage of the replicas."""
    if isinstance(value, str) and value.endswith("%"):
        share = total * int(value[:-1]) / 100
        return math.ceil(share) if round_up else math.floor(share)
    return int(value)


def _revision(replica_set: Json) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(REVISION, 0))


def _progressed(before: Json, after: Json) -> bool:
    """Whether there are more new, ready or available pods, or fewer old ones: DeploymentProgressing of Kubernetes."""

    def old(status: Json) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(after) < old(before) or any(after.get(c, 0) > before.get(c, 0) for c in counts)


class DeploymentController(Controller):
    name = "deployment"
    watches = (DEPLOYMENTS, REPLICA_SETS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == REPLICA_SETS:
            owner = controller_of(change.new, "Deployment")
            if owner is not None:
                yield owner
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self.kind("deployments", "apps")
        deployment = self.find(kind, key)
        if deployment is None or is_deleted(deployment):
            return
        owned = self.owned(deployment, "ReplicaSet")
        digest = template_hash(deployment["spec"]["template"])
        current = next((r for r in owned if (r["metadata"].get("labels") or {}).get(HASH_LABEL) == digest), None)
        if not deployment["spec"].get("paused"):
            current = self._current(deployment, owned, current, digest)
            self._scale(deployment, owned, current)
            self._clean_up(deployment, current)
        self._report(key, current)

    def _current(self, deployment: Json, owned: list[Json], current: Json | None, digest: str) -> Json:
        """The replica set of the deployment's template, with the newest revision."""
        replica_sets = self.kind("replicasets", "apps")
        newest = max([_revision(r) for r in owned], default=0)
        meta, spec = deployment["metadata"], deployment["spec"]
        kept = {
            k: v
            for k, v in (meta.get("annotations") or {}).items()
            if k not in (REVISION, "kubectl.kubernetes.io/last-applied-configuration")
        }
        if current is None:
            revision = newest + 1
            template = clone(spec["template"])
            labels = template.setdefault("metadata", {}).setdefault("labels", {})
            labels[HASH_LABEL] = digest
            selector = clone(spec["selector"])
            selector.setdefault("matchLabels", {})[HASH_LABEL] = digest
            current = self.registry.create(
                replica_sets,
                meta["namespace"],
                {
                    "metadata": {
                        "name": f"{meta['name']}-{digest}",
                        "labels": dict(labels),
                        "annotations": {**kept, REVISION: str(revision)},
                        "ownerReferences": [owner_reference(deployment)],
                    },
                    "spec": {
                        "replicas": 0,
                        "selector": selector,
                        "template": template,
                        "minReadySeconds": spec.get("minReadySeconds") or 0,
                    },
                },
            )
            owned.append(current)
        else:
            # Back to an earlier template: its replica set becomes the newest revision again.
            revision = newest if _revision(current) == newest else newest + 1
            if revision != _revision(current):
                current = (
                    self.registry.modify(
                        replica_sets,
                        meta["namespace"],
                        current["metadata"]["name"],
                        lambda o: o["metadata"]["annotations"].update({REVISION: str(revision)}),
                    )
                    or current
                )
        if (meta.get("annotations") or {}).get(REVISION) != str(revision):
            self.registry.modify(
                self.kind("deployments", "apps"),
                meta["namespace"],
                meta["name"],
                lambda o: o["metadata"].setdefault("annotations", {}).update({REVISION: str(revision)}),
            )
        return current

    def _resize(self, deployment: Json, replica_set: Json, replicas: int) -> None:
        before = replica_set["spec"]["replicas"]
        if before == replicas:
            return
        meta = replica_set["metadata"]
        self.registry.modify(
            self.kind("replicasets", "apps"),
            meta["namespace"],
            meta["name"],
            lambda o: o["spec"].update(replicas=replicas),
        )
        direction = "up" if replicas > before else "down"
        self.registry.event(
            deployment,
            "ScalingReplicaSet",
            f"Scaled {direction} replica set {meta['name']} from {before} to {replicas}",
            component="deployment-controller",
        )

    def _scale(self, deployment: Json, owned: list[Json], current: Json) -> None:
        """Move replicas from the old sets to the current one within maxSurge and maxUnavailable."""
        spec = deployment["spec"]
        wanted = spec["replicas"]
        uid = current["metadata"]["uid"]
        old = [r for r in owned if r["metadata"]["uid"] != uid and r["spec"]["replicas"] > 0]
        current = self.store.by_uid(uid) or current
        if not old:
            self._resize(deployment, current, wanted)
            return
        if spec["strategy"]["type"] == "Recreate":
            for replica_set in old:
                self._resize(deployment, replica_set, 0)
            if not any(dig(r, "status.replicas", 0) for r in old):
                self._resize(deployment, current, wanted)
            return
        rolling = spec["strategy"]["rollingUpdate"]
        surge = _absolute(rolling["maxSurge"], wanted, round_up=True)
        unavailable = _absolute(rolling["maxUnavailable"], wanted, round_up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        total = current["spec"]["replicas"] + sum(r["spec"]["replicas"] for r in old)
        room = wanted + surge - total
        if current["spec"]["replicas"] < wanted and room > 0:
            self._resize(deployment, current, min(wanted, current["spec"]["replicas"] + room))
        elif current["spec"]["replicas"] > wanted:
            self._resize(deployment, current, wanted)
        ready = sum(dig(r, "status.availableReplicas", 0) for r in [*old, current])
        spare = ready - (wanted - unavailable)
        for replica_set in old:
            broken = replica_set["spec"]["replicas"] - dig(replica_set, "status.availableReplicas", 0)
            reduction = min(replica_set["spec"]["replicas"], broken + max(spare, 0))
            spare -= max(reduction - broken, 0)
            self._resize(deployment, replica_set, replica_set["spec"]["replicas"] - reduction)

    def _clean_up(self, deployment: Json, current: Json) -> None:
        limit = deployment["spec"]["revisionHistoryLimit"]
        empty = [
            r
            for r in self.owned(deployment, "ReplicaSet")
            if r["metadata"]["uid"] != current["metadata"]["uid"]
            and r["spec"]["replicas"] == 0
            and not dig(r, "status.replicas", 0)
        ]
        for replica_set in sorted(empty, key=_revision)[: max(len(empty) - limit, 0)]:
            self.registry.delete(self.kind("replicasets", "apps"), replica_set)

    def _report(self, key: Key, current: Json | None) -> None:
        kind = self.kind("deployments", "apps")
        deployment = self.find(kind, key)
        if deployment is None:
            return
        owned = self.owned(deployment, "ReplicaSet")
        if current is not None:
            current = self.store.by_uid(current["metadata"]["uid"])
        now, wanted = self.registry.timestamp(), deployment["spec"]["replicas"]
        total = sum(dig(r, "status.replicas", 0) for r in owned)
        ready = sum(dig(r, "status.readyReplicas", 0) for r in owned)
        usable = sum(dig(r, "status.availableReplicas", 0) for r in owned)
        updated = dig(current, "status.replicas", 0)
        status: Json = {"observedGeneration": deployment["metadata"]["generation"]}
        counts = {
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": usable,
            "unavailableReplicas": max(wanted - usable, 0),
        }
        status |= {name: count for name, count in counts.items() if count}
        status["conditions"] = clone(dig(deployment, "status.conditions", []))
        unavailable = 0
        if deployment["spec"]["strategy"]["type"] == "RollingUpdate":
            unavailable = _absolute(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], wanted, False)
        available = usable >= wanted - unavailable
        self._condition(
            status,
            "Available",
            available,
            "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable",
            "Deployment has minimum availability." if available else "Deployment does not have minimum availability.",
            now,
        )
        complete = updated == wanted and total == wanted and usable >= wanted
        self._progress(deployment, status, current, complete, now)
        self.status(kind, deployment, status)

    def _progress(self, deployment: Json, status: Json, current: Json | None, complete: bool, now: str) -> None:
        """How the rollout of the current replica set goes; one that is over is not looked at again."""
        if current is None:
            return
        name = current["metadata"]["name"]
        before = next((c for c in dig(deployment, "status.conditions", []) if c["type"] == "Progressing"), None)
        same = before is not None and f'"{name}"' in before["message"]
        over = same and before is not None and before["reason"] == "NewReplicaSetAvailable"
        if over and status.get("replicas", 0) == status.get("updatedReplicas", 0):
            return
        deadline = deployment["spec"].get("progressDeadlineSeconds", 600)
        waited = self.registry.now() - parse_time(before["lastUpdateTime"]) if before else 0
        value, reason, message = True, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
        if complete:
            reason, message = "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
        elif not same:
            reason, message = "NewReplicaSetCreated", f'Created new replica set "{name}"'
        elif not _progressed(deployment.get("status") or {}, status):
            if waited < deadline:
                return
            value, reason, message = (
                False,
                "ProgressDeadlineExceeded",
                f'ReplicaSet "{name}" has timed out progressing.',
            )
        self._condition(status, "Progressing", value, reason, message, now)
        if value and not complete:
            condition = next(c for c in status["conditions"] if c["type"] == "Progressing")
            condition["lastUpdateTime"] = now
            self.later(deadline + 1, object_key(deployment))

    @staticmethod
    def _condition(status: Json, kind: str, value: bool, reason: str, message: str, now: str) -> None:
        before = clone(next((c for c in status["conditions"] if c["type"] == kind), None))
        set_condition(status, kind, "True" if value else "False", reason, message, now)
        after = next(c for c in status["conditions"] if c["type"] == kind)
        if before is None or after != before:
            after["lastUpdateTime"] = now
