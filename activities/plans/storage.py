"""Plans of storage: claims on S3 buckets, and the end of claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kubernetes import client

from activities.aws import AwsClients, is_ours, tag_map
from activities.buckets import account_of
from activities.errors import code_of, is_absent
from activities.fsx_storage.file_systems import as_file_system
from activities.fsx_storage.file_systems import describe as describe_file_system
from activities.kubernetes import listed, read_or_none
from activities.plans.parts import control_plane_of
from activities.plans.world import Planner, World
from activities.storage.claims import s3_pair
from activities.storage.pairs import Pair, difference, missing_namespace
from activities.storage.volumes import DRIVERS, pods_by_claim, storage_claims
from contracts.catalogue import CREATE_STORAGE, DELETE_STORAGE, INSTALL_DEPENDENCIES, UPDATE_FEATURES
from contracts.cluster import ClusterRecord
from contracts.features import Feature
from contracts.fsx_storage import price_item
from contracts.names import ClusterNames
from contracts.network import Scope
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.storage import Claim, DeleteStorageSpec, EnsureClaim, StorageSpec, StorageType
from contracts.words import some

BROUGHT_BY = {
    StorageType.S3: f"Install it: {INSTALL_DEPENDENCIES.name}.",
    StorageType.FSX_LUSTRE: f"Switch it on: {UPDATE_FEATURES.name} with {Feature.FSX_CSI.value}.",
}
"""How a driver comes into a cluster."""
SHOWN = 5


@dataclass
class Findings:
    """What a planner has found out so far. ``at`` is where the storage's spec stands in the operation's."""

    at: str = ""
    changes: list[PlannedChange] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    blockers: list[FieldError] = field(default_factory=list)
    hourly: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def block(self, pointer: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> None:
        self.blockers.append(FieldError(field=f"{self.at}{pointer}", detail=detail, remedy=remedy, code=code))

    def check(self, name: str, pointer: str, detail: str | None, remedy: str, code: ProblemCode) -> None:
        """A prerequisite; ``detail`` says what is missing, None that it is there."""
        given = remedy if detail is not None else None
        self.checks.append(Check(name=name, passed=detail is None, detail=detail, remedy=given))
        if detail is not None:
            self.block(pointer, detail, remedy, code)

    def draft(self) -> PlanDraft:
        return PlanDraft(
            changes=self.changes,
            checks=self.checks,
            warnings=self.warnings,
            blockers=self.blockers,
            hourly=self.hourly,
            facts=self.facts,
        )


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_STORAGE.name: lambda request: _create(world, request),
        DELETE_STORAGE.name: lambda request: _delete(world, request),
    }


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, StorageSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    own = _own_bucket(world.aws, record)
    found = Findings()
    if spec.bucket not in (None, own):
        look_at_bucket(world.aws, record.region, spec, found)
    wanted = EnsureClaim(scope=scope_of(record), eks_cluster=plane.name, bucket=spec.bucket or own, spec=spec)
    look_at_claim(world, record, s3_pair(wanted), f"s3://{wanted.bucket}/{spec.prefix or ''}", found)
    return found.draft()


def look_at_bucket(aws: AwsClients, region: str, spec: StorageSpec, found: Findings) -> None:
    """A bucket that is not the cluster's own: whether it is there, near, the account's, and may be listed."""
    name, s3 = spec.bucket or "", aws.read.s3(region)
    found.warnings.append(
        f"bucket {name} is not the cluster's own: the CSI driver's role needs s3:ListBucket on it, and s3:GetObject"
        + ("" if spec.read_only else ", s3:PutObject, s3:AbortMultipartUpload and s3:DeleteObject")
        + " on its objects"
    )
    try:
        there: Any = s3.head_bucket(Bucket=name)
        home = there.get("BucketRegion") or there["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")
    except Exception as error:
        if is_absent(error, "404", "NoSuchBucket"):
            detail = f"there is no bucket {name}"
            found.block(
                "/bucket", detail, "Make it first, or leave bucket out for the cluster's own.", ProblemCode.NOT_FOUND
            )
            return
        if code_of(error) in ("301", "PermanentRedirect"):
            _elsewhere(found, name, "another region", region)
            return
        if code_of(error) not in ("403", "AccessDenied"):
            raise
        _not_ours(found, spec, f"the platform may not look at bucket {name}: it may be another account's")
        return
    if home and home != region:
        _elsewhere(found, name, home, region)
    try:
        s3.head_bucket(Bucket=name, ExpectedBucketOwner=account_of(aws, region))
    except Exception as error:
        if code_of(error) not in ("403", "AccessDenied"):
            raise
        _not_ours(found, spec, f"bucket {name} belongs to another account")
    try:
        s3.list_objects_v2(Bucket=name, Prefix=spec.prefix or "", MaxKeys=1)
    except Exception as error:
        if code_of(error) not in ("403", "AccessDenied"):
            raise
        found.warnings.append(f"the platform may not list bucket {name}: what is in it will not be shown")


def _elsewhere(found: Findings, name: str, home: str, region: str) -> None:
    detail = f"bucket {name} is in {home}, the cluster in {region}"
    found.block("/bucket", detail, "Copy what is needed into a bucket of the cluster's region, and name that one.")


def _not_ours(found: Findings, spec: StorageSpec, detail: str) -> None:
    if spec.allow_foreign_bucket:
        found.warnings.append(f"{detail}; it is mounted unseen, as asked")
        return
    remedy = (
        "Allow s3:ListBucket on it to the platform's role, or send allow_foreign_bucket true if it is meant and its "
        "policy admits the driver's role."
    )
    found.block("/bucket", detail, remedy, ProblemCode.DENIED)


def look_at_claim(world: World, record: ClusterRecord, pair: Pair, source: str, found: Findings) -> None:
    """What stands in the way of a claim in the cluster, and what would be made of it."""
    assert record.control_plane is not None
    with world.kubernetes.connect(record.region, record.control_plane.name) as api:
        look_at_ground(api, pair.type, pair.namespace, found)
        core = client.CoreV1Api(api)
        volume = read_or_none(core.read_persistent_volume, pair.volume)
        claim = read_or_none(core.read_namespaced_persistent_volume_claim, pair.claim, pair.namespace)
    if (fault := difference(pair, volume, claim, "/claim")) is not None:
        found.blockers.append(fault)
    for kind, name, exists in (
        ("PersistentVolume", pair.volume, volume),
        ("PersistentVolumeClaim", f"{pair.namespace}/{pair.claim}", claim),
    ):
        action = Action.CREATE if exists is None else Action.NOTHING
        found.changes.append(PlannedChange(action=action, kind=kind, name=name, detail=source))


def look_at_ground(api: client.ApiClient, kind: StorageType, namespace: str, found: Findings) -> None:
    """The CSI driver and the namespace."""
    driver = DRIVERS[kind]
    there = read_or_none(client.StorageV1Api(api).read_csi_driver, driver)
    detail = None if there is not None else f"the cluster has no CSI driver {driver}"
    found.check(f"CSI driver {driver}", "", detail, BROUGHT_BY[kind], ProblemCode.NOT_FOUND)
    held = read_or_none(client.CoreV1Api(api).read_namespace, namespace)
    if (fault := missing_namespace(held, namespace, "/namespace")) is not None:
        found.blockers.append(fault)


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteStorageSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    found, name = Findings(), f"{spec.namespace}/{spec.claim}"
    with world.kubernetes.connect(record.region, plane.name) as api:
        core = client.CoreV1Api(api)
        claims = storage_claims(core, record.tag)
        claim = next((each for each in claims if (each.namespace, each.claim) == (spec.namespace, spec.claim)), None)
        if claim is None:
            return _leftover(core, record, spec, claims)
        users = pods_by_claim(core).get((spec.namespace, spec.claim), [])
        idle = _idle_users(client.AppsV1Api(api), spec)
    if not claim.managed and not spec.foreign:
        remedy = "Send foreign true if it is meant, or delete it with kubectl."
        found.block("/foreign", f"claim {name} was not made by the platform", remedy, ProblemCode.FOREIGN)
    if users:
        detail = f"pods use claim {name}: {some(users, SHOWN)}"
        found.block("/claim", detail, "Delete who runs them first.", ProblemCode.CONFLICT)
    if idle and not users:
        found.warnings.append(f"{', '.join(idle)} mount claim {name}: without it their pods will not start")
    for kind, each in (("PersistentVolumeClaim", name), ("PersistentVolume", claim.volume)):
        found.changes.append(PlannedChange(action=Action.DELETE, kind=kind, name=each))
    _look_at_data(world, record, spec, claim, claims, found)
    found.facts |= {"volume": claim.volume, "source": claim.source}
    return found.draft()


def _idle_users(apps: client.AppsV1Api, spec: DeleteStorageSpec) -> list[str]:
    """Deployments and stateful sets whose pods would mount the claim, also those that have none now."""
    kinds = {"Deployment": apps.list_namespaced_deployment, "StatefulSet": apps.list_namespaced_stateful_set}
    return [
        f"{kind} {each.metadata.name}"
        for kind, read in kinds.items()
        for each in listed(partial(read, spec.namespace))
        if any(
            volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == spec.claim
            for volume in each.spec.template.spec.volumes or ()
        )
    ]


def _look_at_data(
    world: World, record: ClusterRecord, spec: DeleteStorageSpec, claim: Claim, claims: list[Claim], found: Findings
) -> None:
    """What becomes of what the claim shows."""
    pointer = "/delete_file_system"
    if claim.type is StorageType.S3:
        if spec.delete_file_system:
            found.block(pointer, f"claim {claim.claim} is on S3, not on a file system", "Leave it out.")
        if claim.bucket:
            stays = PlannedChange(action=Action.KEEP, kind="S3 bucket", name=claim.bucket, detail="with all data")
            found.changes.append(stays)
        return
    if claim.file_system is None:
        return
    if not spec.delete_file_system:
        detail = "with all data; it is paid for until it is deleted"
        found.changes.append(
            PlannedChange(action=Action.KEEP, kind="FSx file system", name=claim.file_system, detail=detail)
        )
        return
    described = describe_file_system(world.aws, record.region, claim.file_system)
    if described is None:
        found.changes.append(
            PlannedChange(action=Action.NOTHING, kind="FSx file system", name=claim.file_system, detail="it is gone")
        )
        return
    if not is_ours(tag_map(described.get("Tags")), record.tag):
        detail = f"file system {claim.file_system} was not made by the platform for {record.tag}"
        found.block(pointer, detail, "Delete it yourself, or leave delete_file_system out.", ProblemCode.FOREIGN)
    others = [
        f"{each.namespace}/{each.claim}"
        for each in claims
        if each.file_system == claim.file_system and (each.namespace, each.claim) != (claim.namespace, claim.claim)
    ]
    if others:
        detail = f"other claims are on file system {claim.file_system}: {', '.join(others)}"
        found.block(pointer, detail, "Delete those first.", ProblemCode.CONFLICT)
    file_system = as_file_system(described, record.tag, changed=False)
    size = f"{file_system.capacity_gib} GiB, {file_system.deployment_type}"
    found.changes.append(
        PlannedChange(action=Action.DELETE, kind="FSx file system", name=claim.file_system, detail=size)
    )
    found.warnings.append(f"file system {claim.file_system} goes with all its data; no backup is made")
    item = price_item(file_system.deployment_type, file_system.throughput)
    found.hourly[item] = -file_system.capacity_gib


def _leftover(core: client.CoreV1Api, record: ClusterRecord, spec: DeleteStorageSpec, claims: list[Claim]) -> PlanDraft:
    """Of a claim that is not there: the volume that an earlier deletion has left, if there is one."""
    volume = ClusterNames(record.tag).persistent_volume(spec.claim, spec.namespace)
    if read_or_none(core.read_persistent_volume, volume) is not None:
        gone = PlannedChange(
            action=Action.NOTHING,
            kind="PersistentVolumeClaim",
            name=f"{spec.namespace}/{spec.claim}",
            detail="it is gone already",
        )
        return PlanDraft(changes=[gone, PlannedChange(action=Action.DELETE, kind="PersistentVolume", name=volume)])
    known = ", ".join(f"{each.namespace}/{each.claim}" for each in claims) or "none"
    found = Findings()
    detail = f"there is no claim {spec.namespace}/{spec.claim} on S3 or FSx; there are: {known}"
    found.block("/claim", detail, "Name one of those, with its namespace.", ProblemCode.NOT_FOUND)
    return found.draft()


def _own_bucket(aws: AwsClients, record: ClusterRecord) -> str:
    if record.identity is not None and record.identity.bucket:
        return record.identity.bucket
    return ClusterNames(record.tag).bucket(account_of(aws, record.region), record.region)


def scope_of(record: ClusterRecord) -> Scope:
    """For what only looks."""
    return Scope(cluster=record.tag, region=record.region, created_by=record.created_by, request_id="-")
