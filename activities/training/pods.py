"""The pods of a run: which run, which wait, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.jobs.view import as_pod
from activities.kubernetes import REQUEST_TIMEOUT
from activities.nodes.pods import node_of
from activities.nodes.sight import Raw, items
from contracts.jobs import JobPod
from contracts.names import LABEL_DOMAIN, LABEL_TRAINING

TAIL_LINES = 200
TAIL_BYTES = 64 * 1024
STUCK = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
)
"""What a pod does not come out of by itself."""
_INDEX = "training.sagemaker.amazonaws.com/replica-index"
"""UNVERIFIED label of HyperPod's operator; pods are told apart by the number at the end of their names without it."""
LABEL_DRIVER = f"{LABEL_DOMAIN}/driver"
"""On a pod that is none of the run's nodes, but prints what its driver does: its log comes first."""


@dataclass
class PodsSeen:
    """Pods of a run, counted."""

    total: int = 0
    ready: int = 0
    waiting: int = 0
    """Without a node."""
    held: int = 0
    """Nodes that have a pod of the run."""
    reason: str | None = None
    """What holds up most of those that are held up."""
    message: str | None = None
    stuck: JobPod | None = None
    """One that does not start, and will not by itself."""
    views: list[JobPod] = field(default_factory=list)


def pods_of(api: client.ApiClient, namespace: str, name: str) -> list[Raw]:
    """The pods of a run, in the order of their names' numbers."""
    listing = partial(client.CoreV1Api(api).list_namespaced_pod, namespace)
    return sorted(items(listing, label_selector=f"{LABEL_TRAINING}={name}"), key=_number)


def see(pods: list[Raw]) -> PodsSeen:
    present = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    live = [pod for pod in present if not is_driver(pod)]
    seen = PodsSeen(total=len(live), views=[as_pod(pod) for pod in present])
    seen.ready = sum(map(is_ready, live))
    seen.held = len({node for pod in live if (node := node_of(pod)) and not has_ended(pod)})
    waiting = [view for view in seen.views if view.phase == "Pending"]
    seen.waiting = sum(view.node is None for view in waiting)
    reasons = Counter((view.reason, view.message) for view in waiting if view.reason)
    if reasons:
        (seen.reason, seen.message), _ = reasons.most_common(1)[0]
    seen.stuck = next((view for view in waiting if view.reason in STUCK), None)
    return seen


def is_ready(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def is_driver(pod: Raw) -> bool:
    return LABEL_DRIVER in (pod["metadata"].get("labels") or {})


def has_ended(pod: Raw) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def first_rank(pods: list[Raw]) -> Raw | None:
    """The pod whose log tells how far the run is: the one of rank 0, if it runs, else the first that does."""
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    return running[0] if running else None


def tail(api: client.ApiClient, pod: Raw, *, previous: bool = False, lines: int = TAIL_LINES) -> list[str]:
    """The last lines of a pod's log with their times; none where there is no log (any more)."""
    metadata = pod["metadata"]
    names = [each["name"] for each in (pod.get("spec") or {}).get("containers") or ()]
    read: Any = client.CoreV1Api(api).read_namespaced_pod_log
    try:
        answer = read(
            metadata["name"],
            metadata["namespace"],
            container=names[0] if names else None,
            previous=previous,
            tail_lines=lines,
            timestamps=True,
            _preload_content=False,
            _request_timeout=REQUEST_TIMEOUT,
        )
    except ApiException as error:
        if error.status in (400, 404):
            return []
        raise
    return bytes(answer.data[-TAIL_BYTES:]).decode(errors="replace").splitlines()


def _number(pod: Raw) -> tuple[int, str]:
    name = str(pod["metadata"]["name"])
    if is_driver(pod):
        return -1, name
    rank = (pod["metadata"].get("labels") or {}).get(_INDEX) or name.rpartition("-")[2]
    return (int(rank) if rank.isdigit() else 1_000_000), name
