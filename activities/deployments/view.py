"""Model servers as lists show them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from activities.deployments import objects
from activities.deployments.manifests import CONTAINER, LABEL_TYPE
from activities.deployments.trouble import is_ready
from activities.errors import clean
from activities.instance_types import NVIDIA
from activities.jobs.view import as_pod
from activities.nodes.sight import Raw, count, labels_of
from contracts.deployments import DeploymentState, DeploymentView
from contracts.inference import InferenceService, Serves
from contracts.names import ANNOTATION_OPERATION
from contracts.node_views import NodeCondition

STUCK = frozenset(
    {"Unschedulable", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "OOMKilled"}
    | {"CreateContainerConfigError", "RunContainerError", "StartError", "Error"}
)
"""Why pods do not come up by themselves, as the kubelet and the scheduler name it."""


def as_view(
    found: Raw, pods: list[Raw], services: Iterable[InferenceService], autoscaled_by: str | None
) -> DeploymentView:
    metadata, spec, status = found["metadata"], found["spec"], found.get("status") or {}
    container = _container(spec)
    made_from = objects.spec_of(found)
    wanted = spec.get("replicas", 1)
    ready, updated = status.get("readyReplicas") or 0, status.get("updatedReplicas") or 0
    state, reason, detail = _state(found, pods, wanted, ready)
    mine = [each for each in services if each.serves is Serves.DEPLOYMENT and _leads_to(each, metadata)]
    return DeploymentView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        state=state,
        reason=reason,
        detail=detail,
        engine=labels_of(found).get("app.kubernetes.io/name", "custom"),
        image=container.get("image") or "",
        model=made_from.read.model if made_from is not None else None,
        gpu_count=count((container.get("resources") or {}).get("limits"), NVIDIA),
        instance_types=_types(spec),
        replicas=wanted,
        ready=ready,
        updated=updated,
        autoscaled_by=autoscaled_by,
        services=mine,
        created_at=datetime.fromisoformat(str(metadata["creationTimestamp"])).astimezone(UTC),
        operation=(metadata.get("annotations") or {}).get(ANNOTATION_OPERATION),
    )


def conditions_of(found: Raw) -> list[NodeCondition]:
    return [
        NodeCondition(
            type=each["type"],
            status=each["status"],
            reason=each.get("reason") or "",
            message=clean(each.get("message") or "", 300),
        )
        for each in (found.get("status") or {}).get("conditions") or ()
    ]


def _leads_to(service: InferenceService, metadata: Raw) -> bool:
    return (service.namespace, service.of) == (metadata["namespace"], metadata["name"])


def _state(found: Raw, pods: list[Raw], wanted: int, ready: int) -> tuple[DeploymentState, str | None, str]:
    """State, Kubernetes' word for what is in the way, and a line on it."""
    line = f"{ready} of {wanted} ready"
    if found["metadata"].get("deletionTimestamp"):
        return DeploymentState.DELETING, None, f"it is being deleted; pods left: {len(pods)}"
    if wanted == 0:
        return DeploymentState.STOPPED, None, "scaled to 0"
    status = found.get("status") or {}
    seen = (status.get("observedGeneration") or 0) >= (found["metadata"].get("generation") or 0)
    whole = (status.get("updatedReplicas") or 0) == wanted == (status.get("replicas") or 0)
    if seen and whole and ready >= wanted:
        return DeploymentState.READY, None, line
    stuck = [each for each in map(as_pod, (pod for pod in pods if not is_ready(pod))) if each.reason in STUCK]
    if not stuck:
        return DeploymentState.PROGRESSING, None, line
    said = stuck[0].message or stuck[0].reason or ""
    state = DeploymentState.DEGRADED if ready else DeploymentState.FAILED
    return state, stuck[0].reason, f"{line}: {clean(said, 300)}"


def _container(spec: Raw) -> Raw:
    containers: list[Raw] = spec["template"]["spec"]["containers"]
    return next((each for each in containers if each["name"] == CONTAINER), containers[0])


def _types(spec: Raw) -> list[str]:
    affinity: Any = (spec["template"]["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    return [
        value
        for term in terms
        for each in term.get("matchExpressions") or ()
        if each.get("key") == LABEL_TYPE
        for value in each.get("values") or ()
    ]
