"""From a spec to the ScaledObject that KEDA reads.

(https://keda.sh/docs/2.17/reference/scaledobject-spec/ ; scalers Prometheus and CPU)
"""

from __future__ import annotations

from typing import Any

from contracts.autoscalers import AutoscalerSpec, CpuTrigger, Trigger, query_of

Manifest = dict[str, Any]


def spec_of(spec: AutoscalerSpec, region: str) -> Manifest:
    """The ScaledObject's spec. Whoever deletes it leaves the replicas as they are."""
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.target},
        "minReplicaCount": spec.min_replicas,
        "maxReplicaCount": spec.max_replicas,
        "pollingInterval": spec.polling_seconds,
        "cooldownPeriod": spec.cooldown_seconds,
        "advanced": {
            "restoreToOriginalReplicaCount": False,
            "horizontalPodAutoscalerConfig": {
                "behavior": {
                    "scaleUp": {"stabilizationWindowSeconds": spec.scale_up_stabilization_seconds},
                    "scaleDown": {"stabilizationWindowSeconds": spec.scale_down_stabilization_seconds},
                }
            },
        },
        "triggers": [_trigger(each, spec.namespace, region) for each in spec.triggers],
    }


def _trigger(trigger: Trigger, namespace: str, region: str) -> Manifest:
    if isinstance(trigger, CpuTrigger):
        return {"type": "cpu", "metricType": "Utilization", "metadata": {"value": str(trigger.utilization)}}
    metadata = {
        "serverAddress": trigger.address(region),
        "query": query_of(trigger, namespace),
        "threshold": f"{trigger.threshold:g}",
        "activationThreshold": f"{trigger.activation:g}",
    }
    if trigger.workspace_id is not None:
        # Requests are signed with what KEDA's operator may do itself. (KEDA: Prometheus scaler, Amazon Managed Service)
        metadata |= {"awsRegion": region, "identityOwner": "operator"}
    per_replica = getattr(trigger, "per_replica", True)
    return {"type": "prometheus", "metricType": "AverageValue" if per_replica else "Value", "metadata": metadata}
