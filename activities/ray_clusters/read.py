"""Ray clusters of a cluster: listed, and one with its pods and what runs on it."""

from __future__ import annotations

from collections import defaultdict

from kubernetes import client
from temporalio import activity

from activities.deployments.trouble import is_ready
from activities.errors import fail
from activities.jobs.view import as_pod, by_need
from activities.kubernetes import KubernetesClients, time_of
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, items, labels_of
from activities.ray import is_head
from activities.ray_clusters import objects
from activities.ray_clusters.view import as_view
from contracts.jobs import MOST_PODS
from contracts.names import LABEL_RAY_CLUSTER
from contracts.problem import ProblemCode
from contracts.ray_clusters import (
    LIST_RAY_CLUSTERS,
    READ_RAY_CLUSTER,
    ListRayClusters,
    RayClusterDetail,
    RayClusterList,
    ReadRayCluster,
)


class RayClusterReads:
    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes

    @activity.defn(name=LIST_RAY_CLUSTERS.name)
    def list_ray_clusters(self, request: ListRayClusters) -> RayClusterList:
        """Every one that the platform made for people. None where the cluster knows no RayClusters."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.all_of(api, request.scope.cluster, request.namespace)
            pods = _by_cluster(api) if found else {}
        views = [
            as_view(each, pods.get((each["metadata"]["namespace"], each["metadata"]["name"]), [])) for each in found
        ]
        return RayClusterList(ray_clusters=views, read_at=time_of(api))

    @activity.defn(name=READ_RAY_CLUSTER.name)
    def read_ray_cluster(self, request: ReadRayCluster) -> RayClusterDetail:
        """One, with what runs on it. Raises NOT_FOUND with the others of its namespace."""
        cluster = request.scope.cluster
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.find(api, request.namespace, request.name)
            if found is None or not is_ours(found, cluster) or LABEL_RAY_CLUSTER not in labels_of(found):
                detail = objects.absent(api, cluster, request.namespace, request.name)
                remedy = "List the Ray clusters: it may be in another namespace, or others made it."
                fail(ProblemCode.NOT_FOUND, detail, remedy, field="/name")
            pods = objects.pods_of(api, request.namespace, request.name)
            view = as_view(found, pods)
            head = next((pod for pod in pods if is_head(pod) and is_ready(pod)), None)
            use = objects.use_of(api, head, view.gpus) if head is not None else None
        return RayClusterDetail(
            ray_cluster=view,
            spec=objects.spec_of(found),
            use=use,
            pods=sorted(map(as_pod, pods), key=by_need)[:MOST_PODS],
            read_at=time_of(api),
        )


def _by_cluster(api: client.ApiClient) -> dict[tuple[str, str], list[Raw]]:
    """The pods of all."""
    found: dict[tuple[str, str], list[Raw]] = defaultdict(list)
    for pod in items(client.CoreV1Api(api).list_pod_for_all_namespaces, label_selector=LABEL_RAY_CLUSTER):
        found[pod["metadata"]["namespace"], labels_of(pod)[LABEL_RAY_CLUSTER]].append(pod)
    return found
