"""Nodes, read for lists. A thousand nodes are read once for all their pages."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio import activity

from activities.aws import AwsClients
from activities.context import Threads
from activities.errors import fail
from activities.hyperpod.cluster import describe
from activities.hyperpod.groups import Specification
from activities.hyperpod.observe import facts_for
from activities.instance_types import InstanceFacts
from activities.kubernetes import KubernetesClients, time_of
from activities.nodes.pods import as_pod, live_pods
from activities.nodes.sight import Raw, members, nodes_of
from activities.nodes.view import Use, key_of, summarize, use_of, views
from contracts.node_views import READ_NODES, NodesRead, NodesSummary, NodeView, PodOnNode, ReadNodes
from contracts.problem import ProblemCode

KEEP_SECONDS = 5.0
"""So long a first page's reading serves the pages after it, and summaries, too."""
MOST_KEPT = 16


@dataclass(frozen=True)
class Reading:
    views: list[NodeView]
    summary: NodesSummary
    at: datetime


class NodeReads:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], tuple[float, Reading]] = {}

    @activity.defn(name=READ_NODES.name)
    def read_nodes(self, request: ReadNodes) -> NodesRead:
        """A page of the cluster's nodes with health and use, and a summary of all. Raises NOT_FOUND where the one node
        that is asked for is not there."""
        may_be_old = request.after is not None or request.size == 0
        reading = self._kept_reading(request) if may_be_old else None
        if reading is None:
            reading = self._read(request)
        if request.node is not None:
            return self._one(request, request.node, reading)
        matching = [
            view
            for view in reading.views
            if (request.group is None or request.group in (view.group, view.node_pool))
            and not (request.unhealthy and view.healthy)
        ]
        after = request.after
        rest = matching if after is None else [view for view in matching if key_of(view) > after]
        page = rest[: request.size]
        return NodesRead(
            nodes=page,
            summary=reading.summary,
            matching=len(matching),
            last=key_of(page[-1]) if page and len(rest) > len(page) else None,
            read_at=reading.at,
        )

    def _one(self, request: ReadNodes, name: str, reading: Reading) -> NodesRead:
        found = next((view for view in reading.views if name in names_of(view)), None)
        if found is None:
            fail(
                ProblemCode.NOT_FOUND,
                f"cluster {request.cluster} has no node {name}",
                "List the nodes: it may have been replaced meanwhile.",
            )
        pods: list[PodOnNode] = []
        if request.eks_cluster is not None and found.kubernetes_name is not None:
            with self._kubernetes.connect(request.region, request.eks_cluster) as api:
                pods = [as_pod(pod) for pod in live_pods(api, [found.kubernetes_name])]
        pods.sort(key=lambda pod: (pod.namespace, pod.name))
        return NodesRead(nodes=[found], summary=reading.summary, matching=1, pods=pods, read_at=reading.at)

    def _kept_reading(self, request: ReadNodes) -> Reading | None:
        with self._lock:
            kept = self._kept.get(_place(request))
        return kept[1] if kept is not None and time.monotonic() - kept[0] < KEEP_SECONDS else None

    def _read(self, request: ReadNodes) -> Reading:
        with Threads(max_workers=2, thread_name_prefix="nodes") as pool:
            sagemaker = pool.submit(self._sagemaker, request)
            kubernetes = pool.submit(self._in_kubernetes, request)
        cluster, listed, facts = sagemaker.result()
        nodes, use, at = kubernetes.result()
        found = views(cluster, listed, nodes, use, facts)
        reading = Reading(found, summarize(found, use), at)
        with self._lock:
            now = time.monotonic()
            fresh = {place: each for place, each in self._kept.items() if now - each[0] < KEEP_SECONDS}
            self._kept = dict(list(fresh.items())[-MOST_KEPT:]) | {_place(request): (now, reading)}
        return reading

    def _sagemaker(self, request: ReadNodes) -> tuple[Specification | None, list[Raw], dict[str, InstanceFacts]]:
        """Nothing where the record names no HyperPod cluster, or its cluster is gone."""
        if request.hyperpod is None:
            return None, [], {}
        found = describe(self._aws, request.region, request.hyperpod)
        if found is None:
            return None, [], {}
        return found, members(self._aws, request.region, found), facts_for(self._aws, request.region, found)

    def _in_kubernetes(self, request: ReadNodes) -> tuple[list[Raw], Use, datetime]:
        """Nodes, what pods use of them, and when that was, by the cluster's clock."""
        if request.eks_cluster is None:
            return [], Use(), datetime.now(UTC)
        with self._kubernetes.connect(request.region, request.eks_cluster) as api:
            return nodes_of(api), use_of(live_pods(api)), time_of(api)


def names_of(view: NodeView) -> set[str | None]:
    """Everything that the node may be called."""
    hyperpod = f"hyperpod-{view.instance_id}" if view.instance_id else None
    return {view.name, view.instance_id, view.logical_id, view.kubernetes_name, hyperpod} - {None}


def _place(request: ReadNodes) -> tuple[str, ...]:
    return request.region, request.hyperpod or "", request.eks_cluster or ""
