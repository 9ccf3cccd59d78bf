"""Plans of managed endpoints.

The rules are those of the inference operator. (SageMaker Developer Guide: model deployment on HyperPod; field
descriptions of its custom resources)
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from kubernetes import client

from activities import custom
from activities.credentials.secrets import token_in
from activities.custom import Object
from activities.deployments.capacity import room_for
from activities.errors import code_of, is_absent
from activities.fsx_storage import file_systems
from activities.fsx_storage.file_systems import LUSTRE, trouble
from activities.hyperpod.cluster import describe
from activities.hyperpod.groups import Specification
from activities.instance_types import NVIDIA, describe_types
from activities.kubernetes import read_or_none
from activities.managed_endpoints.endpoints import find
from activities.managed_endpoints.manifests import accelerator, spec_of
from activities.managed_endpoints.serving import pods_of
from activities.managed_endpoints.view import KINDS, as_endpoint, sagemaker_name
from activities.node_groups.observe import list_nodes
from activities.node_pools.groups import LABEL_TYPE, types_of
from activities.node_pools.objects import is_ours
from activities.plans.autoscalers import SWITCH_ON, blocker_of, keda_check
from activities.plans.credentials import namespace_blockers
from activities.plans.models import ask_hub
from activities.plans.parts import control_plane_of
from activities.plans.room import Replica, room_checks, shortfall
from activities.plans.world import Planner, World
from contracts.catalogue import CREATE_ENDPOINT, DELETE_ENDPOINT, UPDATE_ENDPOINT
from contracts.cluster import ClusterRecord
from contracts.command_facts import LintFacts, NodeShape
from contracts.command_lint import lint
from contracts.commands import Finding, Severity
from contracts.endpoint_parts import CacheBackend, FsxSource, HuggingFaceSource, S3Source
from contracts.features import Feature
from contracts.managed_endpoints import DeleteEndpointSpec, EndpointSpec
from contracts.models import DownloadSpec
from contracts.names import credential_secret
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of

DRIVERS = {"s3": "s3.csi.aws.com", "fsx": "fsx.csi.aws.com"}
OPTIONAL = ("autoScalingSpec", "dnsConfig", "endpointName", "kvCacheSpec", "loadBalancer", "tags", "tlsConfig")
"""Members that the operator does not fill in by itself: gone from the spec, they are taken away."""
WITH_PREREQUISITES = "Switch the feature inference_operator on (update-features, with enable_prerequisites)."


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_ENDPOINT.name: lambda request: _Planner(world, request).create(),
        UPDATE_ENDPOINT.name: lambda request: _Planner(world, request).update(),
        DELETE_ENDPOINT.name: lambda request: _delete(world, request),
    }


class _Planner:
    """One plan of an endpoint in the making."""

    def __init__(self, world: World, request: MakePlan) -> None:
        self.world, self.record = world, request.record
        self.spec = EndpointSpec.model_validate(request.spec)
        self.wanted = spec_of(self.spec, self.record.region)
        self.checks: list[Check] = []
        self.warnings: list[str] = []
        self.blockers: list[FieldError] = []

    def create(self) -> PlanDraft:
        plane = control_plane_of(self.record)
        with self.world.kubernetes.connect(self.record.region, plane.name) as api:
            found = find(api, self.spec.namespace, self.spec.name)
            self._prerequisites(api)
            same = found is not None and self._kept(found)
            if found is None:
                self._taken(api)
            if not same:
                self._room(api, self.spec.replicas)
        if self.spec.routing is not None:
            self.warnings.append("routing cannot be taken away from an endpoint later")
        elif self.spec.replicas > 1:
            self.warnings.append("routing cannot be added to an endpoint later; without it the Service alone balances")
        return self._draft(Action.NOTHING if same else Action.CREATE, found)

    def update(self) -> PlanDraft:
        plane = control_plane_of(self.record)
        with self.world.kubernetes.connect(self.record.region, plane.name) as api:
            found = find(api, self.spec.namespace, self.spec.name)
            self._prerequisites(api)
            if found is not None:
                self._room(api, self.spec.replicas - as_endpoint(found, self.record.tag).replicas)
        if found is None:
            detail = f"there is no endpoint {self.spec.name} in namespace {self.spec.namespace}"
            self._block("/name", detail, "Create it (create-endpoint).", ProblemCode.NOT_FOUND)
            return self._draft(Action.NOTHING, None)
        if not is_ours(found, self.record.tag):
            self._block("/name", *_foreign(self.spec.name))
        self._immutable(found)
        differing = differences(found.get("spec", {}), self.wanted)
        return self._draft(Action.CHANGE if differing else Action.NOTHING, found, differing)

    def _draft(self, action: Action, found: Object | None, differing: list[str] | None = None) -> PlanDraft:
        spec = self.spec
        types, routed = ", ".join(spec.instance_types), f", routed {spec.routing.value}" if spec.routing else ""
        detail = f"{number_of(spec.replicas, 'replica')} on {types}{routed}"
        changes = [PlannedChange(action=action, kind=spec.kind, name=spec.name, detail=detail)]
        for member in differing or ():
            before, after = (found or {}).get("spec", {}).get(member), self.wanted.get(member)
            changes.append(
                PlannedChange(action=Action.CHANGE, kind=spec.kind, name=f"{member}", before=before, after=after)
            )
        if action is Action.CREATE:
            changes.append(
                PlannedChange(action=action, kind="Deployment", name=spec.name, detail="made by the inference operator")
            )
            if spec.sagemaker_endpoint is not None:
                told = "made by the inference operator, with a load balancer"
                changes.append(
                    PlannedChange(action=action, kind="SageMaker endpoint", name=spec.sagemaker_endpoint, detail=told)
                )
        balanced = action is Action.CREATE and spec.sagemaker_endpoint is not None
        generation: Any = found["metadata"].get("generation") if found is not None else None
        return PlanDraft(
            changes=changes,
            checks=self.checks,
            warnings=self.warnings,
            blockers=self.blockers,
            hourly={"load-balancer": 1} if balanced else {},
            facts={"generation": generation},
        )

    # What must be there

    def _prerequisites(self, api: client.ApiClient) -> None:
        spec = self.spec
        missing = custom.missing_controller(api, Feature.INFERENCE_OPERATOR, KINDS[spec.kind])
        self._check("inference operator", missing is None, missing, WITH_PREREQUISITES)
        core = client.CoreV1Api(api)
        self.blockers += namespace_blockers(core, spec.namespace)
        token = None
        for field, name in spec.credentials.items():
            found = read_or_none(core.read_namespaced_secret, credential_secret(name), spec.namespace)
            if found is None:
                detail = f"namespace {spec.namespace} has no credential {name}"
                self._block(field, detail, "Store it first (store-credential).", ProblemCode.NOT_FOUND)
            elif field == "/source/credential":
                token = token_in(found)
        self._sagemaker_name(api)
        self._driver(api)
        self._source(token)
        hyperpod = self._hyperpod()
        self._capacity(api, hyperpod)
        self._lint()
        cache = spec.kv_cache.l2 if spec.kv_cache is not None else None
        if cache is not None and cache.backend is CacheBackend.TIERED_STORAGE:
            on = ((hyperpod or {}).get("TieredStorageConfig") or {}).get("Mode") == "Enable"
            told = None if on else "the HyperPod cluster has no tiered storage"
            self._check("tiered storage", on, told, SWITCH_ON.format("tiered_checkpointing"), "/kv_cache/l2/backend")
        if spec.autoscaling is not None:
            check = keda_check(api)
            self._check(check.name, check.passed, check.detail, check.remedy or "", "/autoscaling")

    def _sagemaker_name(self, api: client.ApiClient) -> None:
        """Two endpoints would change, and delete, the one SageMaker endpoint of a name."""
        spec = self.spec
        if spec.sagemaker_endpoint is None:
            return
        for each in (found for kind in KINDS.values() for found in custom.list_all(api, kind, None)):
            place = (each["metadata"]["namespace"], each["metadata"]["name"])
            taken = sagemaker_name(each.get("spec", {})) == spec.sagemaker_endpoint
            if taken and place != (spec.namespace, spec.name):
                detail = f"endpoint {'/'.join(place)} has the SageMaker endpoint {spec.sagemaker_endpoint}"
                self._block("/sagemaker_endpoint", detail, "Choose another name.", ProblemCode.CONFLICT)

    def _check(self, name: str, passed: bool, detail: str | None, remedy: str, field: str = "") -> None:
        check = Check(name=name, passed=passed, detail=detail, remedy=None if passed else remedy)
        self.checks.append(check)
        if (blocker := blocker_of(check, field)) is not None:
            self.blockers.append(blocker)

    def _driver(self, api: client.ApiClient) -> None:
        driver = DRIVERS.get(self.spec.source.type)
        if driver is not None:
            there = read_or_none(client.StorageV1Api(api).read_csi_driver, driver) is not None
            self._check(f"CSI driver {driver}", there, None if there else "it is not installed", WITH_PREREQUISITES)

    def _source(self, token: str | None) -> None:
        source = self.spec.source
        if isinstance(source, S3Source):
            self._s3(source)
        elif isinstance(source, FsxSource):
            self._file_system(source)
        elif isinstance(source, HuggingFaceSource):
            if source.credential is None or token is not None:
                self._hub(source, token)
        elif not source.accept_eula:
            self.warnings.append("models with a licence of their own are refused without accept_eula")

    def _s3(self, source: S3Source) -> None:
        prefix = f"{source.location.rstrip('/')}/" if source.location else ""
        s3 = self.world.aws.read.s3(source.region or self.record.region)
        try:
            page = s3.list_objects_v2(Bucket=source.bucket, Prefix=prefix, MaxKeys=1)
        except Exception as error:
            if is_absent(error, "NoSuchBucket", "404"):
                detail = f"there is no bucket {source.bucket}"
                self._block("/source/bucket", detail, "Name the bucket that has the model.", ProblemCode.NOT_FOUND)
                return
            if code_of(error) in ("AccessDenied", "403"):
                self.warnings.append(f"the platform may not look into bucket {source.bucket}: nothing is checked there")
                return
            raise
        if not page.get("KeyCount"):
            detail = f"s3://{source.bucket}/{prefix} holds nothing"
            remedy = "Name the model's folder, or download the model there first (download-model)."
            self._block("/source/location", detail, remedy, ProblemCode.NOT_FOUND)

    def _hub(self, source: HuggingFaceSource, token: str | None) -> None:
        """Whether the Hub gives the model to whom the operator will ask as. A Hub that does not answer here is no
        fault: the cluster may have another way to it."""
        named = {"repository": source.model_id, "revision": source.revision or "main", "credential": source.credential}
        try:
            asked = DownloadSpec.model_validate(named)
        except ValueError:
            self._block("/source/model_id", f"the Hub has no name like {source.model_id}", "Write owner/name.")
            return
        _, refused, unreachable = ask_hub(self.world, asked, token)
        if unreachable is not None:
            self.warnings.append(f"the platform cannot reach the Hub ({unreachable}): the model is not checked there")
        elif refused is not None and refused.code is ProblemCode.THROTTLED:
            self.warnings.append(f"{refused.detail}: the model is not checked there")
        elif refused is not None:
            pointer = "/source/model_id" if refused.field == "/repository" else f"/source{refused.field}"
            self._block(pointer, refused.detail, refused.remedy or "", refused.code)

    def _file_system(self, source: FsxSource) -> None:
        name, pointer = source.file_system_id, "/source/file_system_id"
        described = file_systems.describe(self.world.aws, self.record.region, name)
        if described is None:
            detail = f"there is no file system {name} in {self.record.region}"
            self._block(pointer, detail, "Name the one that has the model.", ProblemCode.NOT_FOUND)
        elif described["FileSystemType"] != LUSTRE:
            detail = f"file system {name} is of type {described['FileSystemType']}, not {LUSTRE}"
            self._block(pointer, detail, "Name an FSx for Lustre file system.")
        elif (said := trouble(described)) is not None:
            self._block(pointer, said, "Mend it, or name another one.", ProblemCode.NOT_READY)
        else:
            self.warnings.append(f"what file system {name} holds cannot be seen from here: the path is not checked")

    def _hyperpod(self) -> Specification | None:
        cluster = self.record.hyperpod
        return describe(self.world.aws, self.record.region, cluster.name) if cluster is not None else None

    def _capacity(self, api: client.ApiClient, hyperpod: Specification | None) -> None:
        """Whether nodes of the types are there, or may come."""
        spec = self.spec
        offered = {name for group in (hyperpod or {}).get("InstanceGroups", []) for name in types_of(group)}
        nodes = {each: len(list_nodes(api, f"{LABEL_TYPE}={each}")) for each in spec.instance_types}
        if not any(nodes.values()):
            if offered & set(spec.instance_types):
                told = f"no node of {', '.join(spec.instance_types)} is there now: replicas wait until one comes"
                self.warnings.append(told)
            else:
                detail = f"the cluster has no instance group of {', '.join(spec.instance_types)}"
                remedy = f"Add one (add-instance-group), or choose of: {', '.join(sorted(offered)) or 'none'}."
                self._block("/instance_types", detail, remedy, ProblemCode.CAPACITY)

    def _room(self, api: client.ApiClient, more: int) -> None:
        """Whether ``more`` replicas would find their GPUs now. What a JumpStart model takes is not known here, nor are
        AWS's own accelerators counted."""
        spec, worker = self.spec, self.spec.worker
        if worker is None or not worker.gpu_count or accelerator(spec.instance_types) != NVIDIA or more <= 0:
            return
        requests: dict[str, str] = self.wanted["worker"]["resources"]["requests"]
        room = room_for(api, Replica(spec.instance_types, worker.gpu_count), requests, [])
        self.checks += room_checks(room, worker.gpu_count)
        if room.types and (told := shortfall(room, worker.gpu_count, more)) is not None:
            self.warnings.append(told)

    @cached_property
    def _shapes(self) -> list[NodeShape]:
        names = {name.removeprefix("ml."): name for name in self.spec.instance_types}
        facts = describe_types(self.world.aws, self.record.region, list(names))
        return [
            NodeShape(instance_type=names[name], gpus=fact.accelerators, gpu_gib=fact.gpu_gib or None)
            for name, fact in facts.items()
            if name in names
        ]

    def _lint(self) -> None:
        """What is wrong with the server's arguments, or may surprise."""
        worker = self.spec.worker
        if worker is None:
            return
        facts = LintFacts(
            image=worker.image,
            port=worker.port,
            gpu_count=worker.gpu_count,
            nodes=self._shapes,
            mounts={worker.mount_path: "the model"},
            environment=worker.env,
            credential=bool(self.spec.credentials),
        )
        for finding in lint(worker.read, facts):
            if finding.severity is Severity.ERROR:
                self._block(_at(finding, len(worker.command)), finding.message, finding.remedy or "Correct it.")
            elif finding.severity is Severity.WARNING:
                self.warnings.append(f"{finding.message}. {finding.remedy or ''}".strip())

    # What is there already

    def _kept(self, found: Object) -> bool:
        """Whether what exists is what is asked; blockers where it is not."""
        spec = self.spec
        if not is_ours(found, self.record.tag):
            self._block("/name", *_foreign(spec.name))
            return False
        if found["kind"] != spec.kind:
            detail = f"{spec.name} is a {found['kind']} already"
            self._block("/name", detail, "Choose another name, or delete that one.", ProblemCode.CONFLICT)
            return False
        if differing := differences(found.get("spec", {}), self.wanted):
            detail = f"endpoint {spec.name} exists and differs in {', '.join(differing)}"
            self._block("/name", detail, "Change it with update-endpoint.", ProblemCode.CONFLICT)
            return False
        return True

    def _taken(self, api: client.ApiClient) -> None:
        read = client.AppsV1Api(api).read_namespaced_deployment
        if read_or_none(read, self.spec.name, self.spec.namespace) is not None:
            detail = f"a Deployment {self.spec.name} exists, and the operator would make one of that name"
            self._block("/name", detail, "Choose another name.", ProblemCode.CONFLICT)

    def _immutable(self, found: Object) -> None:
        """(custom resource: ``intelligentRoutingSpec`` is refused on existing deployments, ``enabled`` is fixed)"""
        now = as_endpoint(found, self.record.tag)
        if (now.routing is None) != (self.spec.routing is None):
            detail = f"routing is {'on' if now.routing else 'off'}, and the operator cannot change that any more"
            self._block("/routing", detail, "Keep it, or make another endpoint.", ProblemCode.CONFLICT)
        if found["kind"] != self.spec.kind:
            detail = f"{self.spec.name} is a {found['kind']}, and cannot become a {self.spec.kind}"
            self._block("/source/type", detail, "Make another endpoint.", ProblemCode.CONFLICT)

    def _block(self, field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> None:
        self.blockers.append(FieldError(field=field, detail=detail, remedy=remedy, code=code))


def _at(finding: Finding, commanded: int) -> str:
    """Where in an endpoint's specification a finding is. ``commanded``: words of the command, before the arguments."""
    if finding.field != "/command":
        return f"/worker{finding.field}"
    if finding.token is None:
        return "/worker/args"
    index = finding.token - commanded
    return f"/worker/args/{index}" if index >= 0 else f"/worker/command/{finding.token}"


def differences(live: Object, wanted: Object) -> list[str]:
    """Members of a custom resource's spec that are not as wanted; what its API server filled in does not count."""
    changed = [key for key, value in wanted.items() if not _within(value, live.get(key))]
    return sorted([*changed, *(key for key in OPTIONAL if key in live and key not in wanted)])


def _within(wanted: Any, live: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(live, dict):
        return all(_within(value, live.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list):
        return len(wanted) == len(live) and all(_within(*pair) for pair in zip(wanted, live, strict=True))
    return bool(wanted == live)


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record: ClusterRecord = request.record
    spec = DeleteEndpointSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    with world.kubernetes.connect(record.region, plane.name) as api:
        found = find(api, spec.namespace, spec.name)
        if found is None:
            there = [each for kind in KINDS.values() for each in custom.list_all(api, kind, spec.namespace)]
            names = ", ".join(each["metadata"]["name"] for each in there) or "none"
            detail = f"there is no endpoint {spec.name} in namespace {spec.namespace}; there are: {names}"
            remedy = "List the endpoints."
            fault = FieldError(field="/name", detail=detail, remedy=remedy, code=ProblemCode.NOT_FOUND)
            return PlanDraft(blockers=[fault])
        pods = len(pods_of(api, found))
    seen = as_endpoint(found, record.tag)
    changes = [
        PlannedChange(action=Action.DELETE, kind=seen.kind, name=spec.name),
        PlannedChange(action=Action.DELETE, kind="Deployment", name=spec.name, detail=f"with {number_of(pods, 'pod')}"),
    ]
    if seen.sagemaker_endpoint is not None:
        name = seen.sagemaker_endpoint.rpartition("/")[2]
        changes.append(PlannedChange(action=Action.DELETE, kind="SageMaker endpoint", name=name))
    blockers = []
    if not is_ours(found, record.tag):
        detail, remedy, code = _foreign(spec.name)
        blockers = [FieldError(field="/name", detail=detail, remedy=remedy, code=code)]
    return PlanDraft(changes=changes, blockers=blockers)


def _foreign(name: str) -> tuple[str, str, ProblemCode]:
    detail = f"an endpoint {name} exists that InstantStart has not made"
    return detail, "Choose another name, or delete that one with kubectl.", ProblemCode.FOREIGN
