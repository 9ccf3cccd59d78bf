"""KEDA's admission webhook: one owner for the replicas of a workload.

https://keda.sh/docs/2.17/concepts/admission-webhooks/ ; its words are those of scaledobject_webhook.go there.
Without the webhook's Deployment nobody is asked: its failure policy is Ignore.
"""

from __future__ import annotations

from .errors import ApiError
from .objects import dig
from .resources import Json
from .store import Store

WEBHOOK = "keda-admission-webhooks"
_DENIED = 'admission webhook "vscaledobject.kb.io" denied the request: '


def judge(store: Store, obj: Json) -> None:
    """Raises :class:`ApiError` for a ScaledObject on a workload that something else scales."""
    deployments = store.type("apps", "v1", "deployments")
    if deployments is None or not any(
        name == WEBHOOK and dig(found, "status.availableReplicas", 0)
        for (_, name), found in store.objects(deployments).items()
    ):
        return
    meta, target = obj["metadata"], dig(obj, "spec.scaleTargetRef.name", "")
    said = f"the workload '{target}' of type 'apps/v1.Deployment' is already managed by the "
    scaled = store.type("keda.sh", "v1alpha1", "scaledobjects")
    for (namespace, name), other in list(store.objects(scaled).items()) if scaled is not None else []:
        same = dig(other, "spec.scaleTargetRef.name") == target
        if namespace == meta["namespace"] and name != meta["name"] and same:
            raise ApiError(403, f"{_DENIED}{said}ScaledObject '{name}'")
    hpas = store.type("autoscaling", "v2", "horizontalpodautoscalers")
    for (namespace, name), hpa in list(store.objects(hpas).items()) if hpas is not None else []:
        owners = {(o["kind"], o["name"]) for o in hpa["metadata"].get("ownerReferences") or []}
        mine = ("ScaledObject", meta["name"]) in owners
        if namespace == meta["namespace"] and dig(hpa, "spec.scaleTargetRef.name") == target and not mine:
            raise ApiError(403, f"{_DENIED}{said}hpa '{name}'")
    kinds = {trigger.get("type") for trigger in dig(obj, "spec.triggers", [])}
    if kinds and kinds <= {"cpu", "memory"} and dig(obj, "spec.minReplicaCount") == 0:
        words = "scaledobject has only cpu/memory triggers AND minReplica is 0 (scale to zero doesn't work"
        raise ApiError(403, f"{_DENIED}{words} in this case)")
