"""Plans of training runs, and of what is done to them."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.context import run_id
from activities.deployments.capacity import in_words
from activities.instance_types import EFA, NVIDIA, InstanceFacts, describe_types
from activities.kubernetes import read_or_none
from activities.plans.credentials import namespace_blockers
from activities.plans.parts import control_plane_of
from activities.plans.training_needs import (
    beyond_quota,
    elastic_blockers,
    operator_check,
    queue_blockers,
    tiered_account,
)
from activities.plans.training_sagemaker import look_at
from activities.plans.world import Planner, World
from activities.storage.volumes import claim_of
from activities.training.acts import differences
from activities.training.manifests import resources_of
from activities.training.paths import Job, Site
from activities.training.registry import find
from activities.training.room import Room, room_for
from activities.training.sight import ANNOTATION_SUSPENDED_BY
from contracts.catalogue import RESUME_TRAINING, RUN_TRAINING, STOP_TRAINING, SUSPEND_TRAINING
from contracts.cluster import ClusterRecord
from contracts.commands import Severity
from contracts.log_patterns import is_anchored
from contracts.names import LABEL_CLUSTER, LABEL_TRAINING, ClusterNames, credential_secret
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.training import StopTrainingSpec, TrainingSpec
from contracts.training_parts import Submission, TrainingName

REQUESTED_BY = {
    NVIDIA: "/gpus_per_node",
    EFA: "/efa_per_node",
    "cpu": "/resources/cpu",
    "memory": "/resources/memory_gib",
}
"""The fields that say what a pod requests."""


def planners(world: World) -> dict[str, Planner]:
    return {
        RUN_TRAINING.name: lambda request: _run(world, request),
        STOP_TRAINING.name: lambda request: _control(world, request, "stop"),
        SUSPEND_TRAINING.name: lambda request: _control(world, request, "suspend"),
        RESUME_TRAINING.name: lambda request: _control(world, request, "resume"),
    }


def _run(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, TrainingSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    look = TrainingLook(world, record, spec)
    with world.kubernetes.connect(record.region, plane.name) as api:
        if missing := namespace_blockers(client.CoreV1Api(api), spec.namespace):
            return PlanDraft(blockers=missing)
        found = find(Site(api, world.aws, record.region, record.tag), spec.namespace, spec.name)
        action = look.place(found)
        look.look(api)
        if spec.path is Submission.SAGEMAKER:
            look.hourly = look_at(Site(api, world.aws, record.region, record.tag), look)
        elif action is not Action.NOTHING and look.known_type:
            look.room(api)
    return look.draft(action, found)


class TrainingLook:
    """What stands in the way of one run, gathered while a plan is made."""

    def __init__(self, world: World, record: ClusterRecord, spec: TrainingSpec) -> None:
        self.world, self.record, self.spec = world, record, spec
        self.checks: list[Check] = []
        self.warnings: list[str] = []
        self.blockers: list[FieldError] = []
        self.facts: dict[str, Any] = {}
        self.efa = spec.efa_per_node or 0
        self.hourly: dict[str, int] = {}
        self.known_type = False
        """Whether EC2 knows the instance type."""

    def place(self, found: Job | None) -> Action:
        """Whether the name is free, or has just this run already."""
        if found is None:
            return Action.CREATE
        spec = self.spec
        if found.labels.get(LABEL_CLUSTER) != ClusterNames(self.record.tag).label or LABEL_TRAINING not in found.labels:
            detail = f"a job {spec.name} exists that is no run of {self.record.tag}"
            self.block("/name", detail, "Choose another name, or delete that one.", ProblemCode.FOREIGN)
            return Action.CREATE
        if found.state.ended or found.deleting:
            return Action.CREATE
        different = differences(found.spec, spec)
        own = (found.run or "").partition("/")[0] == run_id()
        if different and not own:
            detail = f"a job {spec.name} runs that differs: {'; '.join(different)}"
            remedy = "Stop it first (stop-training), or choose another name."
            self.block("/name", detail, remedy, ProblemCode.CONFLICT)
        return Action.CHANGE if different else Action.NOTHING

    def look(self, api: client.ApiClient) -> None:
        """Everything that the run refers to, and what its recipe says of the hardware."""
        core = client.CoreV1Api(api)
        check, blockers = operator_check(api, self.spec)
        self.checks.append(check)
        self.blockers += blockers
        self._storage(core)
        self._credentials(core)
        self._hardware()
        blockers, told = queue_blockers(api, self.spec)
        self.blockers += blockers
        self.warnings += told
        if not blockers and self.known_type:
            self.warnings += beyond_quota(api, self.spec, resources_of(self.spec, self.efa)["requests"])
        self.blockers += elastic_blockers(self.record, self.spec)
        account, blockers = tiered_account(self.record, self.spec)
        self.blockers += blockers
        self.facts |= {"efa": self.efa, "tiered_account": account}
        if self.known_type:
            self._recipe()
        self._words()

    def _storage(self, core: client.CoreV1Api) -> None:
        spec = self.spec
        for position, mount in enumerate(spec.mounts):
            field = f"/storage/{position}/claim" if spec.storage is not None else "/storage"
            found: Any = read_or_none(core.read_namespaced_persistent_volume_claim, mount.claim, spec.namespace)
            if found is None:
                detail = f"namespace {spec.namespace} has no claim {mount.claim}"
                remedy = "Mount storage first (create-storage), or send storage [] for a run without any."
                self.block(field, detail, remedy, ProblemCode.NOT_FOUND)
                continue
            volume = found.spec.volume_name
            claim = claim_of(found, read_or_none(core.read_persistent_volume, volume) if volume else None, "")
            told = f"{claim.phase}{', read-only' if claim.read_only else ''}"
            bound = claim.phase == "Bound"
            writable = mount.read_only or not claim.read_only
            self.checks.append(Check(name=f"claim {mount.claim}", passed=bound and writable, detail=told))
            if not bound:
                remedy = "Wait until it is Bound, or look at what holds it up (create-storage tells)."
                self.block(field, f"claim {mount.claim} is {claim.phase}", remedy, ProblemCode.NOT_READY)
            elif not writable:
                remedy = "Name a claim that may be written, or send read_only true."
                self.block(field, f"claim {mount.claim} may only be read", remedy)

    def _credentials(self, core: client.CoreV1Api) -> None:
        for field, name in self.spec.credentials.items():
            if read_or_none(core.read_namespaced_secret, credential_secret(name), self.spec.namespace) is None:
                detail = f"namespace {self.spec.namespace} has no credential {name}"
                self.block(field, detail, "Store it first (store-credential).", ProblemCode.NOT_FOUND)

    def _hardware(self) -> None:
        """GPUs and EFA interfaces of the type."""
        spec, kind = self.spec, self.spec.instance_type
        facts = describe_types(self.world.aws, self.record.region, [kind.removeprefix("ml.")]).get(
            kind.removeprefix("ml.")
        )
        if facts is None:
            detail = f"EC2 knows no instance type {kind} in {self.record.region}"
            self.block("/instance_types/0", detail, "Correct its name.")
            return
        self.known_type = True
        gpus = facts.accelerators if facts.accelerator_resource == NVIDIA else 0
        if spec.gpus_per_node > gpus:
            has = f"has {gpus} GPUs" if gpus else "has no NVIDIA GPUs"
            detail = f"{spec.gpus_per_node} processes with a GPU each are asked for on a node, and {kind} {has}"
            remedy = (
                f"Ask for at most {gpus}, and for more nodes." if gpus else "Choose a type with GPUs, or ask for 0."
            )
            self.block("/gpus_per_node", detail, remedy)
        elif gpus > spec.gpus_per_node > 0:
            self.warnings.append(
                f"{gpus - spec.gpus_per_node} of the {gpus} GPUs of each {kind} stay free for other work"
            )
        self._efa(facts)
        if spec.shm_gib is not None and spec.shm_gib > facts.memory_gib:
            self.warnings.append(
                f"shm_gib is {spec.shm_gib}, and {kind} has {facts.memory_gib:g} GiB of memory, of which /dev/shm is a "
                "part: a program that fills it is ended before it is full"
            )

    def _efa(self, facts: InstanceFacts) -> None:
        spec, kind = self.spec, self.spec.instance_type
        if spec.efa_per_node is None:
            self.efa = facts.efa_interfaces if spec.nodes > 1 else 0
        elif spec.efa_per_node > facts.efa_interfaces:
            detail = (
                f"{spec.efa_per_node} EFA interfaces are asked for on a node, and {kind} has {facts.efa_interfaces}"
            )
            remedy = f"Ask for at most {facts.efa_interfaces}." if facts.efa_interfaces else "Send 0, or leave it out."
            self.block("/efa_per_node", detail, remedy)
        elif spec.nodes > 1 and facts.efa_interfaces and not spec.efa_per_node:
            self.warnings.append(f"{kind} has EFA and the run does not use it: its nodes talk over TCP, much slower")

    def _recipe(self) -> None:
        for finding in self.spec.recipe.findings(self.spec.shape(self.efa)):
            if finding.severity is Severity.ERROR:
                self.block(finding.field, finding.message, finding.remedy or "Correct it.")
            elif finding.severity is Severity.WARNING:
                self.warnings.append(f"{finding.message}. {finding.remedy or ''}".strip())

    def _words(self) -> None:
        """What is legal, and seldom meant."""
        spec = self.spec
        image = spec.image or spec.launch(self.efa).image or ""
        tag = image.rpartition("/")[2]
        if "@" not in tag and (":" not in tag or tag.endswith(":latest")):
            self.warnings.append(f"the image {image} is not pinned: another attempt may run another one")
        for rule in spec.log_monitoring:
            if is_anchored(rule.pattern):
                self.warnings.append(
                    f"log rule {rule.name} fits only lines that begin with its pattern; write .* before it if a time "
                    "or a rank stands there, else the job is taken for hanging"
                )
        if spec.keep_logs and (self.record.identity is None or self.record.identity.bucket is None):
            self.warnings.append("the cluster has no bucket of its own: neither logs nor a record of the run are kept")

    def room(self, api: client.ApiClient) -> None:
        spec = self.spec
        requests: dict[str, str] = resources_of(spec, self.efa)["requests"]
        found = room_for(api, spec, requests)
        kind, wanted = spec.instance_type, spec.nodes
        groups = self.record.hyperpod.groups if self.record.hyperpod is not None else []
        planned = any(kind == group.instance_type for group in groups) or bool(found.scaled)
        told = f"{found.free} of {found.nodes} nodes are free, {wanted} are asked for"
        self.checks.append(Check(name=f"room on {kind}", passed=found.free >= wanted, detail=told))
        if not found.nodes and not planned:
            detail = f"the cluster has no node of type {kind}, and neither an instance group nor a node pool for one"
            remedy = "Choose a type that the cluster has, or add an instance group (add-instance-group)."
            self.block("/instance_types/0", detail, remedy, ProblemCode.CAPACITY)
        elif found.nodes and not found.large_enough:
            self._too_large(found, requests)
        elif found.free < wanted:
            missing = wanted - found.free
            coming = f"; node pool {', '.join(found.scaled)} may make them" if found.scaled else ""
            busy = f"{found.large_enough} there are" if found.large_enough else "there are none"
            self.warnings.append(
                f"{missing} of {wanted} nodes of type {kind} are missing now ({busy}, {found.free} free): the run "
                f"waits until they are there{coming}"
            )

    def _too_large(self, room: Room, requests: dict[str, str]) -> None:
        short = room.short_of(requests)
        asked = [
            f"{in_words(name, requests[name])} (one has {in_words(name, room.most[name])} to give)" for name in short
        ]
        self.block(
            next((pointer for name, pointer in REQUESTED_BY.items() if name in short), "/resources"),
            f"no {self.spec.instance_type} of the cluster is large enough for a pod, which takes {', '.join(asked)}",
            "Ask for less on each node.",
            ProblemCode.CAPACITY,
        )

    def draft(self, action: Action, found: Job | None) -> PlanDraft:
        spec = self.spec
        image = spec.image or spec.launch(self.efa).image
        hardware = f"{spec.nodes} × {spec.instance_type}, {spec.gpus_per_node} GPUs and {self.efa} EFA interfaces each"
        budget = spec.recovery
        again = (
            f"{budget.job_retries} retries; {budget.in_place_restarts} restarts in place within "
            f"{budget.window_seconds} s, then {budget.full_restarts} with new pods"
        )
        if spec.path is not Submission.HYPERPOD:
            again = f"{budget.job_retries} retries"
        detail = f"{spec.recipe.kind} on {hardware}; {image}; {again}"
        changes = [PlannedChange(action=action, kind="training job", name=spec.target, detail=detail)]
        if spec.experiment is not None:
            where = spec.experiment.tracking_server or spec.experiment.tracking_uri
            changes.append(
                PlannedChange(
                    action=Action.CREATE,
                    kind="experiment",
                    name=spec.experiment.experiment,
                    detail=f"reported to {where}",
                )
            )
        return PlanDraft(
            changes=changes,
            checks=self.checks,
            warnings=self.warnings,
            blockers=self.blockers,
            hourly=self.hourly if action is Action.CREATE else {},
            facts={**self.facts, "job": found.uid if found is not None else None},
        )

    def block(self, field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> None:
        self.blockers.append(FieldError(field=field, detail=detail, remedy=remedy, code=code))


def _control(world: World, request: MakePlan, action: str) -> PlanDraft:
    # All three specifications have the same members.
    record, spec = request.record, StopTrainingSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = find(Site(api, world.aws, record.region, record.tag), spec.namespace, spec.name)
    if found is None and action == "stop":
        # Its operation may be at its checks, or wait for an answer: it ends all the same.
        told = f"there is no job of a training run {spec.target} now; the operation that runs it, if one does, ends"
        change = PlannedChange(action=Action.NOTHING, kind="training job", name=spec.target, detail=told)
        return PlanDraft(changes=[change], warnings=[told], facts={"job": None})
    if found is None:
        return PlanDraft(blockers=[_absent(spec)])
    if found.labels.get(LABEL_CLUSTER) != ClusterNames(record.tag).label or LABEL_TRAINING not in found.labels:
        detail = f"the job {spec.target} is no run of {record.tag}"
        remedy = "Delete it with kubectl, if it may go."
        blocker = FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.FOREIGN)
        return PlanDraft(blockers=[blocker])
    if action != "stop" and found.submission is Submission.SAGEMAKER:
        remedy = "Stop it (stop-training), and submit it anew later: it goes on from its last checkpoint."
        detail = "SageMaker suspends no training jobs"
        blocker = FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.UNSUPPORTED)
        return PlanDraft(blockers=[blocker])
    if action == "stop":
        told = f"it is {found.state.value}; its pods go, logs and checkpoints stay"
        change = PlannedChange(action=Action.DELETE, kind="training job", name=spec.target, detail=told)
        lost = [] if found.state.ended else ["what it computed since its last checkpoint is lost"]
        return PlanDraft(changes=[change], warnings=lost, facts={"job": found.uid})
    return _suspension(found, spec, action)


def _suspension(found: Job, spec: TrainingName, action: str) -> PlanDraft:
    if found.state.ended or found.deleting:
        state = "is being deleted" if found.deleting else f"has {found.state.value}"
        detail = f"the job {spec.target} {state}"
        blocker = FieldError(field="/name", detail=detail, remedy="Submit the run anew.", code=ProblemCode.CONFLICT)
        return PlanDraft(blockers=[blocker])
    by_us = found.annotations.get(ANNOTATION_SUSPENDED_BY) is not None
    is_so = found.suspended if found.queue is None else by_us
    step = Action.NOTHING if is_so is (action == "suspend") else Action.CHANGE
    wanted = {"suspend": "suspended", "resume": "resumed"}[action]
    change = PlannedChange(action=step, kind="training job", name=spec.target, before=found.state.value, detail=wanted)
    warnings = []
    if action == "suspend" and step is Action.CHANGE:
        warnings.append("its pods go, and what it computed since its last checkpoint is lost")
    return PlanDraft(changes=[change], warnings=warnings, facts={"job": found.uid, "suspended": is_so})


def _absent(spec: TrainingName) -> FieldError:
    return FieldError(
        field="/name",
        detail=f"there is no job of a training run {spec.target}",
        remedy="List the training runs. An operation that still waits for one is ended by abort.",
        code=ProblemCode.NOT_FOUND,
    )
