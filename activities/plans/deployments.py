"""Plans of model servers."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.deployments import objects
from activities.deployments.manifests import services
from activities.kubernetes import listed
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, labels_of
from activities.plans.parts import control_plane_of
from activities.plans.serving import ServingLook
from activities.plans.world import Planner, World
from contracts.catalogue import CREATE_DEPLOYMENT, DELETE_DEPLOYMENT, SCALE_DEPLOYMENT, UPDATE_DEPLOYMENT
from contracts.deployments import DeleteDeploymentSpec, DeploymentSpec, ScaleDeploymentSpec
from contracts.names import LABEL_DEPLOYMENT
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of

REACH = ("port ", "public ")
"""How differences begin that change Services."""


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_DEPLOYMENT.name: lambda request: _create(world, request),
        UPDATE_DEPLOYMENT.name: lambda request: _update(world, request),
        SCALE_DEPLOYMENT.name: lambda request: _scale(world, request),
        DELETE_DEPLOYMENT.name: lambda request: _delete(world, request),
    }


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeploymentSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    look = ServingLook(world, record, spec)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = objects.deployment(api, spec.namespace, spec.name)
        action = Action.CREATE
        if found is not None and look.is_free(found):
            different = objects.differing(api, found, spec)
            action = Action.CHANGE if different else Action.NOTHING
            if different and not objects.of_this_run(found):
                look.block(
                    "/name",
                    f"deployment {spec.name} exists and differs: {'; '.join(different)}",
                    "Change it with update-deployment (replicas: scale-deployment), or choose another name.",
                    ProblemCode.CONFLICT,
                )
        look.look(api)
        if action is not Action.NOTHING:
            look.room(api, spec.replicas, [])
    return _draft(look, action, found)


def _update(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeploymentSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    look = ServingLook(world, record, spec)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = objects.deployment(api, spec.namespace, spec.name)
        if found is None:
            return PlanDraft(blockers=[_absent(api, spec.namespace, spec.name)])
        different = objects.differing(api, found, spec) if look.is_free(found) else []
        if (scaler := objects.autoscaler_of(api, spec.namespace, spec.name)) is not None:
            look.warnings.append(f"{scaler} decides on the replicas; the number that is sent is not used")
        look.look(api)
        if any(not each.startswith("replicas ") for each in different):
            look.surge(api, found)
    return _draft(look, Action.CHANGE if different else Action.NOTHING, found, different)


def _draft(look: ServingLook, action: Action, found: Raw | None, different: list[str] | None = None) -> PlanDraft:
    spec = look.spec
    types = f" on {', '.join(spec.instance_types)}" if spec.instance_types else ""
    detail = "; ".join(different or ()) or f"{spec.replicas} × {spec.gpu_count} GPUs{types}, {spec.chosen_image}"
    changes = [PlannedChange(action=action, kind="Deployment", name=spec.target, detail=detail)]
    balanced, wanted = False, list[str]()
    for each in services(look.record.tag, spec, "-"):
        name, is_balanced = each["metadata"]["name"], each["spec"]["type"] == "LoadBalancer"
        there = name in look.services
        altered = any(said.startswith(REACH) for said in different or ())
        step = Action.CREATE if not there else Action.CHANGE if altered else Action.NOTHING
        reach = spec.public if is_balanced else "inside the cluster"
        changes.append(PlannedChange(action=step, kind="Service", name=name, detail=reach))
        balanced, wanted = balanced or (is_balanced and not there), [*wanted, name]
    changes += [
        PlannedChange(action=Action.DELETE, kind="Service", name=name) for name in look.services if name not in wanted
    ]
    generation: Any = found["metadata"].get("generation") if found is not None else None
    return PlanDraft(
        changes=changes,
        checks=look.checks,
        warnings=look.warnings,
        blockers=look.blockers,
        hourly={"load-balancer": 1} if balanced else {},
        facts={**look.facts, "generation": generation},
    )


def _scale(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, ScaleDeploymentSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = objects.deployment(api, spec.namespace, spec.name)
        if found is None or not is_ours(found, record.tag) or LABEL_DEPLOYMENT not in labels_of(found):
            return PlanDraft(blockers=[_absent(api, spec.namespace, spec.name)])
        before = found["spec"].get("replicas", 1)
        blockers, warnings, checks = [], list[str](), list[Check]()
        if (scaler := objects.autoscaler_of(api, spec.namespace, spec.name)) is not None:
            detail = f"{scaler} decides on the replicas of {spec.name}"
            remedy = "Change its limits, or delete the autoscaler first (delete-autoscaler)."
            blockers.append(FieldError(field="/replicas", detail=detail, remedy=remedy, code=ProblemCode.CONFLICT))
        made_from = objects.spec_of(found)
        if made_from is not None and spec.replicas > before:
            grown = ServingLook(world, record, made_from)
            grown.room(api, spec.replicas - before, [])
            blockers += grown.blockers
            warnings, checks = grown.warnings, grown.checks
    if spec.replicas == 0:
        warnings.append("nothing answers until it is scaled up again")
    action = Action.NOTHING if before == spec.replicas else Action.CHANGE
    change = PlannedChange(action=action, kind="Deployment", name=spec.target, before=before, after=spec.replicas)
    return PlanDraft(changes=[change], checks=checks, warnings=warnings, blockers=blockers, facts={"replicas": before})


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteDeploymentSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = objects.deployment(api, spec.namespace, spec.name)
        there = objects.services_of(api, spec.namespace, spec.name)
        if found is None and not there:
            return PlanDraft(blockers=[_absent(api, spec.namespace, spec.name)])
        blockers, pods = list[FieldError](), list[Raw]()
        if found is not None:
            pods = objects.pods_of(api, found)
            if not is_ours(found, record.tag) or LABEL_DEPLOYMENT not in labels_of(found):
                detail = f"Deployment {spec.target} is no deployment of {record.tag}"
                remedy = "Delete it with kubectl, if it may go."
                blockers.append(FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.FOREIGN))
        for user in _users(api, spec):
            detail, remedy = f"{user} leads to it", "Delete that first."
            blockers.append(FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.CONFLICT))
    changes = [PlannedChange(action=Action.DELETE, kind="Service", name=each["metadata"]["name"]) for each in there]
    told = f"with {number_of(len(pods), 'pod')}; requests under way are finished"
    changes.append(PlannedChange(action=Action.DELETE, kind="Deployment", name=spec.target, detail=told))
    generation = found["metadata"].get("generation") if found is not None else None
    return PlanDraft(changes=changes, blockers=blockers, facts={"generation": generation})


def _users(api: client.ApiClient, spec: DeleteDeploymentSpec) -> list[str]:
    """What would point to nothing: its autoscaler, and routers whose arguments select its pods."""
    found = []
    if (scaler := objects.autoscaler_of(api, spec.namespace, spec.name)) is not None:
        found.append(scaler)
    selects = f"{LABEL_DEPLOYMENT}={spec.name}"
    for each in listed(client.AppsV1Api(api).list_deployment_for_all_namespaces):
        if each.metadata.name == spec.name and each.metadata.namespace == spec.namespace:
            continue
        words = [
            word
            for container in each.spec.template.spec.containers
            for text in (*(container.command or ()), *(container.args or ()))
            for word in text.replace(",", " ").split()
        ]
        if selects in words:
            found.append(f"router {each.metadata.namespace}/{each.metadata.name}")
    return found


def _absent(api: client.ApiClient, namespace: str, name: str) -> FieldError:
    here = sorted(each["metadata"]["name"] for each in objects.deployments(api, namespace))
    told = f"; it has {', '.join(here[:5])}" if here else ""
    return FieldError(
        field="/name",
        detail=f"namespace {namespace} has no deployment {name}{told}",
        remedy="List the deployments; create-deployment makes one.",
        code=ProblemCode.NOT_FOUND,
    )
