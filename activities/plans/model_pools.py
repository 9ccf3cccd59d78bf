"""Plans of model pools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubernetes import client

from activities.deployments import objects as deployments
from activities.model_pools import load, manifests, objects
from activities.model_pools.acts import seen, too_few, too_many
from activities.model_pools.read import absent
from activities.nodes.sight import Raw, labels_of
from activities.plans.parts import control_plane_of
from activities.plans.serving import ServingLook, balancer_controller
from activities.plans.world import Planner, World
from activities.routers.objects import routers_to
from contracts.catalogue import ASSIGN_MODEL_POOL, CREATE_MODEL_POOL, DELETE_MODEL_POOL, SCALE_MODEL_POOL
from contracts.cluster import ClusterRecord
from contracts.inference import LABEL_SERVES, Serves
from contracts.model_pools import (
    AssignModelPoolSpec,
    DeleteModelPoolSpec,
    ModelPoolSpec,
    PoolName,
    PoolSeen,
    ScaleModelPoolSpec,
)
from contracts.names import LABEL_BUSINESS, LABEL_MODEL_POOL
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.pool_moves import RESERVED, counted, moves_for
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of

MOST_ASKED = 20
"""Pods that are asked how busy they are, while a plan is made."""


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_MODEL_POOL.name: lambda request: _create(world, request),
        SCALE_MODEL_POOL.name: lambda request: _scale(world, request),
        ASSIGN_MODEL_POOL.name: lambda request: _assign(world, request),
        DELETE_MODEL_POOL.name: lambda request: _delete(world, request),
    }


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, ModelPoolSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    look = ServingLook(world, record, spec)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = deployments.deployment(api, spec.namespace, spec.name)
        action = Action.CREATE
        if found is not None and not objects.is_pool(found, record.tag):
            detail = f"a Deployment {spec.name} exists that is no model pool of {record.tag}"
            look.block("/name", detail, "Choose another name.", ProblemCode.FOREIGN)
        elif found is not None:
            different = deployments.differences(objects.spec_of(found), spec)
            action = Action.CHANGE if different else Action.NOTHING
            if different and not deployments.of_this_run(found):
                detail = f"model pool {spec.name} exists and differs: {'; '.join(different)}"
                remedy = "Choose another name, or delete that pool first (delete-model-pool)."
                look.block("/name", detail, remedy, ProblemCode.CONFLICT)
        look.look(api)
        if action is not Action.NOTHING:
            look.room(api, spec.replicas, [])
    types = f" on {', '.join(spec.instance_types)}" if spec.instance_types else ""
    detail = f"{spec.replicas} × {spec.gpu_count} GPUs{types}, {spec.chosen_image}; all unassigned"
    return PlanDraft(
        changes=[PlannedChange(action=action, kind="model pool", name=spec.target, detail=detail)],
        checks=look.checks,
        warnings=look.warnings,
        blockers=look.blockers,
        facts={**look.facts, "generation": found["metadata"].get("generation") if found is not None else None},
    )


def _scale(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, ScaleModelPoolSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found, blockers = _known(api, record, spec)
        if found is None:
            return PlanDraft(blockers=blockers)
        if (scaler := deployments.autoscaler_of(api, spec.namespace, spec.name)) is not None:
            remedy = "Change its limits, or delete the autoscaler first (delete-autoscaler)."
            blockers.append(_fault("/replicas", f"{scaler} decides on the pods of {spec.name}", remedy))
        pool = seen(api, found)
        if pool.wish.total > spec.replicas:
            blockers.append(_fault("/replicas", *too_few(pool.wish, spec.replicas)))
        checks, warnings, facts = list[Check](), list[str](), dict[str, Any]()
        made_from = objects.spec_of(found)
        if made_from is not None and spec.replicas > pool.replicas:
            look = ServingLook(world, record, made_from)
            look.room(api, spec.replicas - pool.replicas, [])
            checks, warnings, facts = look.checks, look.warnings, look.facts
            blockers += look.blockers
    action = Action.NOTHING if pool.replicas == spec.replicas else Action.CHANGE
    detail = f"{pool.wish.total} of its pods are assigned, and stay"
    change = PlannedChange(
        action=action, kind="model pool", name=spec.target, before=pool.replicas, after=spec.replicas, detail=detail
    )
    return PlanDraft(
        changes=[change],
        checks=checks,
        warnings=warnings,
        blockers=blockers,
        facts={**facts, "replicas": pool.replicas, "wish": pool.wish.model_dump(mode="json")},
    )


def _assign(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, AssignModelPoolSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found, blockers = _known(api, record, spec)
        if found is None:
            return PlanDraft(blockers=blockers)
        pool = seen(api, found)
        if spec.total > pool.replicas:
            blockers.append(_fault("/assignments", *too_many(spec.wish, spec.name, pool.replicas)))
        services, faults = _services(api, record, spec, objects.known_spec(found))
        blockers += faults
        checks = list[Check]()
        if spec.public:
            check, missing = balancer_controller(api, "/public")
            checks.append(check)
            blockers += missing
        left = [
            each
            for each in objects.services_of(api, spec.namespace, spec.name)
            if labels_of(each).get(LABEL_BUSINESS) not in spec.assignments
        ]
        warnings = _warnings(pool, spec)
        for each in left:
            name = each["metadata"]["name"]
            for router in routers_to(api, spec.namespace, {LABEL_MODEL_POOL: spec.name, LABEL_BUSINESS: name}):
                warnings.append(f"router {router} chooses among the pods of {name}, and will have none")
    changes = [
        *services,
        *(
            PlannedChange(action=Action.CHANGE, kind="pod", name=move.pod, before=move.source, after=move.target)
            for move in moves_for(spec.assignments, pool.pods)
        ),
        *(
            PlannedChange(
                action=Action.KEEP if spec.keep_services else Action.DELETE,
                kind="Service",
                name=each["metadata"]["name"],
                detail="it has no pods any more",
            )
            for each in left
        ),
    ]
    facts: dict[str, Any] = {"replicas": pool.replicas, "wish": pool.wish.model_dump(mode="json")}
    return PlanDraft(changes=changes, checks=checks, warnings=warnings, blockers=blockers, facts=facts)


def _warnings(pool: PoolSeen, spec: AssignModelPoolSpec) -> list[str]:
    said = []
    if pool.wish_problem is not None:
        said.append(f"{pool.wish_problem}; it is written anew")
    have = counted(pool.pods)
    lacking = spec.total - sum(have.values())
    if lacking > 0:
        said.append(f"{number_of(lacking, 'pod')} more must become ready before every service has its number")
    for move in moves_for(spec.assignments, pool.pods):
        if move.source not in RESERVED:
            said.append(f"{move.pod} leaves {move.source}; its requests under way are finished first")
    return said


def _services(
    api: client.ApiClient, record: ClusterRecord, spec: AssignModelPoolSpec, made_from: ModelPoolSpec
) -> tuple[list[PlannedChange], list[FieldError]]:
    """What becomes of the wish's Services, and which of their names are another's."""
    changes, blockers = list[PlannedChange](), list[FieldError]()
    for manifest in manifests.services(record.tag, made_from, spec.wish, "-"):
        name, service = manifest["metadata"]["name"], manifest["metadata"]["labels"][LABEL_BUSINESS]
        there = deployments.service(api, spec.namespace, name)
        labels = labels_of(there) if there is not None else {}
        own = (labels.get(LABEL_MODEL_POOL), labels.get(LABEL_SERVES)) == (spec.name, Serves.POOL_SERVICE.value)
        if there is not None and not own:
            detail = f"a Service {name} exists that is not this pool's"
            blockers.append(
                _fault(f"/assignments/{service}", detail, "Call the service something else.", ProblemCode.FOREIGN)
            )
        same = there is not None and own and not deployments.service_differs(there, manifest)
        action = Action.CREATE if there is None else Action.NOTHING if same else Action.CHANGE
        reach = spec.public[service] if manifest["spec"]["type"] == "LoadBalancer" else "inside the cluster"
        changes.append(PlannedChange(action=action, kind="Service", name=name, detail=reach))
    return changes, blockers


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteModelPoolSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        services = objects.services_of(api, spec.namespace, spec.name)
        found, blockers = _known(api, record, spec)
        if found is None and not services:
            return PlanDraft(blockers=blockers)
        if found is None:
            # What an earlier deletion has left is taken away, too.
            blockers = []
        raw = objects.pods_of(api, spec.namespace, spec.name)
        warnings = _traffic(api, spec.namespace, found, raw)
        for router in routers_to(api, spec.namespace, {LABEL_MODEL_POOL: spec.name}):
            detail = f"router {router} chooses among its pods"
            blockers.append(_fault("/name", detail, "Delete that first (delete-router)."))
        if (scaler := deployments.autoscaler_of(api, spec.namespace, spec.name)) is not None:
            detail = f"{scaler} decides on its pods"
            blockers.append(_fault("/name", detail, "Delete that first (delete-autoscaler)."))
    changes = [PlannedChange(action=Action.DELETE, kind="Service", name=each["metadata"]["name"]) for each in services]
    told = f"with {number_of(len(raw), 'pod')}; requests under way are finished"
    changes.append(PlannedChange(action=Action.DELETE, kind="model pool", name=spec.target, detail=told))
    facts: dict[str, Any] = {"services": [each["metadata"]["name"] for each in services]}
    return PlanDraft(changes=changes, warnings=warnings, blockers=blockers, facts=facts)


def _traffic(api: client.ApiClient, namespace: str, found: Raw | None, raw: Iterable[Raw]) -> list[str]:
    """Which services have pods, and how much they do now."""
    made_from = objects.spec_of(found) if found is not None else None
    pods = [pod for pod in map(objects.as_pool_pod, raw) if pod.ready and pod.business not in RESERVED]
    under_way: dict[str, float] = {}
    for pod in pods[:MOST_ASKED] if made_from is not None else ():
        busy = load.of_pod(api, namespace, pod.name, made_from.port if made_from is not None else 0)
        under_way[pod.business] = under_way.get(pod.business, 0) + (busy or 0)
    return [
        f"{service} is served by {number_of(pods_of, 'pod')}, with {under_way.get(service, 0):g} requests under way now"
        for service, pods_of in sorted(counted(pods).items())
    ]


def _known(api: client.ApiClient, record: ClusterRecord, named: PoolName) -> tuple[Raw | None, list[FieldError]]:
    """The pool of a spec; or why there is none of ours."""
    found = deployments.deployment(api, named.namespace, named.name)
    if found is not None and objects.is_pool(found, record.tag):
        return found, []
    if found is not None:
        detail = f"Deployment {named.target} is no model pool of {record.tag}"
        return None, [_fault("/name", detail, "Name a pool of this cluster.", ProblemCode.FOREIGN)]
    detail = absent(api, record.tag, named.namespace, named.name)
    return None, [_fault("/name", detail, "List the model pools; create-model-pool makes one.", ProblemCode.NOT_FOUND)]


def _fault(field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.CONFLICT) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)
