"""Ray clusters as lists show them."""

from __future__ import annotations

from datetime import UTC, datetime

from activities.deployments.trouble import is_ready
from activities.deployments.view import STUCK
from activities.errors import clean
from activities.jobs.view import as_pod
from activities.nodes.sight import Raw
from activities.ray import is_head
from activities.ray_clusters import objects
from contracts.names import ANNOTATION_OPERATION
from contracts.ray_clusters import RayClusterState, RayClusterView, dashboard_address
from contracts.ray_parts import ray_version_of


def as_view(found: Raw, pods: list[Raw]) -> RayClusterView:
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    made_from = objects.spec_of(found)
    wanted = sum(int(group.get("replicas") or 0) for group in spec.get("workerGroupSpecs") or ())
    live = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    ready = sum(is_ready(pod) for pod in live if not is_head(pod))
    head_ready = any(is_ready(pod) for pod in live if is_head(pod))
    state, reason, detail = _state(found, live, wanted, ready, head_ready)
    image = _image(spec)
    name, namespace = metadata["name"], metadata["namespace"]
    head = status.get("head") or {}
    return RayClusterView(
        namespace=namespace,
        name=name,
        state=state,
        reason=reason,
        detail=detail,
        image=image,
        ray_version=spec.get("rayVersion") or ray_version_of(image),
        workers=wanted,
        ready=ready,
        head_ready=head_ready,
        gpus=made_from.gpus if made_from is not None else 0,
        dashboard=dashboard_address(name, namespace) if head_ready or head.get("serviceIP") else None,
        created_at=datetime.fromisoformat(str(metadata["creationTimestamp"])).astimezone(UTC),
        operation=(metadata.get("annotations") or {}).get(ANNOTATION_OPERATION),
    )


def _state(
    found: Raw, pods: list[Raw], wanted: int, ready: int, head_ready: bool
) -> tuple[RayClusterState, str | None, str]:
    """State, Kubernetes' or KubeRay's word for what is in the way, and a line on it."""
    if found["metadata"].get("deletionTimestamp"):
        return RayClusterState.DELETING, None, f"it is being deleted; pods left: {len(pods)}"
    status = found.get("status") or {}
    if (found.get("spec") or {}).get("suspend"):
        return RayClusterState.SUSPENDED, None, "it is suspended: nothing of it runs"
    line = f"head {'ready' if head_ready else 'not ready'}, {ready} of {wanted} workers ready"
    if head_ready and ready >= wanted:
        return RayClusterState.READY, None, line
    waiting = map(as_pod, (pod for pod in pods if not is_ready(pod)))
    stuck = next((each for each in waiting if each.reason in STUCK), None)
    if stuck is not None:
        state = RayClusterState.DEGRADED if head_ready else RayClusterState.FAILED
        return state, stuck.reason, f"{line}: {clean(stuck.message or stuck.reason or '', 300)}"
    if refused := trouble_of(status):
        return RayClusterState.FAILED, refused[0], f"{line}: {refused[1]}"
    return RayClusterState.PROGRESSING, None, line


def trouble_of(status: Raw) -> tuple[str, str] | None:
    """What KubeRay itself says that it cannot do: its word, and a sentence; None where it says nothing of the kind."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            reason = str(condition.get("reason") or "ReplicaFailure")
            return reason, clean(str(condition.get("message") or reason), 300)
    return None


def _image(spec: Raw) -> str:
    containers = (((spec.get("headGroupSpec") or {}).get("template") or {}).get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("image") or "")
