"""Model servers, read only."""

from __future__ import annotations

from collections import defaultdict

from kubernetes import client
from temporalio import activity

from activities.deployments import objects
from activities.deployments.view import as_view, conditions_of
from activities.errors import fail
from activities.inference.services import list_services
from activities.jobs.view import as_pod, by_need
from activities.kubernetes import KubernetesClients, time_of
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, items, labels_of
from contracts.deployments import (
    LIST_DEPLOYMENTS,
    READ_DEPLOYMENT,
    DeploymentDetail,
    DeploymentList,
    ListDeployments,
    ReadDeployment,
)
from contracts.inference import InferenceService, ListServices
from contracts.names import LABEL_DEPLOYMENT
from contracts.network import Scope
from contracts.problem import ProblemCode

MOST_PODS = 200


class DeploymentReads:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=LIST_DEPLOYMENTS.name)
    def list_deployments(self, request: ListDeployments) -> DeploymentList:
        """Every model server that the platform made for this cluster, with what its pods are at."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            found = [each for each in objects.deployments(api, request.namespace) if is_ours(each, scope.cluster)]
            pods = _pods(api) if found else {}
            services = services_in(api, scope, request.eks_cluster, request.namespace) if found else []
            scalers = {space: objects.autoscalers(api, space) for space in {_space(each) for each in found}}
            views = [
                as_view(each, pods.get(_key(each), []), services, scalers[_space(each)].get(each["metadata"]["name"]))
                for each in found
            ]
        ordered = sorted(views, key=lambda view: (view.namespace, view.name))
        return DeploymentList(deployments=ordered, read_at=time_of(api))

    @activity.defn(name=READ_DEPLOYMENT.name)
    def read_deployment(self, request: ReadDeployment) -> DeploymentDetail:
        """One model server with its pods. Raises NOT_FOUND with the others of its namespace."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            found = objects.deployment(api, request.namespace, request.name)
            if found is None or not is_ours(found, scope.cluster) or LABEL_DEPLOYMENT not in labels_of(found):
                here = [each["metadata"]["name"] for each in objects.deployments(api, request.namespace)]
                fail(
                    ProblemCode.NOT_FOUND,
                    f"namespace {request.namespace} of cluster {scope.cluster} has no deployment {request.name}"
                    + (f"; it has {', '.join(sorted(here)[:5])}" if here else ""),
                    "List the deployments: it may be in another namespace, or others made it.",
                )
            pods = objects.pods_of(api, found)
            services = services_in(api, scope, request.eks_cluster, request.namespace)
            scaler = objects.autoscalers(api, request.namespace).get(request.name)
            view = as_view(found, pods, services, scaler)
        shown = sorted(map(as_pod, pods), key=by_need)[:MOST_PODS]
        return DeploymentDetail(
            deployment=view,
            spec=objects.spec_of(found),
            conditions=conditions_of(found),
            pods=shown,
            read_at=time_of(api),
        )


def services_in(api: client.ApiClient, scope: Scope, eks_cluster: str, namespace: str | None) -> list[InferenceService]:
    """Every Service that serves a model; null: of all namespaces."""
    asked = ListServices(cluster=scope.cluster, region=scope.region, eks_cluster=eks_cluster, namespace=namespace)
    return list_services(api, asked)


def _pods(api: client.ApiClient) -> dict[tuple[str, str], list[Raw]]:
    """Pods of model servers, by namespace and deployment."""
    found = defaultdict(list)
    for pod in items(client.CoreV1Api(api).list_pod_for_all_namespaces, label_selector=LABEL_DEPLOYMENT):
        found[(_space(pod), labels_of(pod)[LABEL_DEPLOYMENT])].append(pod)
    return found


def _space(found: Raw) -> str:
    return str(found["metadata"]["namespace"])


def _key(found: Raw) -> tuple[str, str]:
    return _space(found), found["metadata"]["name"]
