"""Pods on nodes: what they belong to, and what devices they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from kubernetes import client

from activities.nodes.sight import Raw, count, items, labels_of
from contracts.node_views import PodOnNode
from contracts.nodes import ANNOTATION_CHECKPOINT

DEVICES = ("nvidia.com/", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa")
"""Prefixes of the extended resources that device plugins of GPUs, Neuron and EFA advertise."""
EFA_PREFIX = "vpc.amazonaws.com/"
LIVE = "status.phase!=Succeeded,status.phase!=Failed"
FEW_NODES = 25
"""Up to so many nodes, their pods are read node by node; of more, all pods of the cluster."""
TRAINING = frozenset(
    {"HyperPodPyTorchJob", "PyTorchJob", "MPIJob", "TFJob", "TrainJob", "JobSet", "RayJob", "RayCluster", "Job"}
)
"""Kinds of owners whose pods lose what they have computed since their last checkpoint."""


def live_pods(api: client.ApiClient, nodes: list[str] | None = None) -> Iterator[Raw]:
    """Pods that have not ended: of all nodes and of none, or of the named nodes only."""
    listing = client.CoreV1Api(api).list_pod_for_all_namespaces
    if nodes is None:
        yield from items(listing, field_selector=LIVE)
    elif len(nodes) <= FEW_NODES:

        def of(node: str) -> list[Raw]:
            return list(items(listing, field_selector=f"spec.nodeName={node},{LIVE}"))

        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="pods") as pool:
            for found in pool.map(of, nodes):
                yield from found
    else:
        wanted = set(nodes)
        yield from (pod for pod in items(listing, field_selector=LIVE) if node_of(pod) in wanted)


def node_of(pod: Raw) -> str | None:
    return (pod.get("spec") or {}).get("nodeName") or None


def owner_of(pod: Raw) -> tuple[str, str]:
    """Kind and name of what a pod belongs to; a Deployment rather than its ReplicaSet. (``Pod``, own name) without."""
    metadata = pod["metadata"]
    owner = next((each for each in metadata.get("ownerReferences") or [] if each.get("controller")), None)
    if owner is None:
        return "Pod", metadata["name"]
    ending = f"-{labels_of(pod).get('pod-template-hash', '')}"
    if owner["kind"] == "ReplicaSet" and len(ending) > 1 and owner["name"].endswith(ending):
        return "Deployment", owner["name"].removesuffix(ending)
    return owner["kind"], owner["name"]


def requested(pod: Raw) -> Counter[str]:
    """Devices that a pod holds on its node.

    The most of its containers together and of any one init container; a sidecar counts with the containers.
    (Kubernetes: init containers, resource sharing within containers)
    """
    spec = pod.get("spec") or {}
    first = spec.get("initContainers") or []
    sidecars = [each for each in first if each.get("restartPolicy") == "Always"]
    total: Counter[str] = Counter()
    for container in [*(spec.get("containers") or []), *sidecars]:
        total.update(_devices(container))
    for container in first:
        for name, number in _devices(container).items():
            total[name] = max(total[name], number)
    return total


def _devices(container: Raw) -> dict[str, int]:
    resources = container.get("resources") or {}
    # Limits of extended resources are their requests, where only limits are given.
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: count(asked, name) for name in asked if name.startswith(DEVICES)}


def checkpoint_of(pod: Raw) -> datetime | None:
    """When the pod says that its last checkpoint was complete."""
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_CHECKPOINT)
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def is_daemon(pod: Raw) -> bool:
    return owner_of(pod)[0] in ("DaemonSet", "Node")


def as_pod(pod: Raw) -> PodOnNode:
    kind, owner = owner_of(pod)
    devices: Any = requested(pod)
    return PodOnNode(
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        owner_kind=kind,
        owner=owner,
        phase=(pod.get("status") or {}).get("phase") or "Unknown",
        accelerators=sum(number for name, number in devices.items() if not name.startswith(EFA_PREFIX)),
        checkpoint_at=checkpoint_of(pod),
    )
