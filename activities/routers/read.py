"""Routers, read only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kubernetes import client
from temporalio import activity
from urllib3.exceptions import HTTPError

from activities.deployments import objects as deployments
from activities.deployments.read import services_in
from activities.deployments.view import as_view
from activities.errors import fail
from activities.inference import proxy
from activities.inference.proxy import Upstream
from activities.jobs.view import as_pod, by_need
from activities.kubernetes import KubernetesClients, time_of
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw
from activities.routers import objects
from activities.routers.watch import pods_of, with_pods
from contracts.inference import InferenceService, Serves
from contracts.problem import ProblemCode
from contracts.routers import (
    LIST_ROUTERS,
    READ_ROUTER,
    ListRouters,
    ReadRouter,
    RouterDetail,
    RouterList,
    RouterSpec,
    RouterView,
    Worker,
)

SHOWN_METRICS = (
    *("sgl_router_requests_total", "sgl_router_running_requests"),
    *("sgl_router_job_queue_depth", "sgl_router_active_workers"),
)
SECONDS = 5.0
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(?P<value>[-+.\deE]+)\s*$", re.MULTILINE)


class RouterReads:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=LIST_ROUTERS.name)
    def list_routers(self, request: ListRouters) -> RouterList:
        """Every router of this cluster."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            found = [each for each in objects.routers(api, request.namespace) if is_ours(each, scope.cluster)]
            services = services_in(api, scope, request.eks_cluster, request.namespace) if found else []
            views = [_as_router(api, each, services) for each in found]
        ordered = sorted(views, key=lambda view: (view.namespace, view.name))
        return RouterList(routers=ordered, read_at=time_of(api))

    @activity.defn(name=READ_ROUTER.name)
    def read_router(self, request: ReadRouter) -> RouterDetail:
        """One router with the servers that it sees. Raises NOT_FOUND with the others of its namespace."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            found = deployments.deployment(api, request.namespace, request.name)
            if found is None or not is_ours(found, scope.cluster) or not objects.is_router(found):
                detail = absent(api, scope.cluster, request.namespace, request.name)
                remedy = "List the routers: it may be in another namespace, or others made it."
                fail(ProblemCode.NOT_FOUND, detail, remedy)
            view = _as_router(api, found, services_in(api, scope, request.eks_cluster, request.namespace))
            spec, pods = objects.spec_of(found), pods_of(api, request.namespace, request.name)
            workers, metrics = _seen(api, spec, pods) if spec is not None else ([], {})
        return RouterDetail(
            router=view,
            spec=spec,
            workers=workers,
            pods=sorted(map(as_pod, pods), key=by_need),
            metrics=metrics,
            read_at=time_of(api),
        )


def absent(api: client.ApiClient, cluster: str, namespace: str, name: str) -> str:
    """That a namespace has no router of the name, and which it has."""
    here = sorted(each["metadata"]["name"] for each in objects.routers(api, namespace) if is_ours(each, cluster))
    told = f"; it has {', '.join(here[:5])}" if here else ""
    return f"namespace {namespace} of cluster {cluster} has no router {name}{told}"


def _as_router(api: client.ApiClient, found: Raw, services: Iterable[InferenceService]) -> RouterView:
    namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
    server = as_view(found, pods_of(api, namespace, name), (), None)
    spec = objects.spec_of(found)
    there = objects.ready(objects.targets(api, namespace, spec.target)) if spec is not None else []
    mine = [
        each for each in services if each.serves is Serves.ROUTER and (each.namespace, each.of) == (namespace, name)
    ]
    return RouterView(
        namespace=namespace,
        name=name,
        state=server.state,
        reason=server.reason,
        detail=server.detail,
        target=spec.target.words if spec is not None else "",
        policy=spec.policy if spec is not None else None,
        image=server.image,
        replicas=server.replicas,
        ready=server.ready,
        targets=len(there),
        services=mine,
        created_at=server.created_at,
        operation=server.operation,
    )


def _seen(api: client.ApiClient, spec: RouterSpec, pods: list[Raw]) -> tuple[list[Worker], dict[str, float]]:
    """The servers and metrics of the first pod that is ready; nothing where none answers."""
    own = next((pod["metadata"]["name"] for pod in objects.ready(pods)), None)
    if own is None:
        return [], {}
    try:
        workers = objects.workers_of(api, Upstream(spec.namespace, own, spec.port, "pods")) or []
        answer = proxy.get(api, Upstream(spec.namespace, own, spec.metrics_port, "pods"), "/metrics", SECONDS)
    except (HTTPError, OSError):
        return [], {}
    there = objects.targets(api, spec.namespace, spec.target)
    return with_pods(workers, there), metrics_of(answer.text if answer.ok else "")


def metrics_of(exposition: str) -> dict[str, float]:
    """The numbers that are shown, each summed over its labels.

    (Prometheus: text-based exposition format; SGLang: router metrics)
    """
    found: dict[str, float] = {}
    for sample in _SAMPLE.finditer(exposition):
        if sample["name"] in SHOWN_METRICS:
            found[sample["name"]] = found.get(sample["name"], 0.0) + float(sample["value"])
    return found
