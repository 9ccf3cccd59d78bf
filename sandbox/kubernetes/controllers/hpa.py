"""HorizontalPodAutoscalers of Deployments.

https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#algorithm-details
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sandbox.kubernetes import scalers
from sandbox.kubernetes.objects import clone, dig, set_condition
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.scalers import ScalerError
from sandbox.kubernetes.selectors import from_label_selector, matches_labels
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, is_deleted, is_ready, object_key

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

HPAS = ("autoscaling", "horizontalpodautoscalers")
SYNC_SECONDS = 15.0
TOLERANCE = 0.1
DOWN_SECONDS, UP_SECONDS = 300, 0
SCALED_OBJECT = "scaledobject.keda.sh/name"


class Autoscaling(Controller):
    """Every one is looked at each :data:`SYNC_SECONDS`."""

    name = "hpa"
    watches = (HPAS,)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._due: dict[Key, float] = {}
        self._wishes: dict[Key, list[tuple[float, int]]] = {}

    def keys(self, change: Change) -> Iterable[Key]:
        if change.type == DELETED:
            self._due.pop(object_key(change.new), None)
            self._wishes.pop(object_key(change.new), None)
        elif change.old is None or change.old.get("spec") != change.new.get("spec"):
            self._due.pop(object_key(change.new), None)
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self.kind("horizontalpodautoscalers", "autoscaling", "v2")
        found, now = self.find(kind, key), self.registry.now()
        if found is None or is_deleted(found) or now < self._due.get(key, 0.0):
            return
        self._due[key] = now + SYNC_SECONDS
        self.later(SYNC_SECONDS, key)
        status = clone(found.get("status") or {})
        deployments = self.kind("deployments", "apps")
        target = self.store.get(deployments, key[0], dig(found, "spec.scaleTargetRef.name", ""))
        if target is None:
            self._say(status, "AbleToScale", False, "FailedGetScale", "the HPA controller was unable to get the target")
            self._write(found, status, 0, 0)
            return
        current = int(dig(target, "spec.replicas", 1))
        self._say(status, "AbleToScale", True, "ReadyForNewScale", "recommended size matches current size")
        if current == 0:
            words = "scaling is disabled since the replica count of the target is zero"
            self._say(status, "ScalingActive", False, "ScalingDisabled", words)
            self._write(found, status, 0, 0)
            return
        try:
            wishes, metrics = self._metrics(found, target, current)
        except ScalerError as error:
            words = f"the HPA was unable to compute the replica count: unable to get external metric: {error}"
            self._say(status, "ScalingActive", False, "FailedGetExternalMetric", words)
            self._write(found, status, current, current)
            return
        self._say(status, "ScalingActive", True, "ValidMetricFound", "the HPA was able to compute the replica count")
        status["currentMetrics"] = metrics
        desired = self._settled(key, found, current, max(wishes, default=current), now)
        if desired != current:
            self.registry.modify(deployments, key[0], target["metadata"]["name"], lambda o: _resize(o, desired))
            status["lastScaleTime"] = self.registry.timestamp()
            why = "external metric above target" if desired > current else "All metrics below target"
            words = f"New size: {desired}; reason: {why}"
            self.registry.event(found, "SuccessfulRescale", words, component="horizontal-pod-autoscaler")
        self._write(found, status, current, desired)

    def _metrics(self, found: Json, target: Json, current: int) -> tuple[list[int], list[Json]]:
        """What each metric wants, and what it is now. Raises :class:`ScalerError`."""
        namespace, wishes, shown = found["metadata"]["namespace"], list[int](), list[Json]()
        for metric in dig(found, "spec.metrics", []):
            if metric["type"] == "Resource":
                value = scalers.cpu(self.cluster, self._pods(target))
                ratio = value / float(dig(metric, "resource.target.averageUtilization", 80))
                now = {"averageUtilization": round(value), "averageValue": f"{round(value)}m"}
                shown.append({"type": "Resource", "resource": {"name": "cpu", "current": now}})
                wishes.append(_proposal(current, ratio, current * ratio))
                continue
            external = metric["external"]
            value = self._external(namespace, external)
            average = external["target"]["type"] == "AverageValue"
            threshold = float(parse_quantity(external["target"]["averageValue" if average else "value"]))
            ratio = value / (threshold * current) if average else value / threshold
            per_pod = {"averageValue": _quantity(value / current)} if average else {"value": _quantity(value)}
            shown.append({"type": "External", "external": {"metric": clone(external["metric"]), "current": per_pod}})
            wishes.append(_proposal(current, ratio, value / threshold if average else current * ratio))
        return wishes, shown

    def _external(self, namespace: str, external: Json) -> float:
        """By KEDA's metrics server: ``s<index>-<type>`` of a ScaledObject."""
        name, kind = external["metric"]["name"], self.store.type("keda.sh", "v1alpha1", "scaledobjects")
        owner = dig(external, "metric.selector.matchLabels", {}).get(SCALED_OBJECT, "")
        scaled = self.store.get(kind, namespace, owner) if kind is not None else None
        triggers = dig(scaled, "spec.triggers", [])
        index = name.removeprefix("s").partition("-")[0]
        if not index.isdigit() or int(index) >= len(triggers):
            raise ScalerError(f"{namespace}/{name}: no matching metrics found for {name}")
        return scalers.read(self.cluster, namespace, triggers[int(index)])

    def _pods(self, target: Json) -> list[Json]:
        wanted, namespace = from_label_selector(target["spec"]["selector"]), target["metadata"]["namespace"]
        pods = list(self.store.objects(self.kind("pods")).values())
        mine = [pod for pod in pods if pod["metadata"]["namespace"] == namespace and is_ready(pod)]
        return [pod for pod in mine if matches_labels(wanted, pod["metadata"].get("labels"))]

    def _settled(self, key: Key, found: Json, current: int, wish: int, now: float) -> int:
        """A wish after stabilization, the pace of growth, and the limits."""
        down = dig(found, "spec.behavior.scaleDown.stabilizationWindowSeconds", DOWN_SECONDS)
        up = dig(found, "spec.behavior.scaleUp.stabilizationWindowSeconds", UP_SECONDS)
        held = [(at, value) for at, value in self._wishes.get(key, []) if at >= now - max(down, up)]
        self._wishes[key] = [*held, (now, wish)]
        highest = max((value for at, value in held if at >= now - down), default=wish)
        lowest = min((value for at, value in held if at >= now - up), default=wish)
        if wish < current:
            wish = min(max(wish, highest), current)
        elif wish > current:
            wish = max(min(wish, lowest), current)
        wish = min(wish, max(2 * current, current + 4))
        return int(min(max(wish, dig(found, "spec.minReplicas", 1)), found["spec"]["maxReplicas"]))

    def _say(self, status: Json, kind: str, value: bool, reason: str, message: str) -> None:
        set_condition(status, kind, "True" if value else "False", reason, message, self.registry.timestamp())

    def _write(self, found: Json, status: Json, current: int, desired: int) -> None:
        status |= {"currentReplicas": current, "desiredReplicas": desired}
        status.setdefault("currentMetrics", None)
        status["observedGeneration"] = found["metadata"].get("generation", 1)
        self.status(self.kind("horizontalpodautoscalers", "autoscaling", "v2"), found, status)


def _proposal(current: int, ratio: float, wish: float) -> int:
    return current if abs(ratio - 1.0) <= TOLERANCE else math.ceil(round(wish, 6))


def _quantity(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{round(value * 1000)}m"


def _resize(deployment: Json, replicas: int) -> None:
    deployment["spec"]["replicas"] = replicas
