"""What a ScaledObject and its HorizontalPodAutoscaler show of themselves."""

from __future__ import annotations

import json
from functools import partial

from kubernetes import client

from activities.custom import Object
from activities.deployments.objects import SCALED_OBJECT, autoscaler_of
from activities.errors import clean
from activities.kubernetes import read_or_none
from activities.node_pools.objects import is_ours
from contracts.autoscalers import Autoscaler, AutoscalerState

LEAST, MOST = 0, 100
"""KEDA's own limits. (ScaledObject spec: minReplicaCount, maxReplicaCount)"""


def hpa_name(found: Object) -> str:
    told = (found.get("status") or {}).get("hpaName")
    return str(told or f"keda-hpa-{found['metadata']['name']}")


def hpa_of(api: client.ApiClient, found: Object) -> Object | None:
    """The HorizontalPodAutoscaler that KEDA made of a ScaledObject; None before."""
    scaling = client.AutoscalingV2Api(api)
    read = partial(scaling.read_namespaced_horizontal_pod_autoscaler, _preload_content=False)
    answer = read_or_none(read, hpa_name(found), found["metadata"]["namespace"])
    return json.loads(answer.data) if answer is not None else None


def replicas_of(api: client.ApiClient, namespace: str, deployment: str) -> int | None:
    """How many a Deployment is to have; None where there is none."""
    found = read_or_none(client.AppsV1Api(api).read_namespaced_deployment, deployment, namespace)
    return int(found.spec.replicas or 0) if found is not None else None


def target_of(found: Object) -> str:
    return str(found.get("spec", {}).get("scaleTargetRef", {}).get("name", ""))


def as_autoscaler(found: Object, hpa: Object | None, replicas: int | None, cluster: str) -> Autoscaler:
    metadata, spec, status = found["metadata"], found.get("spec", {}), found.get("status") or {}
    state, reason, detail = _state(found, hpa)
    seen = (hpa or {}).get("status") or {}
    return Autoscaler(
        namespace=metadata["namespace"],
        name=metadata["name"],
        target=target_of(found),
        state=state,
        reason=reason,
        detail=clean(detail) if detail else None,
        min_replicas=spec.get("minReplicaCount", LEAST),
        max_replicas=spec.get("maxReplicaCount", MOST),
        replicas=replicas,
        desired_replicas=seen.get("desiredReplicas"),
        last_scaled_at=seen.get("lastScaleTime"),
        last_active_at=status.get("lastActiveTime"),
        triggers=[each.get("type", "") for each in spec.get("triggers", [])],
        managed=is_ours(found, cluster),
    )


def condition(found: Object | None, kind: str) -> Object:
    """A condition of KEDA's or of the HorizontalPodAutoscaler's; empty where it has none of the kind."""
    conditions = ((found or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def lines_of(found: Object, hpa: Object | None) -> list[str]:
    """All conditions, each in a line."""
    return [
        clean(f"{whose} {each['type']} {each['status']}" + (f": {said}" if (said := _said(each)) else ""))
        for whose, each_of in (("ScaledObject", found), ("HorizontalPodAutoscaler", hpa))
        for each in ((each_of or {}).get("status") or {}).get("conditions") or ()
    ]


def _said(condition: Object) -> str:
    return " ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))


def reads_metrics(hpa: Object | None) -> bool:
    """Whether the HorizontalPodAutoscaler has read a metric and follows it."""
    status = (hpa or {}).get("status") or {}
    return condition(hpa, "ScalingActive").get("status") == "True" and bool(status.get("currentMetrics"))


def _state(found: Object, hpa: Object | None) -> tuple[AutoscalerState, str | None, str | None]:
    ready, active = condition(found, "Ready"), condition(found, "Active")
    if "deletionTimestamp" in found["metadata"]:
        return AutoscalerState.DELETING, None, None
    if condition(found, "Paused").get("status") == "True":
        return AutoscalerState.PAUSED, "Paused", condition(found, "Paused").get("message")
    if ready.get("status") == "False":
        return AutoscalerState.FAILED, ready.get("reason"), ready.get("message")
    if ready.get("status") != "True":
        return AutoscalerState.PROGRESSING, None, "KEDA has not looked at it yet"
    scaling = condition(hpa, "ScalingActive")
    if scaling.get("status") == "False" and scaling.get("reason") != "ScalingDisabled":
        return AutoscalerState.FAILED, scaling.get("reason"), scaling.get("message")
    if active.get("status") == "True":
        return AutoscalerState.ACTIVE, active.get("reason"), active.get("message")
    return AutoscalerState.IDLE, active.get("reason"), active.get("message")


def owner_of(api: client.ApiClient, namespace: str, deployment: str, but: str) -> str | None:
    """What decides how many replicas a Deployment has beside the ScaledObject ``but``; None where nothing does."""
    owner = autoscaler_of(api, namespace, deployment)
    return None if owner == f"{SCALED_OBJECT.kind} {but}" else owner
