"""Plans of routers."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.deployments import objects as deployments
from activities.inference.services import ENGINES
from activities.model_pools import objects as pools
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, labels_of
from activities.plans.credentials import namespace_blockers
from activities.plans.parts import control_plane_of
from activities.plans.serving import balancer_controller
from activities.plans.world import Planner, World
from activities.routers import manifests, objects
from activities.routers.read import absent
from contracts.catalogue import CREATE_ROUTER, DELETE_ROUTER
from contracts.cluster import ClusterRecord
from contracts.names import LABEL_DEPLOYMENT, LABEL_ROUTER
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.routers import DEFAULT_WORKER_PORT, DeleteRouterSpec, RouterSpec


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_ROUTER.name: lambda request: _create(world, request),
        DELETE_ROUTER.name: lambda request: _delete(world, request),
    }


class _Look:
    """What stands in the way of one router."""

    def __init__(self, record: ClusterRecord, spec: RouterSpec) -> None:
        self.record, self.spec = record, spec
        self.checks: list[Check] = []
        self.warnings: list[str] = []
        self.blockers: list[FieldError] = []
        self.worker_port = spec.worker_port or DEFAULT_WORKER_PORT

    def block(self, field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> None:
        self.blockers.append(FieldError(field=field, detail=detail, remedy=remedy, code=code))

    def target(self, api: client.ApiClient) -> int:
        """The target must be there, with pods of an engine that is spoken to in OpenAI's format. Returns how many are
        ready."""
        spec, target = self.spec, self.spec.target
        if target.deployment is not None:
            self._deployment(api, target.deployment)
        elif target.pool is not None:
            self._pool(api, target.pool, target.service or "")
        pods = objects.targets(api, spec.namespace, target)
        ready = objects.ready(pods)
        self.checks.append(
            Check(name=f"pods of {target.words}", passed=bool(ready), detail=f"{len(ready)} of {len(pods)} ready")
        )
        if not pods and not self.blockers:
            remedy = "Name labels of pods that serve a model, in the router's own namespace."
            field = "/target/selector" if target.selector else "/target"
            self.block(field, f"namespace {spec.namespace} has no pod of {target.words}", remedy, ProblemCode.NOT_FOUND)
        elif pods and not ready:
            remedy = "Wait until one is, or look at what holds them up."
            detail = f"none of the {len(pods)} pods of {target.words} is ready: nobody could answer through the router"
            self.block("/target", detail, remedy, ProblemCode.NOT_READY)
        images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
        if pods and not any(engine in image.lower() for image in images for engine in ENGINES):
            self.warnings.append(
                f"none of the images {', '.join(sorted(images))} is known to answer in OpenAI's format"
            )
        if target.selector and pods and not self._listens(pods):
            self.warnings.append(f"none of these pods names the port {self.worker_port}; see worker_port")
        return len(ready)

    def _deployment(self, api: client.ApiClient, name: str) -> None:
        found = deployments.deployment(api, self.spec.namespace, name)
        if found is None or not is_ours(found, self.record.tag) or LABEL_DEPLOYMENT not in labels_of(found):
            detail = f"namespace {self.spec.namespace} has no deployment {name} of {self.record.tag}"
            remedy = "Create it first (create-deployment), or name labels (selector)."
            self.block("/target/deployment", detail, remedy, ProblemCode.NOT_FOUND)
            return
        made_from = deployments.spec_of(found)
        self._port(made_from.port if made_from is not None else None)

    def _pool(self, api: client.ApiClient, name: str, service: str) -> None:
        found = deployments.deployment(api, self.spec.namespace, name)
        if found is None or not pools.is_pool(found, self.record.tag):
            detail = f"namespace {self.spec.namespace} has no model pool {name} of {self.record.tag}"
            self.block("/target/pool", detail, "Create it first (create-model-pool).", ProblemCode.NOT_FOUND)
            return
        wish, _ = pools.wish_of(found)
        if not wish.assignments.get(service):
            detail = f"no pods of {name} are assigned to {service}"
            self.block("/target/service", detail, "Assign some first (assign-model-pool).", ProblemCode.NOT_FOUND)
        made_from = pools.spec_of(found)
        self._port(made_from.port if made_from is not None else None)

    def _port(self, known: int | None) -> None:
        if known is None:
            return
        if self.spec.worker_port not in (None, known):
            remedy = f"Send {known}, or leave worker_port out."
            self.block("/worker_port", f"its servers listen on {known}, not on {self.spec.worker_port}", remedy)
        self.worker_port = known

    def _listens(self, pods: list[Raw]) -> bool:
        return any(
            port.get("containerPort") == self.worker_port
            for pod in pods
            for container in pod["spec"]["containers"]
            for port in container.get("ports") or ()
        )

    def names(self, api: client.ApiClient) -> None:
        """None of its names may be another's."""
        spec = self.spec
        wanted = [("Deployment", spec.name), *(("Service", name) for name in self.services())]
        wanted += [(manifest["kind"], spec.name) for manifest in manifests.account(self.record.tag, spec, "-")]
        known = objects.parts(api)
        for kind, name in wanted:
            there = known[kind].get(name, spec.namespace)
            if there is None:
                continue
            if not is_ours(there, self.record.tag) or labels_of(there).get(LABEL_ROUTER) != spec.name:
                detail = f"a {kind} {name} exists that is no router's of {self.record.tag}"
                self.block("/name", detail, "Choose another name.", ProblemCode.FOREIGN)

    def services(self) -> list[str]:
        return [each["metadata"]["name"] for each in manifests.services(self.record.tag, self.spec, "-")]


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, RouterSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    look = _Look(record, spec)
    action, ready = Action.CREATE, 0
    with world.kubernetes.connect(record.region, plane.name) as api:
        core = client.CoreV1Api(api)
        if missing := namespace_blockers(core, spec.namespace):
            return PlanDraft(blockers=missing)
        look.names(api)
        found = deployments.deployment(api, spec.namespace, spec.name)
        if found is not None and objects.is_router(found) and is_ours(found, record.tag):
            different = objects.differences(objects.spec_of(found), spec)
            action = Action.CHANGE if different else Action.NOTHING
            if different and not deployments.of_this_run(found):
                detail = f"router {spec.name} exists and differs: {'; '.join(different)}"
                remedy = "Choose another name, or delete that router first (delete-router)."
                look.block("/name", detail, remedy, ProblemCode.CONFLICT)
        ready = look.target(api)
        if spec.service == "public":
            check, blockers = balancer_controller(api, "/service")
            look.checks.append(check)
            look.blockers += blockers
    if spec.policy == "cache_aware" and spec.replicas > 1:
        look.warnings.append("each of several routers remembers for itself which server knows what")
    kinds = ("ServiceAccount", "Role", "RoleBinding")
    detail = f"{spec.policy} among {ready} ready pods of {spec.target.words}"
    changes = [PlannedChange(action=action, kind=kind, name=spec.name) for kind in kinds]
    changes.append(PlannedChange(action=action, kind="router", name=spec.operated, detail=detail))
    changes += [PlannedChange(action=action, kind="Service", name=name) for name in look.services()]
    facts: dict[str, Any] = {"worker_port": look.worker_port}
    return PlanDraft(
        changes=changes,
        checks=look.checks,
        warnings=look.warnings,
        blockers=look.blockers,
        hourly={"load-balancer": 1} if spec.service == "public" and action is Action.CREATE else {},
        facts=facts,
    )


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteRouterSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    blockers: list[FieldError] = []
    with world.kubernetes.connect(record.region, plane.name) as api:
        there = objects.all_of(api, spec.namespace, spec.name)
        if not there:
            detail, remedy = absent(api, record.tag, spec.namespace, spec.name), "List the routers."
            return PlanDraft(
                blockers=[FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.NOT_FOUND)]
            )
        if others := [found for _, found in there if not is_ours(found, record.tag)]:
            detail = f"{others[0]['metadata']['name']} belongs to another cluster's router"
            remedy = "Delete it with kubectl, if it may go."
            blockers.append(FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.FOREIGN))
    changes = [
        PlannedChange(action=Action.DELETE, kind=part.kind, name=found["metadata"]["name"])
        for part, found in reversed(there)
    ]
    facts: dict[str, Any] = {"parts": [f"{part.kind}/{found['metadata']['name']}" for part, found in there]}
    return PlanDraft(changes=changes, blockers=blockers, facts=facts)
