"""KEDA's operator: a ScaledObject becomes a HorizontalPodAutoscaler, and its Deployment is started from and stopped to
no replica.

https://keda.sh/docs/2.17/concepts/scaling-deployments/ . Without the operator's Deployment nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sandbox.kubernetes import scalers
from sandbox.kubernetes.objects import clone, dig, owner_reference, parse_time, set_condition
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.scalers import ScalerError
from sandbox.kubernetes.store import ADDED, DELETED, Change

from .base import Controller, Key, is_deleted, object_key
from .deployments import DEPLOYMENTS
from .hpa import HPAS, SCALED_OBJECT

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

GROUP, VERSION, PLURAL = "keda.sh", "v1alpha1", "scaledobjects"
OPERATOR = "keda-operator"
PAUSED = "autoscaling.keda.sh/paused"
POLLING_SECONDS, COOLDOWN_SECONDS, MOST = 30, 300, 100
_READY = ("ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling")
_TARGET = ("ScaledObjectCheckFailed", "ScaledObject doesn't have correct scaleTargetRef specification")
_BROKEN = ("TriggerError", "Triggers defined in ScaledObject are not working correctly")
_PARTLY = ("PartialTriggerError", "One or more triggers defined in ScaledObject are not working correctly")
_ACTIVE = ("ScalerActive", "Scaling is performed because triggers are active")
_INACTIVE = ("ScalerNotActive", "Scaling is not performed because triggers are not active")


class Keda(Controller):
    """Every ScaledObject is looked at each ``pollingInterval``."""

    name = "keda"
    watches = ((GROUP, PLURAL), DEPLOYMENTS, HPAS)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._due: dict[Key, float] = {}

    def _kind(self) -> ResourceType | None:
        return self.store.type(GROUP, VERSION, PLURAL)

    def keys(self, change: Change) -> Iterable[Key]:
        key = object_key(change.new)
        if change.storage_key == (GROUP, PLURAL):
            if change.type == DELETED:
                self._due.pop(key, None)
            elif change.old is None or _asked(change.old) != _asked(change.new):
                yield from self._anew([key])
        elif change.storage_key == DEPLOYMENTS:
            kind = self._kind()
            held = self.store.objects(kind) if kind is not None else {}
            if change.new["metadata"]["name"] == OPERATOR:
                yield from self._anew(list(held))
            elif change.type in (ADDED, DELETED):
                mine = [k for k, o in held.items() if k[0] == key[0] and _target(o) == key[1]]
                yield from self._anew(mine)
        elif change.type == DELETED and key[1].startswith("keda-hpa-"):
            yield from self._anew([(key[0], key[1].removeprefix("keda-hpa-"))])

    def _anew(self, keys: Sequence[Key]) -> Sequence[Key]:
        for key in keys:
            # A change of its own status is not worth another look at its metrics.
            self._due.pop(key, None)
        return keys

    def _operating(self) -> bool:
        return any(
            name == OPERATOR and dig(deployment, "status.availableReplicas", 0) > 0
            for (_, name), deployment in self.store.objects(self.kind("deployments", "apps")).items()
        )

    def reconcile(self, key: Key) -> None:
        kind, now = self._kind(), self.registry.now()
        found = self.find(kind, key) if kind is not None else None
        if kind is None or found is None or is_deleted(found) or not self._operating() or now < self._due.get(key, 0):
            return
        pause = float(dig(found, "spec.pollingInterval", POLLING_SECONDS))
        self._due[key] = now + pause
        self.later(pause, key)
        status = clone(found.get("status") or {})
        target = self.store.get(self.kind("deployments", "apps"), key[0], _target(found))
        if target is None:
            self._say(status, "Ready", "False", _TARGET)
            self._say(status, "Active", "Unknown", ("UnkownState", ""))
            self.status(kind, found, status)
            return
        status |= {
            "scaleTargetKind": "apps/v1.Deployment",
            "scaleTargetGVKR": {"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"},
            "hpaName": _hpa_name(found),
            "triggersTypes": ",".join(trigger["type"] for trigger in found["spec"]["triggers"]),
            "externalMetricNames": [name for _, name in _external(found)],
        }
        status.setdefault("originalReplicaCount", dig(target, "spec.replicas", 1))
        if (found["metadata"].get("annotations") or {}).get(PAUSED) == "true":
            self._say(status, "Paused", "True", ("ScaledObjectPaused", "ScaledObject is paused"))
            self._say(status, "Ready", "True", _READY)
            self.status(kind, found, status)
            return
        self._say(status, "Paused", "False", ("", ""))
        self._autoscaler(found)
        self._look(found, target, status)
        self.status(kind, found, status)

    def _look(self, found: Json, target: Json, status: Json) -> None:
        """Read the triggers, and start or stop the Deployment."""
        active, broken, now = False, 0, self.registry.now()
        for trigger in found["spec"]["triggers"]:
            if trigger["type"] == "cpu":
                active = True
                continue
            try:
                value = scalers.read(self.cluster, found["metadata"]["namespace"], trigger)
            except ScalerError as error:
                broken += 1
                self.registry.event(found, "KEDAScalerFailed", str(error), True, OPERATOR)
                continue
            active = active or value > float(dig(trigger, "metadata.activationThreshold", 0))
        if broken and broken == len(found["spec"]["triggers"]):
            self._say(status, "Ready", "False", _BROKEN)
        else:
            self._say(status, "Ready", "True", _PARTLY if broken else _READY)
        self._say(status, "Active", "True" if active else "False", _ACTIVE if active else _INACTIVE)
        self._say(status, "Fallback", "False", ("NoFallbackFound", "No fallbacks are active on this scaled object"))
        if active:
            status["lastActiveTime"] = self.registry.timestamp()
        least, replicas = int(dig(found, "spec.minReplicaCount", 0)), int(dig(target, "spec.replicas", 1))
        cooldown = float(dig(found, "spec.cooldownPeriod", COOLDOWN_SECONDS))
        since = parse_time(status.get("lastActiveTime") or found["metadata"]["creationTimestamp"])
        if active and replicas == 0:
            self._resize(found, target, max(least, 1), "KEDAScaleTargetActivated")
        elif not active and not broken and least == 0 and replicas > 0 and now - since >= cooldown:
            self._resize(found, target, 0, "KEDAScaleTargetDeactivated")
        elif replicas < least:
            self._resize(found, target, least, "KEDAScaleTargetActivated")

    def _resize(self, found: Json, target: Json, replicas: int, reason: str) -> None:
        meta, before = target["metadata"], dig(target, "spec.replicas", 1)
        self.registry.modify(
            self.kind("deployments", "apps"),
            meta["namespace"],
            meta["name"],
            lambda o: o["spec"].update(replicas=replicas),
        )
        verb = "Deactivated" if replicas == 0 else "Scaled"
        words = f"{verb} apps/v1.Deployment {meta['namespace']}/{meta['name']} from {before} to {replicas}"
        self.registry.event(found, reason, words, component=OPERATOR)

    def _autoscaler(self, found: Json) -> None:
        """Make the HorizontalPodAutoscaler, or bring it up to date."""
        kind, meta, spec = self.kind("horizontalpodautoscalers", "autoscaling", "v2"), found["metadata"], found["spec"]
        wanted: Json = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": _target(found)},
            "minReplicas": max(int(spec.get("minReplicaCount", 0)), 1),
            "maxReplicas": int(spec.get("maxReplicaCount", MOST)),
            "metrics": _metrics(found),
        }
        if behavior := dig(spec, "advanced.horizontalPodAutoscalerConfig.behavior"):
            wanted["behavior"] = clone(behavior)
        name = _hpa_name(found)
        there = self.store.get(kind, meta["namespace"], name)
        if there is None:
            labels = {"app.kubernetes.io/managed-by": OPERATOR, SCALED_OBJECT: meta["name"]}
            body = {
                "metadata": {"name": name, "labels": labels, "ownerReferences": [owner_reference(found)]},
                "spec": wanted,
            }
            self.registry.create(kind, meta["namespace"], body)
        elif any(there["spec"].get(key) != value for key, value in wanted.items()):
            self.registry.modify(kind, meta["namespace"], name, lambda o: o["spec"].update(clone(wanted)))

    def _say(self, status: Json, kind: str, value: str, said: tuple[str, str]) -> None:
        set_condition(status, kind, value, said[0], said[1], self.registry.timestamp())
        for condition in status["conditions"]:
            # KEDA's conditions have no times. (ScaledObject status)
            condition.pop("lastTransitionTime", None)


def _asked(found: Json) -> tuple[object, object]:
    return found.get("spec"), found["metadata"].get("annotations")


def _target(found: Json) -> str:
    return str(dig(found, "spec.scaleTargetRef.name", ""))


def _hpa_name(found: Json) -> str:
    given = dig(found, "spec.advanced.horizontalPodAutoscalerConfig.name")
    return str(given or f"keda-hpa-{found['metadata']['name']}")


def _external(found: Json) -> list[tuple[Json, str]]:
    triggers = found["spec"]["triggers"]
    return [(t, f"s{index}-{t['type']}") for index, t in enumerate(triggers) if t["type"] not in ("cpu", "memory")]


def _metrics(found: Json) -> list[Json]:
    metrics: list[Json] = []
    for trigger, name in _external(found):
        kind, threshold = trigger.get("metricType") or "AverageValue", dig(trigger, "metadata.threshold", "1")
        value = {"averageValue": threshold} if kind == "AverageValue" else {"value": threshold}
        selector = {"matchLabels": {SCALED_OBJECT: found["metadata"]["name"]}}
        external = {"metric": {"name": name, "selector": selector}, "target": {"type": kind, **value}}
        metrics.append({"type": "External", "external": external})
    for trigger in found["spec"]["triggers"]:
        if trigger["type"] == "cpu":
            target = {"type": "Utilization", "averageUtilization": int(dig(trigger, "metadata.value", "80"))}
            metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    return metrics
