"""Making and ending routers: each activity has one effect and may be repeated."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.context import operation_id, run_id
from activities.deployments import objects as deployments
from activities.errors import fail
from activities.kubernetes import KubernetesClients
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw
from activities.routers import manifests, objects
from activities.settings import Settings
from contracts.deployments import DeploymentObject
from contracts.problem import ProblemCode
from contracts.routers import (
    APPLY_ROUTER,
    APPLY_ROUTER_SERVICES,
    ENSURE_ROUTER_ACCESS,
    START_ROUTER_DELETION,
    ApplyRouter,
    RouterAccess,
    RouterGone,
    RouterRef,
    RouterServices,
    RouterSpec,
)


class RouterActs:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._pace = kubernetes, settings.poll_seconds

    @activity.defn(name=ENSURE_ROUTER_ACCESS.name)
    def ensure_access(self, request: ApplyRouter) -> RouterAccess:
        """Its account, with the right to look for pods in its namespace. Raises FOREIGN where one is another's."""
        scope, spec = request.scope, request.spec
        different = False
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            known = objects.parts(api)
            for manifest in manifests.account(scope.cluster, spec, operation_id()):
                part = known[manifest["kind"]]
                before = part.get(spec.name, spec.namespace)
                objects.refuse_foreign(before, part.kind, scope.cluster, self._pace)
                part.patch(spec.name, spec.namespace, manifest, **deployments.OWN)
                different = different or before is None or _differs(before, manifest)
        return RouterAccess(name=spec.name, changed=different)

    @activity.defn(name=APPLY_ROUTER.name)
    def apply(self, request: ApplyRouter) -> DeploymentObject:
        """Its Deployment; does not wait for its pods.

        Raises CONFLICT where another operation made one from another specification; FOREIGN where it is no router.
        """
        scope, spec = request.scope, request.spec
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = deployments.deployment(api, spec.namespace, spec.name)
            objects.refuse_foreign(before, "Deployment", scope.cluster, self._pace)
            if before is not None and not deployments.of_this_run(before):
                _refuse_other(before, spec)
            manifest = manifests.deployment(
                scope.cluster, spec, request.worker_port, operation=operation_id(), run=run_id()
            )
            after = deployments.apply_deployment(api, manifest)
        return deployments.as_object(before, after)

    @activity.defn(name=APPLY_ROUTER_SERVICES.name)
    def apply_services(self, request: ApplyRouter) -> RouterServices:
        """The Services that lead to it. Raises FOREIGN where one of the names is another's."""
        scope, spec = request.scope, request.spec
        wanted = manifests.services(scope.cluster, spec, operation_id())
        different = False
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            for manifest in wanted:
                before = deployments.service(api, spec.namespace, manifest["metadata"]["name"])
                objects.refuse_foreign(before, "Service", scope.cluster, self._pace)
                deployments.apply_service(api, manifest)
                different = different or before is None or deployments.service_differs(before, manifest)
        return RouterServices(names=[each["metadata"]["name"] for each in wanted], changed=different)

    @activity.defn(name=START_ROUTER_DELETION.name)
    def delete(self, request: RouterRef) -> RouterGone:
        """Begin the end of all that belongs to it: first who leads to it, last what it was allowed. Absent is done."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = deployments.deployment(api, request.namespace, request.name)
            if found is not None and not found["metadata"].get("deletionTimestamp"):
                objects.refuse_foreign(found, "Deployment", request.scope.cluster, self._pace)
            there = [
                (part, each)
                for part, each in objects.all_of(api, request.namespace, request.name)
                if is_ours(each, request.scope.cluster)
            ]
            for part, each in reversed(there):
                more: dict[str, Any] = {"propagation_policy": "Foreground"} if part.kind == "Deployment" else {}
                deployments.delete(part.delete, each, **more)
        return RouterGone(name=request.name, namespace=request.namespace, changed=bool(there))


def _refuse_other(found: Raw, spec: RouterSpec) -> None:
    if different := objects.differences(objects.spec_of(found), spec):
        fail(
            ProblemCode.CONFLICT,
            f"router {spec.namespace}/{spec.name} exists and differs: {'; '.join(different)}",
            "Choose another name, or delete that router first (delete-router).",
            field="/name",
        )


def _differs(before: Raw, manifest: Raw) -> bool:
    """Whether an account, a Role or its binding was not yet as asked."""
    return any(before.get(key) != manifest[key] for key in ("rules", "roleRef") if key in manifest)
