"""Making and ending Ray clusters: each activity has one effect and may be repeated."""

from __future__ import annotations

from temporalio import activity

from activities import custom
from activities.context import operation_id, run_id
from activities.deployments.objects import of_this_run
from activities.errors import fail
from activities.kubernetes import KubernetesClients
from activities.ray import RAY_CLUSTER
from activities.ray_clusters import objects
from activities.ray_clusters.manifests import ray_cluster
from activities.settings import Settings
from contracts.problem import ProblemCode
from contracts.ray_clusters import (
    APPLY_RAY_CLUSTER,
    START_RAY_CLUSTER_DELETION,
    ApplyRayCluster,
    RayClusterGone,
    RayClusterObject,
    RayClusterRef,
)


class RayClusterActs:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._pace = kubernetes, settings.poll_seconds

    @activity.defn(name=APPLY_RAY_CLUSTER.name)
    def apply(self, request: ApplyRayCluster) -> RayClusterObject:
        """The RayCluster as its specification says; does not wait for its pods.

        Raises CONFLICT where one exists that another operation made from another specification; FOREIGN where it is
        not ours.
        """
        scope, spec = request.scope, request.spec
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = objects.find(api, spec.namespace, spec.name)
            objects.refuse_foreign(before, scope.cluster, self._pace)
            if before is not None and not of_this_run(before):
                different = objects.differences(objects.spec_of(before), spec)
                if different:
                    fail(
                        ProblemCode.CONFLICT,
                        f"Ray cluster {spec.namespace}/{spec.name} exists and differs: {'; '.join(different)}",
                        "Choose another name, or delete that one first (delete-ray-cluster).",
                        field="/name",
                    )
            manifest = ray_cluster(
                scope.cluster, spec, objects.mounts_of(api, spec), operation=operation_id(), run=run_id()
            )
            after = custom.put(api, RAY_CLUSTER, spec.namespace, spec.name, manifest)
        return RayClusterObject(
            name=spec.name,
            namespace=spec.namespace,
            generation=after["metadata"].get("generation") or 0,
            changed=custom.changed(before, after),
        )

    @activity.defn(name=START_RAY_CLUSTER_DELETION.name)
    def delete(self, request: RayClusterRef) -> RayClusterGone:
        """Begin its end, its pods first. Absent is done. Raises FOREIGN where it is not ours."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.find(api, request.namespace, request.name)
            if found is None:
                return RayClusterGone(name=request.name, namespace=request.namespace, changed=False)
            if not found["metadata"].get("deletionTimestamp"):
                objects.refuse_foreign(found, request.scope.cluster, self._pace)
                custom.delete(api, RAY_CLUSTER, found)
        return RayClusterGone(name=request.name, namespace=request.namespace)
