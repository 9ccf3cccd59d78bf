"""Pools of model servers, read only."""

from __future__ import annotations

from collections.abc import Iterable

from kubernetes import client
from temporalio import activity

from activities.deployments import objects as deployments
from activities.deployments.read import services_in
from activities.deployments.view import as_view
from activities.errors import fail
from activities.jobs.view import as_pod
from activities.kubernetes import KubernetesClients, time_of
from activities.model_pools import objects
from activities.nodes.sight import Raw
from contracts.deployments import DeploymentState, DeploymentView
from contracts.inference import InferenceService, Serves
from contracts.model_pools import (
    LIST_MODEL_POOLS,
    READ_MODEL_POOL,
    ListModelPools,
    ModelPoolDetail,
    ModelPoolList,
    ModelPoolView,
    PoolAssignment,
    PoolPodView,
    PoolState,
    ReadModelPool,
    Wish,
)
from contracts.pool_moves import LEAVING, UNASSIGNED, PoolPod, counted
from contracts.problem import ProblemCode

MOST_PODS = 500
STATES = {
    DeploymentState.READY: PoolState.READY,
    DeploymentState.PROGRESSING: PoolState.PROGRESSING,
    DeploymentState.DEGRADED: PoolState.DEGRADED,
    DeploymentState.FAILED: PoolState.FAILED,
    DeploymentState.STOPPED: PoolState.PROGRESSING,
    DeploymentState.DELETING: PoolState.DELETING,
}


class ModelPoolReads:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=LIST_MODEL_POOLS.name)
    def list_pools(self, request: ListModelPools) -> ModelPoolList:
        """Every pool of this cluster, and how its pods are handed out."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            found = [each for each in objects.pools(api, request.namespace) if objects.is_pool(each, scope.cluster)]
            services = services_in(api, scope, request.eks_cluster, request.namespace) if found else []
            views = [as_pool(each, _pods(api, each), services) for each in found]
        ordered = sorted(views, key=lambda view: (view.namespace, view.name))
        return ModelPoolList(model_pools=ordered, read_at=time_of(api))

    @activity.defn(name=READ_MODEL_POOL.name)
    def read_pool(self, request: ReadModelPool) -> ModelPoolDetail:
        """One pool with its pods. Raises NOT_FOUND with the others of its namespace."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            found = deployments.deployment(api, request.namespace, request.name)
            if found is None or not objects.is_pool(found, scope.cluster):
                fail(
                    ProblemCode.NOT_FOUND,
                    absent(api, scope.cluster, request.namespace, request.name),
                    "List the model pools: it may be in another namespace, or others made it.",
                )
            pods = _pods(api, found)
            view = as_pool(found, pods, services_in(api, scope, request.eks_cluster, request.namespace))
        shown = sorted(map(_as_pod_view, pods), key=lambda pod: (pod.business, pod.name))[:MOST_PODS]
        return ModelPoolDetail(pool=view, spec=objects.spec_of(found), pods=shown, read_at=time_of(api))


def absent(api: client.ApiClient, cluster: str, namespace: str, name: str) -> str:
    """That a namespace has no pool of the name, and which it has."""
    here = sorted(each["metadata"]["name"] for each in objects.pools(api, namespace) if objects.is_pool(each, cluster))
    told = f"; it has {', '.join(here[:5])}" if here else ""
    return f"namespace {namespace} of cluster {cluster} has no model pool {name}{told}"


def as_pool(found: Raw, raw: list[Raw], services: Iterable[InferenceService]) -> ModelPoolView:
    metadata = found["metadata"]
    server = as_view(found, raw, (), None)
    pods = [objects.as_pool_pod(each) for each in raw]
    wish, wrong = objects.wish_of(found)
    have = counted(pods)
    state, detail = _state(server, wish, have, wrong)
    return ModelPoolView(
        namespace=server.namespace,
        name=server.name,
        state=state,
        detail=detail,
        engine=server.engine,
        image=server.image,
        model=server.model,
        gpu_count=server.gpu_count,
        replicas=server.replicas,
        ready=server.ready,
        unassigned=have.get(UNASSIGNED, 0),
        leaving=sum(pod.business == LEAVING and not pod.ending for pod in pods),
        assignments=_assignments(wish, pods, have),
        services=[
            each
            for each in services
            if each.serves is Serves.POOL_SERVICE and (each.namespace, each.of) == (metadata["namespace"], server.name)
        ],
        created_at=server.created_at,
        operation=server.operation,
    )


def _state(server: DeploymentView, wish: Wish, have: dict[str, int], wrong: str | None) -> tuple[PoolState, str]:
    state = STATES[server.state]
    if state is PoolState.DELETING or state is PoolState.FAILED:
        return state, server.detail
    if wrong is not None:
        return PoolState.DEGRADED, wrong
    for service, count in sorted(wish.assignments.items()):
        if have.get(service, 0) < count:
            return PoolState.DEGRADED, f"{service} has {have.get(service, 0)} of {count} pods; {server.detail}"
    return state, server.detail


def _assignments(wish: Wish, pods: list[PoolPod], have: dict[str, int]) -> list[PoolAssignment]:
    """Of every service that is to have pods, or has some."""
    there = [pod.business for pod in pods if not pod.ending]
    names = sorted({*wish.assignments, *there} - {UNASSIGNED, LEAVING})
    return [
        PoolAssignment(
            service=name, wanted=wish.assignments.get(name, 0), pods=there.count(name), ready=have.get(name, 0)
        )
        for name in names
    ]


def _as_pod_view(found: Raw) -> PoolPodView:
    pod, shown = objects.as_pool_pod(found), as_pod(found)
    return PoolPodView(
        name=pod.name,
        business=pod.business,
        ready=pod.ready,
        node=shown.node,
        phase="Terminating" if found["metadata"].get("deletionTimestamp") else shown.phase,
        reason=shown.reason,
    )


def _pods(api: client.ApiClient, found: Raw) -> list[Raw]:
    return objects.pods_of(api, found["metadata"]["namespace"], found["metadata"]["name"])
