"""Making, scaling and ending pools, and handing out their pods: each activity has one effect and may be repeated."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubernetes import client
from temporalio import activity

from activities.context import operation_id, run_id
from activities.deployments import objects as deployments
from activities.errors import fail
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients
from activities.model_pools import manifests, objects
from activities.nodes.sight import Raw
from activities.settings import Settings
from contracts.deployments import DeploymentObject
from contracts.model_pools import (
    APPLY_POOL,
    APPLY_POOL_SERVICES,
    ATTACH_POD,
    DETACH_POD,
    SCALE_POOL,
    SET_WISH,
    START_POOL_DELETION,
    SURVEY_POOL,
    ApplyPool,
    ApplyPoolServices,
    ModelPoolSpec,
    MovePod,
    PodMoved,
    PoolGone,
    PoolRef,
    PoolSeen,
    PoolServices,
    ScalePool,
    SetWish,
    Wish,
    WishSet,
)
from contracts.names import (
    ANNOTATION_ASSIGNMENTS,
    ANNOTATION_LEFT,
    ANNOTATION_OPERATION,
    FIELD_MANAGER,
    LABEL_BUSINESS,
)
from contracts.pool_moves import LEAVING, RESERVED, UNASSIGNED
from contracts.problem import ProblemCode
from contracts.words import number_of

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Of pods that are Ready alike, those with the lower cost go first; without it, it is 0.

(Kubernetes: ReplicaSet, pod deletion cost)
"""
ASSIGNED_COST = "1000"
"""Of a pod that serves somebody."""


class ModelPoolActs:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._pace = kubernetes, settings.poll_seconds

    @activity.defn(name=APPLY_POOL.name)
    def apply(self, request: ApplyPool) -> DeploymentObject:
        """The pool's Deployment as specified; does not wait for its pods.

        Raises CONFLICT where one exists that another operation made from another specification; FOREIGN where it is
        no pool of ours.
        """
        scope, spec = request.scope, request.spec
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            before = deployments.deployment(api, spec.namespace, spec.name)
            objects.refuse_foreign(before, "Deployment", scope.cluster, self._pace)
            replicas = spec.replicas
            if before is not None and not deployments.of_this_run(before):
                _refuse_other(before, spec)
                # Somebody may have scaled it since, and its pods may be handed out.
                replicas = before["spec"].get("replicas", 1)
            manifest = manifests.pool(
                scope.cluster,
                spec,
                deployments.mounts_of(api, spec),
                operation=operation_id(),
                run=run_id(),
                startup_minutes=request.startup_minutes,
                replicas=replicas,
            )
            after = deployments.apply_deployment(api, manifest)
        return deployments.as_object(before, after)

    @activity.defn(name=SCALE_POOL.name)
    def scale(self, request: ScalePool) -> DeploymentObject:
        """As many pods as asked. Pods that serve somebody are told apart first, so that free ones go.

        Raises CONFLICT where more are assigned, or an autoscaler decides on the number.
        """
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            before = objects.required(api, request.namespace, request.name, request.scope.cluster, self._pace)
            if (scaler := deployments.autoscaler_of(api, request.namespace, request.name)) is not None:
                remedy = "Change its limits, or delete the autoscaler first (delete-autoscaler)."
                detail = f"{scaler} decides on the pods of {request.name}"
                fail(ProblemCode.CONFLICT, detail, remedy, field="/replicas")
            wish, _ = objects.wish_of(before)
            if wish.total > request.replicas:
                detail, remedy = too_few(wish, request.replicas)
                fail(ProblemCode.CONFLICT, detail, remedy, field="/replicas")
            self._protect(api, request)
            deployments.set_replicas(api, before, request.replicas)
            after = objects.required(api, request.namespace, request.name, request.scope.cluster, self._pace)
        return deployments.as_object(before, after)

    @staticmethod
    def _protect(api: client.ApiClient, request: PoolRef) -> None:
        """What a pod costs, by whether it serves somebody: people may have moved it by its label alone."""
        for each in objects.pods_of(api, request.namespace, request.name):
            cost = None if objects.business_of(each) in RESERVED else ASSIGNED_COST
            if (each["metadata"].get("annotations") or {}).get(DELETION_COST) != cost:
                _patch(api, each, annotations={DELETION_COST: cost})

    @activity.defn(name=SURVEY_POOL.name)
    def survey(self, request: PoolRef) -> PoolSeen:
        """The pool, its wish and its pods as they are. Raises NOT_FOUND."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.required(api, request.namespace, request.name, request.scope.cluster, self._pace)
            return seen(api, found)

    @activity.defn(name=SET_WISH.name)
    def set_wish(self, request: SetWish) -> WishSet:
        """Write on the Deployment how its pods are to be handed out. Raises CONFLICT where it has fewer."""
        wish = request.wish
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.required(api, request.namespace, request.name, request.scope.cluster, self._pace)
            size = found["spec"].get("replicas", 1)
            if wish.total > size:
                detail, remedy = too_many(wish, request.name, size)
                fail(ProblemCode.CONFLICT, detail, remedy, field="/assignments")
            text = objects.as_annotation(wish)
            if (found["metadata"].get("annotations") or {}).get(ANNOTATION_ASSIGNMENTS) == text:
                return WishSet(name=request.name, changed=False)
            annotations = {ANNOTATION_ASSIGNMENTS: text, ANNOTATION_OPERATION: operation_id()}
            # No server-side apply: another look at the specification would take away what it does not name.
            client.AppsV1Api(api).patch_namespaced_deployment(
                request.name,
                request.namespace,
                {"metadata": {"annotations": annotations, "resourceVersion": found["metadata"]["resourceVersion"]}},
                field_manager=FIELD_MANAGER,
                _request_timeout=REQUEST_TIMEOUT,
            )
        return WishSet(name=request.name)

    @activity.defn(name=APPLY_POOL_SERVICES.name)
    def apply_services(self, request: ApplyPoolServices) -> PoolServices:
        """The Services of a wish. Raises FOREIGN where one of the names is another's."""
        scope = request.scope
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            there = {
                each["metadata"]["name"]: each for each in objects.services_of(api, request.namespace, request.name)
            }
            wanted: list[Any] = []
            if request.wish.assignments:
                found = objects.required(api, request.namespace, request.name, scope.cluster, self._pace)
                wanted = manifests.services(scope.cluster, objects.known_spec(found), request.wish, operation_id())
            different = False
            for manifest in wanted:
                name = manifest["metadata"]["name"]
                before = there.pop(name, None)
                if before is None:
                    refuse_other_service(api, request.namespace, name)
                elif before["metadata"].get("deletionTimestamp"):
                    remedy = "The platform tries again when it is gone."
                    fail(ProblemCode.BUSY, f"Service {name} is being deleted", remedy, retry=True, delay=2 * self._pace)
                if before is None or deployments.service_differs(before, manifest):
                    deployments.apply_service(api, manifest)
                    different = True
            surplus = list(there.values()) if request.delete_others else []
            for each in surplus:
                deployments.delete(client.CoreV1Api(api).delete_namespaced_service, each)
        names = [each["metadata"]["name"] for each in wanted]
        removed = sorted(each["metadata"]["name"] for each in surplus)
        return PoolServices(names=names, removed=removed, changed=different or bool(removed))

    @activity.defn(name=DETACH_POD.name)
    def detach(self, request: MovePod) -> PodMoved:
        """Take a pod out of its service: no Service selects it from then on. Free ones and absent ones are done."""
        move = request.move
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.pod(api, request.namespace, move.pod)
            if found is None or not same(found, move.uid):
                return gone(move.pod)
            business, marked = objects.business_of(found), ANNOTATION_LEFT in _annotations(found)
            if business in (move.target, UNASSIGNED) or (business == LEAVING and marked):
                return PodMoved(pod=move.pod, changed=False)
            if business not in (move.source, LEAVING):
                return elsewhere(move.pod, business)
            left = {ANNOTATION_LEFT: datetime.now(UTC).isoformat(), DELETION_COST: None}
            _patch(api, found, labels={LABEL_BUSINESS: LEAVING}, annotations=left)
        return PodMoved(pod=move.pod, detail=f"out of {business}")

    @activity.defn(name=ATTACH_POD.name)
    def attach(self, request: MovePod) -> PodMoved:
        """Give a pod that is free, or that has left its service, to another; or make it free."""
        move = request.move
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = objects.pod(api, request.namespace, move.pod)
            if found is None or not same(found, move.uid):
                return gone(move.pod)
            business = objects.business_of(found)
            if business == move.target:
                return PodMoved(pod=move.pod, changed=False)
            # One that leaves may be taken only by whoever has waited until it was drained.
            allowed = (UNASSIGNED,) if move.source == UNASSIGNED else (UNASSIGNED, LEAVING)
            if business not in allowed:
                return elsewhere(move.pod, business)
            cost = None if move.target in RESERVED else ASSIGNED_COST
            annotations = {ANNOTATION_LEFT: None, DELETION_COST: cost}
            _patch(api, found, labels={LABEL_BUSINESS: move.target}, annotations=annotations)
        return PodMoved(pod=move.pod, detail=f"{move.target} has it")

    @activity.defn(name=START_POOL_DELETION.name)
    def delete(self, request: PoolRef) -> PoolGone:
        """Begin the end of the pool's Deployment and pods. Absent is done. Raises FOREIGN where it is not ours."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = deployments.deployment(api, request.namespace, request.name)
            if found is None:
                return PoolGone(name=request.name, namespace=request.namespace, changed=False)
            if not found["metadata"].get("deletionTimestamp"):
                objects.refuse_foreign(found, "Deployment", request.scope.cluster, self._pace)
                delete = client.AppsV1Api(api).delete_namespaced_deployment
                deployments.delete(delete, found, propagation_policy="Foreground")
        return PoolGone(name=request.name, namespace=request.namespace)


def seen(api: client.ApiClient, found: Raw) -> PoolSeen:
    """A pool with its pods and Services."""
    metadata = found["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    wish, wrong = objects.wish_of(found)
    return PoolSeen(
        name=name,
        namespace=namespace,
        replicas=found["spec"].get("replicas", 1),
        wish=wish,
        wish_problem=wrong,
        pods=[objects.as_pool_pod(each) for each in objects.pods_of(api, namespace, name)],
        services=[each["metadata"]["name"] for each in objects.services_of(api, namespace, name)],
    )


def too_few(wish: Wish, replicas: int) -> tuple[str, str]:
    """Why a pool cannot have so few pods, and what to do about it."""
    taken = ", ".join(f"{service} {count}" for service, count in sorted(wish.assignments.items()) if count)
    detail = f"{wish.total} of its pods are assigned ({taken}), which {replicas} cannot be"
    return detail, "Assign fewer first (assign-model-pool), or ask for at least as many pods as are assigned."


def too_many(wish: Wish, name: str, size: int) -> tuple[str, str]:
    """Why a pool's pods cannot be handed out so, and what to do about it."""
    asked = ", ".join(f"{service} {count}" for service, count in sorted(wish.assignments.items()))
    detail = f"{number_of(wish.total, 'pod')} asked for ({asked}), and {name} has {size}"
    return detail, "Ask for fewer, or scale the pool up first (scale-model-pool)."


def refuse_other_service(api: client.ApiClient, namespace: str, name: str) -> None:
    """Raises FOREIGN where a Service of the name is there that is none of the pool's."""
    if deployments.service(api, namespace, name) is not None:
        detail = f"a Service {namespace}/{name} exists that is not this pool's"
        remedy = "Call the service something else."
        fail(ProblemCode.FOREIGN, detail, remedy, field=f"/assignments/{name}")


def same(found: Raw, uid: str) -> bool:
    """Whether a pod is still the very one, and stays."""
    metadata = found["metadata"]
    return metadata["uid"] == uid and not metadata.get("deletionTimestamp")


def gone(pod: str) -> PodMoved:
    return PodMoved(pod=pod, gone=True, changed=False, detail="it is gone")


def elsewhere(pod: str, business: str) -> PodMoved:
    return PodMoved(pod=pod, gone=True, changed=False, detail=f"somebody has moved it to {business}")


def _refuse_other(found: Raw, spec: ModelPoolSpec) -> None:
    if different := deployments.differences(objects.spec_of(found), spec):
        fail(
            ProblemCode.CONFLICT,
            f"model pool {spec.namespace}/{spec.name} exists and differs: {'; '.join(different)}",
            "Choose another name, or delete that pool first (delete-model-pool).",
            field="/name",
        )


def _annotations(found: Raw) -> dict[str, str]:
    return found["metadata"].get("annotations") or {}


def _patch(api: client.ApiClient, found: Raw, **metadata: Any) -> None:
    """Change a pod that is still as it was looked at; another's change meanwhile is a conflict, and looked at anew."""
    own = found["metadata"]
    body = {"metadata": {**metadata, "uid": own["uid"], "resourceVersion": own["resourceVersion"]}}
    client.CoreV1Api(api).patch_namespaced_pod(
        own["name"], own["namespace"], body, field_manager=FIELD_MANAGER, _request_timeout=REQUEST_TIMEOUT
    )
