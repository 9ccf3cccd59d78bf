"""Making, changing, scaling and ending model servers: each activity has one effect and may be repeated."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from temporalio import activity

from activities.context import operation_id, run_id
from activities.deployments import manifests, objects
from activities.errors import fail
from activities.kubernetes import KubernetesClients
from activities.nodes.sight import Raw
from activities.settings import Settings
from contracts.deployments import (
    APPLY_DEPLOYMENT,
    APPLY_SERVICES,
    DELETE_SERVICES,
    REMEMBER_DEPLOYMENT,
    RESTORE_DEPLOYMENT,
    SET_REPLICAS,
    START_DEPLOYMENT_DELETION,
    ApplyDeployment,
    ApplyServices,
    DeploymentGone,
    DeploymentObject,
    DeploymentRef,
    DeploymentSpec,
    FormerDeployment,
    RestoreDeployment,
    ServicesMade,
    SetReplicas,
)
from contracts.names import ANNOTATION_OPERATION, ANNOTATION_RUN, ANNOTATION_SPEC
from contracts.problem import ProblemCode

KEPT_ANNOTATIONS = (ANNOTATION_OPERATION, ANNOTATION_RUN, ANNOTATION_SPEC, manifests.ANNOTATION_SPEC_HASH)


class DeploymentActs:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._pace = kubernetes, settings.poll_seconds

    @activity.defn(name=APPLY_DEPLOYMENT.name)
    def apply(self, request: ApplyDeployment) -> DeploymentObject:
        """The Deployment as its specification says; does not wait for its pods.

        Raises CONFLICT, unless it is an update, where one exists that another operation made from another
        specification; FOREIGN where it is not ours; NOT_FOUND for an update of one that is not there.
        """
        scope, spec = request.scope, request.spec
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = objects.deployment(api, spec.namespace, spec.name)
            objects.refuse_foreign(before, "Deployment", scope.cluster, self._pace)
            if before is None and request.update:
                remedy = "Create it (create-deployment)."
                fail(ProblemCode.NOT_FOUND, f"There is no deployment {spec.namespace}/{spec.name}", remedy)
            if before is not None and not request.update:
                self._refuse_other(api, before, spec)
            replicas = spec.replicas
            if before is not None and objects.autoscaler_of(api, spec.namespace, spec.name) is not None:
                # Left out, it would be taken for 1 where nobody else has set it yet.
                replicas = before["spec"].get("replicas", 1)
            manifest = manifests.deployment(
                scope.cluster,
                spec,
                objects.mounts_of(api, spec),
                operation=operation_id(),
                run=run_id(),
                startup_minutes=request.startup_minutes,
                replicas=replicas,
            )
            after = objects.apply_deployment(api, manifest)
        return objects.as_object(before, after)

    @activity.defn(name=REMEMBER_DEPLOYMENT.name)
    def remember(self, request: DeploymentRef) -> FormerDeployment:
        """How the Deployment is now: what an update goes back to where the new form does not serve."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.required(api, request.namespace, request.name, request.scope.cluster, self._pace)
        annotations = found["metadata"].get("annotations") or {}
        kept = ("progressDeadlineSeconds", "revisionHistoryLimit", "selector", "strategy", "template")
        status = found.get("status") or {}
        return FormerDeployment(
            name=request.name,
            namespace=request.namespace,
            spec={key: found["spec"][key] for key in kept if key in found["spec"]},
            replicas=found["spec"].get("replicas"),
            labels=found["metadata"].get("labels") or {},
            annotations={key: annotations[key] for key in KEPT_ANNOTATIONS if key in annotations},
            healthy=bool(status.get("readyReplicas")),
        )

    @activity.defn(name=RESTORE_DEPLOYMENT.name)
    def restore(self, request: RestoreDeployment) -> DeploymentObject:
        """The Deployment as it was remembered; the number of replicas stays as it is where an autoscaler sets it."""
        former = request.former
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            before = objects.required(api, former.namespace, former.name, request.scope.cluster, self._pace)
            metadata, replicas = before["metadata"], former.replicas
            if replicas is None or objects.autoscaler_of(api, former.namespace, former.name) is not None:
                replicas = before["spec"].get("replicas", 1)
            manifest: Any = {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {
                    "name": former.name,
                    "namespace": former.namespace,
                    "labels": former.labels,
                    "annotations": former.annotations,
                    "uid": metadata["uid"],
                },
                "spec": {**former.spec, "replicas": replicas},
            }
            if request.recreate:
                manifest["spec"]["strategy"] = {"type": "Recreate"}
            after = objects.apply_deployment(api, manifest)
        return objects.as_object(before, after)

    @activity.defn(name=SET_REPLICAS.name)
    def set_replicas(self, request: SetReplicas) -> DeploymentObject:
        """As many replicas as asked. Raises CONFLICT where an autoscaler decides on them."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            before = objects.required(api, request.namespace, request.name, request.scope.cluster, self._pace)
            if (scaler := objects.autoscaler_of(api, request.namespace, request.name)) is not None:
                fail(
                    ProblemCode.CONFLICT,
                    f"{scaler} decides on the replicas of {request.name}",
                    "Change its limits, or delete the autoscaler first (delete-autoscaler).",
                    field="/replicas",
                )
            objects.set_replicas(api, before, request.replicas)
            after = objects.required(api, request.namespace, request.name, request.scope.cluster, self._pace)
        return objects.as_object(before, after)

    @activity.defn(name=APPLY_SERVICES.name)
    def apply_services(self, request: ApplyServices) -> ServicesMade:
        """The Services that the specification asks for, and no others of the deployment.

        Raises FOREIGN where one of the names is another's.
        """
        scope, spec = request.scope, request.spec
        wanted = manifests.services(scope.cluster, spec, operation_id())
        names = [each["metadata"]["name"] for each in wanted]
        different = False
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            for manifest in wanted:
                name = manifest["metadata"]["name"]
                before = objects.service(api, spec.namespace, name)
                objects.refuse_foreign(before, "Service", scope.cluster, self._pace)
                objects.apply_service(api, manifest)
                different = different or before is None or objects.service_differs(before, manifest)
            surplus = [
                each
                for each in objects.services_of(api, spec.namespace, spec.name)
                if each["metadata"]["name"] not in names
            ]
            for each in surplus:
                objects.delete(client.CoreV1Api(api).delete_namespaced_service, each)
        removed = [each["metadata"]["name"] for each in surplus]
        return ServicesMade(names=names, removed=removed, changed=different or bool(removed))

    @activity.defn(name=DELETE_SERVICES.name)
    def delete_services(self, request: DeploymentRef) -> ServicesMade:
        """Begin the end of every Service of the deployment: no new requests come to it."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.services_of(api, request.namespace, request.name)
            for each in found:
                objects.delete(client.CoreV1Api(api).delete_namespaced_service, each)
        names = [each["metadata"]["name"] for each in found]
        return ServicesMade(removed=names, changed=bool(names))

    @activity.defn(name=START_DEPLOYMENT_DELETION.name)
    def delete(self, request: DeploymentRef) -> DeploymentGone:
        """Begin the Deployment's end, its pods first. Absent is done. Raises FOREIGN where it is not ours."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.deployment(api, request.namespace, request.name)
            if found is None:
                return DeploymentGone(name=request.name, namespace=request.namespace, changed=False)
            if not found["metadata"].get("deletionTimestamp"):
                objects.refuse_foreign(found, "Deployment", request.scope.cluster, self._pace)
                delete = client.AppsV1Api(api).delete_namespaced_deployment
                objects.delete(delete, found, propagation_policy="Foreground")
        return DeploymentGone(name=request.name, namespace=request.namespace)

    @staticmethod
    def _refuse_other(api: client.ApiClient, found: Raw, spec: DeploymentSpec) -> None:
        """Raises CONFLICT where the deployment was made from another specification, and not by this very run."""
        if objects.of_this_run(found):
            return
        if different := objects.differing(api, found, spec):
            fail(
                ProblemCode.CONFLICT,
                f"deployment {spec.namespace}/{spec.name} exists and differs: {'; '.join(different)}",
                "Change it with update-deployment (replicas: scale-deployment), or choose another name.",
                field="/name",
            )
