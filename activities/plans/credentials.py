"""Plans of credentials."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.credentials.opening import opened
from activities.credentials.secrets import foreign, is_ours, token_in
from activities.credentials.uses import users_of
from activities.errors import problem_of
from activities.kubernetes import read_or_none
from activities.plans.parts import control_plane_of
from activities.plans.world import Planner, World
from contracts.catalogue import DELETE_CREDENTIAL, STORE_CREDENTIAL
from contracts.credentials import DeleteCredentialSpec, StoreCredentialSpec
from contracts.names import credential_secret
from contracts.plans import Action, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode


def planners(world: World) -> dict[str, Planner]:
    return {
        STORE_CREDENTIAL.name: lambda request: _store(world, request),
        DELETE_CREDENTIAL.name: lambda request: _delete(world, request),
    }


def _store(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, StoreCredentialSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    try:
        token = opened(world.settings, record.tag, spec)
    except ApplicationError as error:
        return PlanDraft(blockers=[_as_blocker(error)])
    name = credential_secret(spec.name)
    with world.kubernetes.connect(record.region, plane.name) as api:
        core = client.CoreV1Api(api)
        if blockers := namespace_blockers(core, spec.namespace):
            return PlanDraft(blockers=blockers)
        there: Any = read_or_none(core.read_namespaced_secret, name, spec.namespace)
        users = users_of(api, [(spec.namespace, name)])[spec.namespace, name] if there is not None else []
    if there is not None and not is_ours(there.metadata.labels, record.tag):
        detail, remedy = foreign(spec.namespace, name)
        return PlanDraft(blockers=[FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.FOREIGN)])
    same = there is not None and token_in(there) == token
    action = Action.CREATE if there is None else Action.NOTHING if same else Action.CHANGE
    warnings = []
    if users and not same:
        warnings.append(f"pods that run keep the former token until they are started again: {', '.join(users)}")
    return PlanDraft(
        changes=[PlannedChange(action=action, kind="Secret", name=f"{spec.namespace}/{name}")], warnings=warnings
    )


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteCredentialSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    name = credential_secret(spec.name)
    with world.kubernetes.connect(record.region, plane.name) as api:
        there: Any = read_or_none(client.CoreV1Api(api).read_namespaced_secret, name, spec.namespace)
        if there is None:
            detail = f"there is no credential {spec.name} in namespace {spec.namespace}"
            return PlanDraft(blockers=[_error("/name", detail, "List the credentials.", ProblemCode.NOT_FOUND)])
        users = users_of(api, [(spec.namespace, name)])[spec.namespace, name]
    blockers = []
    if not is_ours(there.metadata.labels, record.tag):
        blockers.append(_error("/name", *foreign(spec.namespace, name), ProblemCode.FOREIGN))
    if users:
        detail = f"it is used by {', '.join(users)}"
        remedy = "Delete these first, or store another token under the name instead."
        blockers.append(_error("/name", detail, remedy, ProblemCode.CONFLICT))
    change = PlannedChange(action=Action.DELETE, kind="Secret", name=f"{spec.namespace}/{name}")
    return PlanDraft(changes=[change], blockers=blockers)


def namespace_blockers(core: client.CoreV1Api, name: str) -> list[FieldError]:
    """A blocker for a namespace that does not exist."""
    if read_or_none(core.read_namespace, name) is not None:
        return []
    remedy = f"Make it (kubectl create namespace {name}), or name another one."
    return [_error("/namespace", f"there is no namespace {name}", remedy, ProblemCode.NOT_FOUND)]


def _as_blocker(error: ApplicationError) -> FieldError:
    found = problem_of(error)
    if found is None:
        raise error
    return FieldError(field=found.field or "", detail=found.detail, remedy=found.remedy, code=found.code)


def _error(field: str, detail: str, remedy: str, code: ProblemCode) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)
