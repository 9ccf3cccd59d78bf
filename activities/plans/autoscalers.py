"""Plans of autoscalers: who owns the number of replicas, and what the queries say now."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities import custom
from activities.autoscalers.manifests import spec_of
from activities.autoscalers.metrics import Reader
from activities.autoscalers.view import owner_of, replicas_of, target_of
from activities.deployments.objects import SCALED_OBJECT
from activities.kubernetes import listed, read_or_none
from activities.node_pools.objects import is_ours
from activities.plans.parts import control_plane_of
from activities.plans.world import Planner, World
from contracts.autoscalers import (
    AutoscalerSpec,
    CpuTrigger,
    DeleteAutoscalerSpec,
    PrometheusTrigger,
    RouterTrigger,
    desired,
    query_of,
)
from contracts.catalogue import CREATE_AUTOSCALER, DELETE_AUTOSCALER
from contracts.features import Feature
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of

METRICS_API = "v1beta1.metrics.k8s.io"
SWITCH_ON = "Switch the feature {} on (update-features), then ask again."


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_AUTOSCALER.name: lambda request: _create(world, request),
        DELETE_AUTOSCALER.name: lambda request: _delete(world, request),
    }


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, AutoscalerSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        checks = [keda_check(api)]
        blockers = [each for check in checks if (each := blocker_of(check)) is not None]
        deployment = read_or_none(client.AppsV1Api(api).read_namespaced_deployment, spec.target, spec.namespace)
        found = custom.get(api, SCALED_OBJECT, spec.namespace, spec.called)
        blockers += _names(record.tag, spec, found)
        if deployment is None:
            blockers.append(_no_deployment(api, spec))
            return PlanDraft(checks=checks, blockers=blockers)
        blockers += _owners(api, spec, deployment)
        now = int(deployment.spec.replicas or 0)
        wishes, warnings, faults = _triggers(api, Reader(api, world.aws, record.region), spec, deployment, now)
    blockers += faults
    wanted = spec_of(spec, record.region)
    same = found is not None and all(found["spec"].get(key) == value for key, value in wanted.items())
    action = Action.CREATE if found is None else Action.NOTHING if same else Action.CHANGE
    after = max(wishes) if wishes else max(now, spec.min_replicas)
    limits = f"{spec.min_replicas} to {spec.max_replicas} replicas"
    changes = [
        PlannedChange(action=action, kind="ScaledObject", name=spec.called, detail=limits),
        PlannedChange(action=action, kind="HorizontalPodAutoscaler", name=spec.hpa, detail="made by KEDA"),
        PlannedChange(
            action=Action.CHANGE if after != now else Action.KEEP,
            kind="Deployment",
            name=spec.target,
            detail="replicas, by what the triggers say now",
            before=now,
            after=after,
        ),
    ]
    facts: dict[str, Any] = {"generation": found["metadata"].get("generation") if found is not None else None}
    return PlanDraft(changes=changes, checks=checks, warnings=warnings, blockers=blockers, facts=facts)


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteAutoscalerSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = custom.get(api, SCALED_OBJECT, spec.namespace, spec.name)
        if found is None:
            there = ", ".join(each["metadata"]["name"] for each in custom.list_all(api, SCALED_OBJECT, spec.namespace))
            detail = f"there is no autoscaler {spec.name} in namespace {spec.namespace}; there are: {there or 'none'}"
            return PlanDraft(blockers=[_error("/name", detail, "List the autoscalers.", ProblemCode.NOT_FOUND)])
        target = target_of(found)
        replicas = replicas_of(api, spec.namespace, target)
    blockers = [] if is_ours(found, record.tag) else [_foreign(spec.name)]
    kept = "keeps its replicas" if replicas is None else f"stays at {number_of(replicas, 'replica')}"
    changes = [
        PlannedChange(action=Action.DELETE, kind="ScaledObject", name=spec.name),
        PlannedChange(action=Action.KEEP, kind="Deployment", name=target, detail=kept),
    ]
    return PlanDraft(changes=changes, blockers=blockers)


def keda_check(api: client.ApiClient) -> Check:
    """That KEDA runs: the inference operator's, of its own chart, or somebody else's."""
    missing = custom.missing_controller(api, Feature.KEDA, SCALED_OBJECT)
    return Check(name="KEDA", passed=missing is None, detail=missing, remedy=SWITCH_ON.format("keda"))


def blocker_of(check: Check, field: str = "") -> FieldError | None:
    if check.passed:
        return None
    detail = f"{check.name} is needed" + (f": {check.detail}" if check.detail else "")
    return _error(field, detail, check.remedy or "", ProblemCode.NOT_READY)


def _names(tag: str, spec: AutoscalerSpec, found: custom.Object | None) -> list[FieldError]:
    if found is None:
        return []
    if not is_ours(found, tag):
        return [_foreign(spec.called)]
    if target_of(found) != spec.target:
        detail = f"autoscaler {spec.called} scales Deployment {target_of(found)}"
        return [_error("/name", detail, "Choose another name, or delete that one first.", ProblemCode.CONFLICT)]
    return []


def _no_deployment(api: client.ApiClient, spec: AutoscalerSpec) -> FieldError:
    found = listed(client.AppsV1Api(api).list_deployment_for_all_namespaces)
    there = [each.metadata.name for each in found if each.metadata.namespace == spec.namespace]
    detail = f"namespace {spec.namespace} has no Deployment {spec.target}"
    detail += f"; it has {', '.join(there)}" if there else ", nor any other"
    return _error("/target", detail, "Name one that is there, with its namespace.", ProblemCode.NOT_FOUND)


def _owners(api: client.ApiClient, spec: AutoscalerSpec, deployment: Any) -> list[FieldError]:
    """Who else decides on the number of replicas."""
    owner = next((each for each in deployment.metadata.owner_references or () if each.controller), None)
    if owner is not None:
        detail = f"Deployment {spec.target} belongs to {owner.kind} {owner.name}, which sets its replicas"
        remedy = "Give that one its own autoscaling (update-endpoint for a managed endpoint)."
        return [_error("/target", detail, remedy, ProblemCode.CONFLICT)]
    if (other := owner_of(api, spec.namespace, spec.target, but=spec.called)) is not None:
        detail = f"{other} scales Deployment {spec.target} already"
        return [_error("/target", detail, "Delete that one first: one owner at a time.", ProblemCode.CONFLICT)]
    return []


def _triggers(
    api: client.ApiClient, reader: Reader, spec: AutoscalerSpec, deployment: Any, now: int
) -> tuple[list[int], list[str], list[FieldError]]:
    """What each trigger wants now; warnings and blockers of those that tell nothing."""
    wishes, warnings, faults = list[int](), list[str](), list[FieldError]()
    for position, trigger in enumerate(spec.triggers):
        at = f"/triggers/{position}"
        if isinstance(trigger, CpuTrigger):
            faults += _cpu(api, at, deployment)
            continue
        found, warning, fault = _asked(reader, spec, trigger, at, now)
        wishes += [found] if found is not None else []
        warnings += [warning] if warning is not None else []
        faults += [fault] if fault is not None else []
    return wishes, warnings, faults


def _asked(
    reader: Reader, spec: AutoscalerSpec, trigger: PrometheusTrigger | RouterTrigger, at: str, now: int
) -> tuple[int | None, str | None, FieldError | None]:
    query = query_of(trigger, spec.namespace)
    reading = reader.read(trigger.address(reader.region), query)
    if reading.value is not None:
        per_replica = trigger.per_replica if isinstance(trigger, PrometheusTrigger) else True
        limits = (spec.min_replicas, spec.max_replicas)
        wish = desired(reading.value, trigger.threshold, trigger.activation, per_replica, limits, now)
        told = f"{query} is {reading.value:g} now: {number_of(wish, 'replica')}, with {trigger.threshold:g} for each"
        return wish, told, None
    if reading.passing:
        return None, f"{query}: {reading.problem}; KEDA takes that as 0", None
    member = "query" if reading.at == "query" else "server_address" if trigger.server_address else "workspace_id"
    if isinstance(trigger, RouterTrigger) and member == "query":
        member = "router"
    remedy = "Correct the query; try it where the metrics are shown." if reading.at == "query" else "Name another one."
    return None, None, _error(f"{at}/{member}", f"{query}: {reading.problem}", remedy)


def _cpu(api: client.ApiClient, at: str, deployment: Any) -> list[FieldError]:
    """(Kubernetes: horizontal pod autoscaling needs the metrics API, and requests of every container)"""
    faults = []
    if read_or_none(client.ApiregistrationV1Api(api).read_api_service, METRICS_API) is None:
        remedy = SWITCH_ON.format("metrics_server")
        faults.append(_error(at, "CPU use is told by the metrics server, and there is none", remedy))
    without = [
        each.name
        for each in deployment.spec.template.spec.containers
        if "cpu" not in ((each.resources.requests if each.resources else None) or {})
        and "cpu" not in ((each.resources.limits if each.resources else None) or {})
    ]
    if without:
        detail = f"container {', '.join(without)} of Deployment {deployment.metadata.name} requests no CPU"
        faults.append(_error(at, detail, "Let it request CPU: the use is a percentage of that."))
    return faults


def _foreign(name: str) -> FieldError:
    detail = f"a ScaledObject {name} exists that InstantStart has not made"
    return _error("/name", detail, "Choose another name, or delete that one.", ProblemCode.FOREIGN)


def _error(field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)
