"""Draining nodes: cordon them, evict their pods within the disruption budgets, and let pods come again.

For workflows there are three activities (``contracts.drain``): ``CORDON_NODES``, then ``DRAIN_NODES``, which asks for
evictions again until the nodes are empty, and ``UNCORDON_NODES`` where the nodes stay. For activities there are the
functions that they are made of: ``drain.cordon(api, node, operation)``, ``drain.evict(api, node)`` (one round: what may
go is asked to go, what is left is given back) and ``drain.uncordon(api, node)``. All may be repeated.

Left where they are, as ``kubectl drain --ignore-daemonsets --delete-emptydir-data`` does: pods of DaemonSets, mirror
pods of the kubelet, and pods that have ended.
API: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities.context import operation_id
from activities.errors import fail
from activities.kubernetes import REQUEST_TIMEOUT, Connection, KubernetesClients, api_client
from activities.nodes.sight import Raw, items
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.drain import CORDON_NODES, DRAIN_NODES, UNCORDON_NODES, Cordoned, CordonNodes, Drained, DrainNodes
from contracts.names import LABEL_DOMAIN
from contracts.problem import ProblemCode
from contracts.words import number_of

ANNOTATION_CORDONED = f"{LABEL_DOMAIN}/cordoned-by"
"""On nodes that were cordoned from here, the operation: only those are ever uncordoned."""
MIRROR = "kubernetes.io/config.mirror"
LIVE = "status.phase!=Succeeded,status.phase!=Failed"
SHOWN = 5
"""So many pods are named when a drain does not come to its end."""


@dataclass(frozen=True)
class Left:
    """A pod that is still on a node, and why."""

    name: str
    """``<namespace>/<name>``."""
    reason: str


class DrainActivities:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._poll = kubernetes, settings.poll_seconds

    @activity.defn(name=CORDON_NODES.name)
    def cordon_nodes(self, request: CordonNodes) -> Cordoned:
        """No more pods come to the nodes."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            changed = [node for node in request.nodes if cordon(api, node, operation_id())]
        return Cordoned(nodes=changed, changed=bool(changed))

    @activity.defn(name=UNCORDON_NODES.name)
    def uncordon_nodes(self, request: CordonNodes) -> Cordoned:
        """Pods may come again to those of the nodes that were cordoned from here."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            changed = [node for node in request.nodes if uncordon(api, node)]
        return Cordoned(nodes=changed, changed=bool(changed))

    @activity.defn(name=DRAIN_NODES.name)
    async def drain_nodes(self, request: DrainNodes) -> Drained:
        """Evict the nodes' pods until none is left; a budget that forbids it now is asked again with every look.

        Raises NOT_READY after ``timeout_minutes``, with the pods that are left and what keeps them.
        """
        connection: list[Connection] = []
        deadline = activity.info().scheduled_time + timedelta(minutes=request.timeout_minutes)

        def look(memory: Memory) -> Seen[Drained]:
            if not connection:
                connection.append(self._kubernetes.connection(request.scope.region, request.eks_cluster))
            with api_client(connection[0]) as api:
                left = [each for node in request.nodes for each in evict(api, node)]
            # No pods come to a cordoned node, so the most that were seen at once are all.
            asked = memory.notes["asked"] = max(memory.notes.get("asked", 0), len(left))
            if not left:
                return Seen("no pods are left", Drained(nodes=request.nodes, evicted=asked))
            shown = "; ".join(f"{each.name}: {each.reason}" for each in left[:SHOWN])
            if datetime.now(UTC) >= deadline:
                fail(
                    ProblemCode.NOT_READY,
                    f"{number_of(len(left), 'pod')} left after {number_of(request.timeout_minutes, 'minute')}: {shown}",
                    "Let the disruption budgets allow it (more replicas), or end the pods; then retry, or skip.",
                    retryable=True,
                )
            return Seen(f"{number_of(len(left), 'pod')} to go: {shown}")

        limit = DRAIN_NODES.limit
        return await wait_until(look, what="nodes without pods", limit=limit, poll_seconds=self._poll)


def cordon(api: client.ApiClient, node: str, operation: str) -> bool:
    """Let no more pods come; whether that changed anything. False also for a node that is not there."""
    found = _node(api, node)
    if found is None or found.spec.unschedulable:
        return False
    return _patch(api, node, True, operation)


def uncordon(api: client.ApiClient, node: str) -> bool:
    """Let pods come again, if the node was cordoned by :func:`cordon`; whether that changed anything."""
    found = _node(api, node)
    if found is None or ANNOTATION_CORDONED not in (found.metadata.annotations or {}):
        return False
    return _patch(api, node, None, None)


def evict(api: client.ApiClient, node: str) -> list[Left]:
    """Ask every pod of the node that can move to go. Returns those that are still there, with the reason."""
    left = []
    for pod in movable_pods(api, node):
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if pod.metadata.deletion_timestamp is not None:
            left.append(Left(name, "is ending"))
        elif (reason := _evict(api, pod)) is not None:
            left.append(Left(name, reason))
    return left


def movable_pods(api: client.ApiClient, node: str | None = None) -> Iterator[Any]:
    """Pods of the node (of all nodes, without one) that are work: no daemons, no mirror pods, none that has ended."""
    selector = ",".join((*((f"spec.nodeName={node}",) if node else ()), LIVE))
    # Most pods of a large cluster are daemons: only the others are worth their models.
    for pod in items(client.CoreV1Api(api).list_pod_for_all_namespaces, field_selector=selector):
        if (pod.get("spec") or {}).get("nodeName") and _can_move(pod):
            yield client.V1Pod.from_dict(pod)


def _can_move(pod: Raw) -> bool:
    owners = pod["metadata"].get("ownerReferences") or []
    daemon = any(owner["kind"] == "DaemonSet" and owner.get("controller") for owner in owners)
    return not daemon and MIRROR not in (pod["metadata"].get("annotations") or {})


def _evict(api: client.ApiClient, pod: Any) -> str | None:
    """Why the pod is still there; None where it is gone. The UID keeps a successor of the same name from harm."""
    body = client.V1Eviction(
        metadata=client.V1ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace),
        delete_options=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=pod.metadata.uid)),
    )
    try:
        client.CoreV1Api(api).create_namespaced_pod_eviction(
            pod.metadata.name, pod.metadata.namespace, body, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status in (404, 409):
            return None if error.status == 404 else "has changed; it is looked at again"
        if error.status == 429 and (reason := _budget(error)) is not None:
            return reason
        raise
    return "is ending"


def _budget(error: ApiException) -> str | None:
    """What the disruption budget says; None for a 429 of the API server itself."""
    try:
        details = json.loads(error.body or "").get("details") or {}
    except (AttributeError, ValueError):
        return None
    causes = [cause for cause in details.get("causes") or [] if cause.get("reason") == "DisruptionBudget"]
    return causes[0].get("message") or "a disruption budget does not allow it" if causes else None


def _node(api: client.ApiClient, name: str) -> Any | None:
    try:
        return client.CoreV1Api(api).read_node(name, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status == 404:
            return None
        raise


def _patch(api: client.ApiClient, node: str, unschedulable: bool | None, operation: str | None) -> bool:
    body = {
        "metadata": {"annotations": {ANNOTATION_CORDONED: operation}},
        "spec": {"unschedulable": unschedulable},
    }
    try:
        client.CoreV1Api(api).patch_node(node, body, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    return True
