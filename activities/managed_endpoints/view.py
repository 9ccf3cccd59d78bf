"""What an InferenceEndpointConfig or a JumpStartModel shows of itself."""

from __future__ import annotations

from typing import Any

from activities.custom import Kind, Object
from activities.errors import clean
from activities.managed_endpoints.manifests import GROUP, STRATEGIES, VERSION
from activities.node_pools.objects import is_ours
from contracts.managed_endpoints import EndpointCondition, EndpointState, ManagedEndpoint

ENDPOINT = Kind(GROUP, VERSION, "InferenceEndpointConfig", "inferenceendpointconfigs")
JUMPSTART = Kind(GROUP, VERSION, "JumpStartModel", "jumpstartmodels")
KINDS = {each.kind: each for each in (ENDPOINT, JUMPSTART)}

COMPLETE, FAILED = "DeploymentComplete", "Failed"
SAGEMAKER_COMPLETE = "CreationCompleted"
"""(hyperpod-cli: what its own tests wait for)"""
_ROUTES = {word: strategy for strategy, word in STRATEGIES.items()}


def as_endpoint(found: Object, cluster: str, *, service: str | None = None, port: int | None = None) -> ManagedEndpoint:
    """``service``: by which the cluster calls it."""
    metadata, spec, status = found["metadata"], found.get("spec", {}), found.get("status") or {}
    deployment = status.get("deploymentStatus") or {}
    sagemaker = (status.get("endpoints") or {}).get("sagemaker") or {}
    routing = spec.get("intelligentRoutingSpec") or {}
    state, reason, detail = _state(found, spec, status)
    jumpstart = found["kind"] == JUMPSTART.kind
    kind: Any = found["kind"]
    return ManagedEndpoint(
        namespace=metadata["namespace"],
        name=metadata["name"],
        kind=kind,
        state=state,
        reason=reason,
        detail=clean(detail) if detail else None,
        model=spec.get("model", {}).get("modelId") if jumpstart else spec.get("modelName"),
        source="jumpstart" if jumpstart else spec.get("modelSourceConfig", {}).get("modelSourceType"),
        instance_types=_types(spec),
        replicas=spec.get("replicas", 1),
        ready_replicas=(deployment.get("status") or {}).get("readyReplicas", 0),
        routing=_ROUTES.get(routing.get("routingStrategy", "prefixaware")) if routing.get("enabled") else None,
        autoscaled="autoScalingSpec" in spec,
        service=service,
        port=port,
        sagemaker_endpoint=sagemaker.get("endpointArn") or None,
        sagemaker_state=sagemaker.get("state"),
        certificate_domains=list((status.get("tlsCertificate") or {}).get("certificateDomainNames") or ()),
        invocation_path=spec.get("invocationEndpoint"),
        created_at=metadata["creationTimestamp"],
        managed=is_ours(found, cluster),
    )


def conditions_of(found: Object) -> list[EndpointCondition]:
    return [
        EndpointCondition(
            type=each["type"],
            status=each["status"],
            reason=each.get("reason", ""),
            message=clean(each.get("message") or ""),
        )
        for each in (found.get("status") or {}).get("conditions") or ()
    ]


def may_rest(found: Object) -> bool:
    """Whether metrics may leave it without a replica."""
    scaling = found.get("spec", {}).get("autoScalingSpec") or {}
    return scaling.get("minReplicaCount") == 0


def sagemaker_name(spec: Object) -> str | None:
    """The SageMaker endpoint that a custom resource asks for."""
    return spec.get("endpointName") or (spec.get("sageMakerEndpoint") or {}).get("name") or None


def _state(found: Object, spec: Object, status: Object) -> tuple[EndpointState, str | None, str | None]:
    """State, the operator's word for it, and its sentence."""
    deployment = status.get("deploymentStatus") or {}
    overall, sagemaker = deployment.get("deploymentObjectOverallState"), _sagemaker_state(status)
    word = status.get("state")
    message = deployment.get("message") or _last_message(status)
    if "deletionTimestamp" in found["metadata"]:
        failed = word == "DeletionFailed"
        return (EndpointState.FAILED if failed else EndpointState.DELETING), word or "Deleting", message
    if (seen := status.get("observedGeneration")) is not None and seen < found["metadata"].get("generation", 0):
        return EndpointState.PROGRESSING, "Waiting", "the operator has not seen the last change yet"
    for each in (word, overall, sagemaker):
        if each is not None and FAILED in each:
            return EndpointState.FAILED, deployment.get("reason") or each, message
    if word is None:
        return EndpointState.PROGRESSING, None, "the operator has not looked at it yet"
    if word == COMPLETE and overall in (None, COMPLETE):
        if sagemaker_name(spec) is None or sagemaker == SAGEMAKER_COMPLETE:
            return EndpointState.READY, word, message
        return EndpointState.PROGRESSING, sagemaker, "the SageMaker endpoint is not made yet"
    return EndpointState.PROGRESSING, word, message


def _sagemaker_state(status: Object) -> str | None:
    found = ((status.get("endpoints") or {}).get("sagemaker") or {}).get("state")
    return str(found) if found else None


def _last_message(status: Object) -> str | None:
    """Of the condition that changed last."""
    conditions = sorted(status.get("conditions") or (), key=lambda each: each.get("lastTransitionTime") or "")
    return next((each["message"] for each in reversed(conditions) if each.get("message")), None)


def _types(spec: Object) -> list[str]:
    one = spec.get("instanceType") or (spec.get("server") or {}).get("instanceType")
    return [one] if one else list(spec.get("instanceTypes") or ())
