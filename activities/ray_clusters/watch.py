"""Watching Ray clusters: until head and workers are ready, until the head answers, and until all of it is gone."""

from __future__ import annotations

import time

from kubernetes import client
from temporalio import activity

from activities.deployments import trouble
from activities.deployments.trouble import is_ready
from activities.errors import clean, fail
from activities.kubernetes import KubernetesClients
from activities.nodes.sight import Raw
from activities.polling import Memory, Seen, wait_until
from activities.ray import is_head
from activities.ray_clusters import objects
from activities.ray_clusters.view import trouble_of
from activities.settings import Settings
from contracts.ray_clusters import (
    WAIT_FOR_DASHBOARD,
    WAIT_FOR_RAY_CLUSTER,
    WAIT_FOR_RAY_CLUSTER_GONE,
    DashboardAnswered,
    RayClusterGone,
    RayClusterRef,
    RayClusterRuns,
    WatchDashboard,
    WatchRayCluster,
    dashboard_address,
)
from contracts.words import some

LOOKED_AT = 5
"""Pods that are asked what holds them up, of those that are not ready."""
SHOWN = 3
PASSING_SECONDS = 300.0
"""What may pass by itself is a problem after so long; no node, after ``shortfall_patience``."""


class RayClusterWaits:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=WAIT_FOR_RAY_CLUSTER.name)
    async def wait_for_pods(self, request: WatchRayCluster) -> RayClusterRuns:
        """Until head and workers are ready. Raises the problem of what holds one up and does not pass."""

        def look(memory: Memory) -> Seen[RayClusterRuns]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = objects.required(api, request.namespace, request.name)
                pods = [
                    pod
                    for pod in objects.pods_of(api, request.namespace, request.name)
                    if not pod["metadata"].get("deletionTimestamp")
                ]
                return self._look(api, request, found, pods, memory)

        limit, pace = WAIT_FOR_RAY_CLUSTER.limit, self._settings.poll_seconds
        return await wait_until(look, what="a Ray cluster whose pods are ready", limit=limit, poll_seconds=pace)

    def _look(
        self, api: client.ApiClient, request: WatchRayCluster, found: Raw, pods: list[Raw], memory: Memory
    ) -> Seen[RayClusterRuns]:
        head = any(is_ready(pod) for pod in pods if is_head(pod))
        ready = sum(is_ready(pod) for pod in pods if not is_head(pod))
        line = f"head {'ready' if head else 'not ready'}, {ready} of {request.workers} workers ready"
        if head and ready >= request.workers:
            nodes = sorted({pod["spec"]["nodeName"] for pod in pods if is_ready(pod)})
            runs = RayClusterRuns(name=request.name, namespace=request.namespace, workers=ready, nodes=nodes)
            return Seen(line, runs)
        waiting = [pod for pod in pods if not is_ready(pod)]
        troubles = [each for pod in waiting[:LOOKED_AT] if (each := trouble.find(api, pod, 30)) is not None]
        since: dict[str, float] = memory.notes.setdefault("since", {})
        for over in set(since) - {each.reason for each in troubles}:
            del since[over]
        for each in troubles:
            patience = self._settings.shortfall_patience
            lasts = patience if each.scheduling else min(PASSING_SECONDS, patience)
            began = since.setdefault(each.reason, time.time())
            if not each.passes or time.time() - began >= lasts:
                detail = _of_ray(each.detail)
                fail(each.code, f"{line}: {detail}", _of_ray(each.remedy), field=_field(each.field), retryable=True)
        if troubles:
            return Seen(f"{line}: {_of_ray(troubles[0].detail)}")
        if (refused := trouble_of(found.get("status") or {})) is not None:
            return Seen(f"{line}: KubeRay: {refused[1]}")
        if not pods:
            return Seen("KubeRay has made no pod yet" + self._warned(api, request))
        return Seen(line)

    @staticmethod
    def _warned(api: client.ApiClient, request: WatchRayCluster) -> str:
        """What KubeRay says in events of a RayCluster that it does not take."""
        events = trouble.events_of(api, request.namespace, "RayCluster", request.name)
        warned = [each for each in events if each.get("type") == "Warning"]
        return f": {clean(str(warned[-1].get('message') or warned[-1].get('reason')), 240)}" if warned else ""

    @activity.defn(name=WAIT_FOR_DASHBOARD.name)
    async def wait_for_dashboard(self, request: WatchDashboard) -> DashboardAnswered:
        """Until the head tells Ray's version, through the Kubernetes API. Says where that is another than was said."""

        def look(memory: Memory) -> Seen[DashboardAnswered]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                heads = [pod for pod in objects.pods_of(api, request.namespace, request.name) if is_head(pod)]
                head = next((pod for pod in heads if is_ready(pod)), None)
                if head is None:
                    return Seen("the head is not ready")
                version = objects.version_of(api, head)
            if version is None:
                return Seen("the head does not answer yet")
            note = None
            if request.ray_version not in (None, version):
                note = f"the image has Ray {version}, not {request.ray_version}: correct ray_version"
            answered = DashboardAnswered(
                address=dashboard_address(request.name, request.namespace), ray_version=version, note=note
            )
            return Seen(f"the head answers with Ray {version}", answered)

        limit, pace = WAIT_FOR_DASHBOARD.limit, self._settings.poll_seconds
        return await wait_until(look, what="an answer of the head", limit=limit, poll_seconds=pace)

    @activity.defn(name=WAIT_FOR_RAY_CLUSTER_GONE.name)
    async def wait_until_gone(self, request: RayClusterRef) -> RayClusterGone:
        """Until the RayCluster and its pods are gone."""

        def look(memory: Memory) -> Seen[RayClusterGone]:
            with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
                found = objects.find(api, request.namespace, request.name)
                pods = objects.pods_of(api, request.namespace, request.name)
            if found is None and not pods:
                gone = RayClusterGone(name=request.name, namespace=request.namespace)
                return Seen(f"{request.name} is gone", gone)
            left = [pod["metadata"]["name"] for pod in pods]
            return Seen(f"still there: {some(left, SHOWN)}" if left else f"{request.name} is going")

        limit, pace = WAIT_FOR_RAY_CLUSTER_GONE.limit, self._settings.poll_seconds
        return await wait_until(look, what="the end of the Ray cluster", limit=limit, poll_seconds=pace)


def _of_ray(text: str) -> str:
    """What is said of replicas of a model server, said of pods of Ray."""
    return text.replace("a replica", "a pod").replace("the server", "Ray")


def _field(field: str | None) -> str | None:
    """Fields of a model server's specification that a Ray cluster's does not have."""
    return {"/resources/memory_gib": "/worker_memory_gib", "/command": "/image", "/port": "/image"}.get(
        field or "", field
    )
