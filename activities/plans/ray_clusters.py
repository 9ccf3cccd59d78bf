"""Plans of Ray clusters for people."""

from __future__ import annotations

from dataclasses import dataclass

from kubernetes import client

from activities import custom
from activities.deployments.capacity import in_words, room_for
from activities.deployments.objects import of_this_run
from activities.instance_types import EFA, NVIDIA, describe_types
from activities.kubernetes import read_or_none
from activities.node_pools.objects import is_ours
from activities.nodes.sight import labels_of
from activities.plans.autoscalers import SWITCH_ON, blocker_of
from activities.plans.credentials import namespace_blockers
from activities.plans.parts import control_plane_of
from activities.plans.world import Planner, World
from activities.ray import RAY_CLUSTER
from activities.ray_clusters import objects
from activities.ray_clusters.manifests import requests_of, worker_cpu, worker_memory
from contracts.catalogue import CREATE_RAY_CLUSTER, DELETE_RAY_CLUSTER
from contracts.cluster import ClusterRecord
from contracts.features import Feature
from contracts.names import LABEL_RAY_CLUSTER, credential_secret
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.ray_clusters import DeleteRayClusterSpec, RayClusterSpec
from contracts.ray_parts import ray_version_of
from contracts.words import number_of

REQUESTED_BY = {
    NVIDIA: "/gpus_per_worker",
    EFA: "/efa_per_worker",
    "cpu": "/worker_cpu",
    "memory": "/worker_memory_gib",
}
"""The fields that say what a worker requests."""
HARDWARE = frozenset(REQUESTED_BY.values())
FLOATING = ("latest", "nightly")


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_RAY_CLUSTER.name: lambda request: _create(world, request),
        DELETE_RAY_CLUSTER.name: lambda request: _delete(world, request),
    }


def kuberay_check(api: client.ApiClient, kind: custom.Kind) -> Check:
    """That KubeRay runs, and knows the kind; whoever installed it."""
    missing = custom.missing_controller(api, Feature.KUBERAY, kind)
    return Check(name="KubeRay", passed=missing is None, detail=missing, remedy=SWITCH_ON.format("kuberay"))


@dataclass(frozen=True)
class _Worker:
    """What nodes are asked for."""

    instance_types: list[str]
    gpu_count: int
    efa: int


class _Look:
    """What stands in the way of one Ray cluster."""

    def __init__(self, world: World, record: ClusterRecord, spec: RayClusterSpec) -> None:
        self.world, self.record, self.spec = world, record, spec
        self.checks: list[Check] = []
        self.warnings: list[str] = []
        self.blockers: list[FieldError] = []

    def block(self, field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> None:
        self.blockers.append(FieldError(field=field, detail=detail, remedy=remedy, code=code))

    def operator(self, api: client.ApiClient) -> None:
        check = kuberay_check(api, RAY_CLUSTER)
        self.checks.append(check)
        if (blocker := blocker_of(check)) is not None:
            self.blockers.append(blocker)

    def present(self, api: client.ApiClient) -> Action:
        """What becomes of a RayCluster of the name."""
        spec, found = self.spec, objects.find(api, self.spec.namespace, self.spec.name)
        if found is None:
            return Action.CREATE
        if not is_ours(found, self.record.tag) or LABEL_RAY_CLUSTER not in labels_of(found):
            detail = f"a RayCluster {spec.name} exists that is no {objects.WHAT} of {self.record.tag}"
            self.block("/name", detail, "Choose another name, or delete that one.", ProblemCode.FOREIGN)
            return Action.NOTHING
        different = objects.differences(objects.spec_of(found), spec)
        if different and not of_this_run(found):
            detail = f"Ray cluster {spec.name} exists and differs: {'; '.join(different)}"
            remedy = "Choose another name, or delete that one first (delete-ray-cluster)."
            self.block("/name", detail, remedy, ProblemCode.CONFLICT)
        return Action.CHANGE if different else Action.NOTHING

    def refers(self, core: client.CoreV1Api) -> None:
        """Claims must be there and Bound, credentials stored."""
        spec, read = self.spec, core.read_namespaced_persistent_volume_claim
        for position, mount in enumerate(spec.storage or ()):
            found = read_or_none(read, mount.claim, spec.namespace)
            if found is None:
                detail = f"namespace {spec.namespace} has no claim {mount.claim}"
                remedy = "Mount storage first (create-storage)."
                self.block(f"/storage/{position}/claim", detail, remedy, ProblemCode.NOT_FOUND)
                continue
            phase = found.status.phase if found.status is not None else "Pending"
            self.checks.append(Check(name=f"claim {mount.claim}", passed=phase == "Bound", detail=phase))
            if phase != "Bound":
                remedy = "Wait until it is Bound, or look at what holds it up (create-storage tells)."
                field = f"/storage/{position}/claim"
                self.block(field, f"claim {mount.claim} is {phase}", remedy, ProblemCode.NOT_READY)
        for field, name in spec.credentials.items():
            if read_or_none(core.read_namespaced_secret, credential_secret(name), spec.namespace) is None:
                detail = f"namespace {spec.namespace} has no credential {name}"
                self.block(field, detail, "Store it first (store-credential).", ProblemCode.NOT_FOUND)

    def image(self) -> None:
        image = self.spec.image
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        if ("@" not in image and not tag) or tag.split("-")[0] in FLOATING:
            self.warnings.append(f"the image {image} is another one tomorrow: name a version of it")
        if self.spec.ray_version is None and ray_version_of(image) is None:
            self.warnings.append(
                f"which Ray the image {image} has is not known before its head answers: say ray_version"
            )

    def hardware(self) -> None:
        """What the instance types have, of what is asked for."""
        spec = self.spec
        names = [each.removeprefix("ml.") for each in spec.instance_types]
        known = describe_types(self.world.aws, self.record.region, names)
        for position, name in enumerate(names):
            facts = known.get(name)
            field = f"/instance_types/{position}"
            if facts is None:
                detail = f"EC2 knows no instance type {name} in {self.record.region}"
                self.block(field, detail, "Correct its name.")
            elif spec.gpus_per_worker > facts.accelerators:
                detail = f"a worker takes {spec.gpus_per_worker} GPUs, and {name} has {facts.accelerators}"
                self.block("/gpus_per_worker", detail, "Ask for fewer, or name another type.")
            elif spec.efa_per_worker > facts.efa_interfaces:
                detail = f"a worker takes {spec.efa_per_worker} EFA interfaces, and {name} has {facts.efa_interfaces}"
                self.block("/efa_per_worker", detail, f"Ask for at most {facts.efa_interfaces}.")

    def room(self, api: client.ApiClient) -> None:
        spec = self.spec
        if not spec.workers:
            return
        gpus, efa = spec.gpus_per_worker, spec.efa_per_worker
        requests = requests_of(worker_cpu(spec), worker_memory(spec), gpus, efa)
        room = room_for(api, _Worker(spec.instance_types, gpus, efa), requests, [])
        where = ", ".join(spec.instance_types) or "any node"
        for each in room.types.values():
            said = each.words().replace("replicas", "workers")
            self.checks.append(
                Check(name=f"room on {each.instance_type}", passed=each.slots > 0 or not gpus, detail=said)
            )
        if room.types and not room.large_enough and not room.scaled:
            short = room.short_of(requests)
            asked = [
                f"{in_words(name, requests[name])} (one has at most {in_words(name, room.most[name])})"
                for name in short or requests
            ]
            self.block(
                next((pointer for name, pointer in REQUESTED_BY.items() if name in short), "/worker_memory_gib"),
                f"no node of the cluster ({where}) is large enough for a worker, which takes {', '.join(asked)}",
                "Ask for less, or add an instance group of larger machines (add-instance-group).",
                ProblemCode.CAPACITY,
            )
        elif not room.types and not room.scaled:
            self.warnings.append(
                f"the cluster has no node that may take a worker ({where}): it waits until one is added"
            )
        elif gpus and room.slots < spec.workers and not room.scaled:
            missing = spec.workers - room.slots
            self.warnings.append(f"{missing} of {spec.workers} workers find no free GPUs now, and wait for them")


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, RayClusterSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    look = _Look(world, record, spec)
    with world.kubernetes.connect(record.region, plane.name) as api:
        core = client.CoreV1Api(api)
        if missing := namespace_blockers(core, spec.namespace):
            return PlanDraft(blockers=missing)
        look.operator(api)
        action = look.present(api)
        look.refers(core)
        look.image()
        look.hardware()
        if action is Action.CREATE and not any(each.field in HARDWARE for each in look.blockers):
            look.room(api)
    if spec.gpus:
        look.warnings.append(
            f"it holds {number_of(spec.gpus, 'GPU')} until it is deleted, whether something runs on it or not"
        )
    workers = f"{number_of(spec.workers, 'worker')} × {number_of(spec.gpus_per_worker, 'GPU')}"
    return PlanDraft(
        changes=[
            PlannedChange(
                action=action, kind="RayCluster", name=spec.target, detail=f"a head and {workers}, {spec.image}"
            )
        ],
        checks=look.checks,
        warnings=look.warnings,
        blockers=look.blockers,
    )


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteRayClusterSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = objects.find(api, spec.namespace, spec.name)
        if found is None or LABEL_RAY_CLUSTER not in labels_of(found):
            detail = objects.absent(api, record.tag, spec.namespace, spec.name)
            blocker = FieldError(
                field="/name", detail=detail, remedy="List the Ray clusters.", code=ProblemCode.NOT_FOUND
            )
            return PlanDraft(blockers=[blocker])
        if not is_ours(found, record.tag):
            detail, remedy = f"{spec.name} belongs to another cluster", "Delete it with kubectl, if it may go."
            blocker = FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.FOREIGN)
            return PlanDraft(blockers=[blocker])
        pods = objects.pods_of(api, spec.namespace, spec.name)
        head = next(iter(pods), None)
        use = objects.use_of(api, head, 0) if head is not None else None
    warnings = [f"{use.note}: it is ended"] if use is not None and use.running else []
    changes = [
        PlannedChange(
            action=Action.DELETE, kind="RayCluster", name=spec.target, detail=f"with {number_of(len(pods), 'pod')}"
        )
    ]
    return PlanDraft(changes=changes, warnings=warnings, facts={"uid": found["metadata"]["uid"]})
