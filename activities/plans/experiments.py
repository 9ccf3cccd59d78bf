"""Plans of tracking servers, of who may report to them, and of copies of experiments."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.buckets import account_of
from activities.errors import is_absent, problem_of
from activities.experiments import servers
from activities.experiments.access import ROLE_ANNOTATION
from activities.experiments.connections import connections, servers_of
from activities.experiments.server_acts import differences
from activities.experiments.sync import ExperimentSync
from activities.experiments.tracking import Tracking
from activities.kubernetes import read_or_none
from activities.plans.credentials import namespace_blockers
from activities.plans.parts import control_plane_of, identity_of
from activities.plans.world import Planner, World
from contracts.catalogue import (
    CONNECT_EXPERIMENTS,
    CREATE_TRACKING_SERVER,
    DELETE_TRACKING_SERVER,
    DISCONNECT_EXPERIMENTS,
    INSTALL_DEPENDENCIES,
    SYNC_EXPERIMENTS,
)
from contracts.cluster import ClusterRecord
from contracts.experiments import ConnectExperimentsSpec, DisconnectExperimentsSpec, SyncExperimentsSpec
from contracts.feature_catalogue import POD_IDENTITY_AGENT
from contracts.names import ClusterNames, mlflow_artifacts
from contracts.network import Scope
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.tracking_servers import (
    DeleteTrackingServerSpec,
    ServerState,
    TrackingServerSpec,
    TrackingServerView,
)

UNPRICED = "a tracking server is paid for every hour that it runs, by its size; no price list that is read here has it"
KIND = "tracking server"


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_TRACKING_SERVER.name: lambda request: _create(world, request),
        DELETE_TRACKING_SERVER.name: lambda request: _delete(world, request),
        CONNECT_EXPERIMENTS.name: lambda request: _connect(world, request),
        DISCONNECT_EXPERIMENTS.name: lambda request: _disconnect(world, request),
        SYNC_EXPERIMENTS.name: lambda request: _sync(world, request),
    }


def _scope(record: ClusterRecord) -> Scope:
    return Scope(cluster=record.tag, region=record.region, created_by="", request_id="make-plan")


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, TrackingServerSpec.model_validate(request.spec)
    identity = identity_of(record)
    account = account_of(world.aws, record.region)
    bucket = identity.bucket or ClusterNames(record.tag).bucket(account, record.region)
    store = mlflow_artifacts(bucket, spec.name)
    found = servers.describe_server(world.aws, record.region, spec.name)
    create = PlannedChange(
        action=Action.CREATE, kind=KIND, name=spec.name, detail=f"{spec.size.value}, artifacts in {store}"
    )
    role = PlannedChange(action=Action.CREATE, kind="IAM role", name=f"for {spec.name}", detail="to its artifacts only")
    if found is None:
        return PlanDraft(changes=[role, create], warnings=[UNPRICED], facts={"there": False})
    view = servers.find(world.aws, record.region, spec.name)
    blockers = _taken(view, record, spec, store, found)
    same = PlannedChange(action=Action.NOTHING, kind=KIND, name=spec.name, detail=f"it is {view.status} already")
    return PlanDraft(changes=[same], blockers=blockers, facts={"there": True, "status": view.status})


def _taken(
    view: TrackingServerView, record: ClusterRecord, spec: TrackingServerSpec, store: str, found: Any
) -> list[FieldError]:
    if view.cluster != record.tag:
        owner = f"cluster {view.cluster}'s" if view.cluster else "not made by the platform"
        detail = f"tracking server {spec.name} exists in {record.region} and is {owner}"
        return [_fault("/name", detail, "Choose another name, or connect to that one.", ProblemCode.FOREIGN)]
    if view.state in (ServerState.FAILED, ServerState.DELETING):
        detail, remedy = f"tracking server {spec.name} is {view.status}", "Delete it, or wait until it is gone."
        return [_fault("/name", detail, remedy, ProblemCode.NOT_READY)]
    wanted = {
        "ArtifactStoreUri": store,
        "TrackingServerSize": spec.size.value,
        "AutomaticModelRegistration": spec.register_models,
        "MlflowVersion": spec.mlflow_version,
        "WeeklyMaintenanceWindowStart": spec.maintenance_window,
    }
    different = differences({key: value for key, value in wanted.items() if value is not None}, found)
    if not different:
        return []
    detail = f"tracking server {spec.name} exists and differs: {', '.join(different)}"
    return [_fault("/name", detail, "Ask for it as it is, or choose another name.", ProblemCode.CONFLICT)]


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteTrackingServerSpec.model_validate(request.spec)
    if servers.describe_server(world.aws, record.region, spec.name) is None:
        detail = f"there is no tracking server {spec.name} in {record.region}"
        return PlanDraft(blockers=[_fault("/name", detail, "List the tracking servers.", ProblemCode.NOT_FOUND)])
    view = servers.find(world.aws, record.region, spec.name)
    blockers = []
    if view.cluster != record.tag:
        detail = f"tracking server {spec.name} was not made for cluster {record.tag}"
        blockers.append(_fault("/name", detail, "Delete it where it was made.", ProblemCode.FOREIGN))
    warnings = [f"all experiments and runs of {spec.name} are lost; its artifacts stay in {view.artifacts}"]
    if record.control_plane is not None:
        reporting = [
            f"{each.namespace}/{each.service_account}"
            for each in connections(world.aws, _scope(record), record.control_plane.name)
            if view.arn in each.servers
        ]
        if reporting:
            warnings.append(f"pods report to it as {', '.join(reporting)}")
    change = PlannedChange(action=Action.DELETE, kind=KIND, name=spec.name, detail=view.status)
    return PlanDraft(changes=[change], warnings=warnings, blockers=blockers, facts={"status": view.status})


def _connect(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, ConnectExperimentsSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    blockers: list[FieldError] = []
    view = _found(world, record.region, spec.tracking_server, "/tracking_server", blockers)
    cluster, who = plane.name, f"{spec.namespace}/{spec.service_account}"
    agent = _agent(world, record.region, cluster, blockers)
    with world.kubernetes.connect(record.region, cluster) as api:
        core = client.CoreV1Api(api)
        blockers += namespace_blockers(core, spec.namespace)
        there: Any = read_or_none(core.read_namespaced_service_account, spec.service_account, spec.namespace)
    if there is not None and (other := (there.metadata.annotations or {}).get(ROLE_ANNOTATION)):
        detail = f"service account {who} already takes role {other} by its annotation"
        remedy = "Name another service account, or remove that annotation."
        blockers.append(_fault("/service_account", detail, remedy, ProblemCode.CONFLICT))
    known = servers_of(world.aws, _scope(record), spec.namespace, spec.service_account)
    allowed = view is not None and view.arn in known
    warnings = []
    if view is not None and view.state not in (ServerState.READY, ServerState.UNKNOWN):
        warnings.append(f"the tracking server is {view.status}: nothing can be reported to it now")
    changes = [
        PlannedChange(action=Action.CREATE if there is None else Action.NOTHING, kind="service account", name=who),
        PlannedChange(
            action=Action.NOTHING if allowed else Action.CREATE,
            kind="permission",
            name=f"{who} to {view.arn if view is not None else spec.tracking_server}",
            detail="to report, and to write artifacts there; no other server",
        ),
    ]
    return PlanDraft(changes=changes, checks=[agent], warnings=warnings, blockers=blockers)


def _agent(world: World, region: str, cluster: str, blockers: list[FieldError]) -> Check:
    try:
        found: Any = world.aws.read.eks(region).describe_addon(clusterName=cluster, addonName=POD_IDENTITY_AGENT)
        return Check(name=POD_IDENTITY_AGENT, passed=True, detail=found["addon"]["status"])
    except Exception as error:
        if not is_absent(error, "ResourceNotFoundException"):
            raise
    detail, remedy = f"the cluster has no add-on {POD_IDENTITY_AGENT}", f"Install it ({INSTALL_DEPENDENCIES.name})."
    blockers.append(_fault("", detail, remedy, ProblemCode.NOT_READY))
    return Check(name=POD_IDENTITY_AGENT, passed=False, detail=detail, remedy=remedy)


def _disconnect(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DisconnectExperimentsSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    who = f"{spec.namespace}/{spec.service_account}"
    known = sorted(servers_of(world.aws, _scope(record), spec.namespace, spec.service_account))
    asked = spec.tracking_server
    going = [each for each in known if asked in (None, each, each.rpartition("/")[2])]
    connected = [
        each
        for each in connections(world.aws, _scope(record), plane.name)
        if (each.namespace, each.service_account) == (spec.namespace, spec.service_account)
    ]
    if not going and not (asked is None and connected):
        detail = f"service account {who} reports to " + (f"no server {asked}" if known else "no tracking server")
        field = "/tracking_server" if known else "/namespace"
        remedy = f"It reports to: {', '.join(known)}." if known else "List the connections."
        return PlanDraft(blockers=[_fault(field, detail, remedy, ProblemCode.NOT_FOUND)])
    changes = [PlannedChange(action=Action.DELETE, kind="permission", name=f"{who} to {each}") for each in going]
    if set(going) == set(known):
        parts = ("Pod Identity association", "IAM role", "service account")
        changes += [PlannedChange(action=Action.DELETE, kind=each, name=who) for each in parts]
    return PlanDraft(changes=changes, warnings=["pods that run as it cannot report any more"])


def _sync(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, SyncExperimentsSpec.model_validate(request.spec)
    blockers: list[FieldError] = []
    source = _found(world, record.region, spec.source, "/source", blockers)
    runs: int | None = None
    name = spec.destination_experiment or spec.experiment
    there = False
    if source is not None:
        try:
            with Tracking.of(world.aws, source.arn) as tracking:
                experiment = tracking.experiment_named(spec.experiment)
                if experiment is None:
                    detail = f"{source.name} has no experiment {spec.experiment!r}"
                    blockers.append(_fault("/experiment", detail, "List its experiments.", ProblemCode.NOT_FOUND))
                else:
                    runs = sum(1 for _ in tracking.runs([experiment["experiment_id"]], max_results=1000))
        except ApplicationError as error:
            blockers.append(_as_fault(error, "/source"))
    try:
        with ExperimentSync(world.aws).destination(spec) as destination:
            there = destination.experiment_named(name) is not None
    except ApplicationError as error:
        blockers.append(_as_fault(error, "/destination"))
    counted = "unknown" if runs is None else str(runs)
    changes = [
        PlannedChange(
            action=Action.NOTHING if there else Action.CREATE, kind="experiment", name=f"{name} of {spec.destination}"
        ),
        PlannedChange(action=Action.CHANGE, kind="runs", name=name, detail=f"{counted} runs of {spec.experiment}"),
    ]
    warnings = ["artifacts, models and data sets are not copied: runs go with metrics, parameters and tags"]
    account = spec.destination.split(":")[4]
    if account != account_of(world.aws, record.region):
        warnings.append(f"it writes into account {account}")
    return PlanDraft(changes=changes, warnings=warnings, blockers=blockers)


def _found(
    world: World, region: str, reference: str, field: str, blockers: list[FieldError]
) -> TrackingServerView | None:
    try:
        return servers.find(world.aws, region, reference)
    except ApplicationError as error:
        found = _as_fault(error, field)
        blockers.append(found.model_copy(update={"field": field}))
        return None


def _as_fault(error: ApplicationError, field: str) -> FieldError:
    found = problem_of(error)
    if found is None:
        raise error
    return _fault(found.field or field, found.detail, found.remedy or "", found.code)


def _fault(field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)
