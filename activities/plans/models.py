"""Plans of downloads from the Hugging Face Hub."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.aws import AwsClients
from activities.errors import problem_of
from activities.models.downloads import claim_for, downloaded, folder_manifest, token_of
from activities.models.hub import Hub, HubError, Refusal, explain, look_up
from activities.models.job import scratch_gib
from activities.models.room import Room, room_for
from activities.plans.credentials import namespace_blockers
from activities.plans.parts import control_plane_of
from activities.plans.world import Planner, World
from contracts.catalogue import DOWNLOAD_MODEL
from contracts.models import DownloadSpec, RepositoryFound, deadline_of
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.storage import Claim, StorageType
from contracts.words import number_of

GIB = 2**30


def planners(world: World) -> dict[str, Planner]:
    return {DOWNLOAD_MODEL.name: lambda request: _download(world, request)}


def _download(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DownloadSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    blockers: list[FieldError] = []
    warnings: list[str] = []
    token = None
    with world.kubernetes.connect(record.region, plane.name) as api:
        core = client.CoreV1Api(api)
        if blockers := namespace_blockers(core, spec.namespace):
            return PlanDraft(blockers=blockers)
        claim = claim_for(core, spec, record.tag)
        try:
            token = token_of(api, spec)
        except ApplicationError as error:
            blockers.append(_as_fault(error))
        room = room_for(api, spec)
    blockers += _claim_faults(spec, claim)
    found, unreachable = RepositoryFound(), None
    if not any(each.field == "/credential" for each in blockers):
        found, refused, unreachable = ask_hub(world, spec, token)
        blockers += [refused] if refused is not None else []
    if unreachable is not None:
        warnings.append(
            f"the platform cannot reach the Hub ({unreachable}), so size and access are not known; the Job may reach it"
        )
    elif found.commit is not None and found.size is None:
        warnings.append("it has too many files to list here: size and progress are known when the Job runs")
    elif found.commit is not None and not found.files:
        detail = f"no file of {spec.repository} fits include and exclude"
        blockers.append(_fault("/include", detail, "Give globs that fit, e.g. *.safetensors; none takes all files."))
    blockers += _no_room(spec, found, room)
    if not room.fitting and room.autoscaled:
        warnings.append("no node has room now: a node pool makes one, which takes minutes")
    if claim is not None and not blockers:
        blockers += _another(world.aws, record.region, claim, spec)
    there = None
    if claim is not None and found.commit is not None and not blockers:
        there = downloaded(world.aws, record.region, claim, spec, found.commit)
    return PlanDraft(
        changes=_changes(spec, found, there is not None),
        checks=[*_checks(claim, room), _reachable(unreachable)],
        warnings=warnings,
        blockers=blockers,
        facts={"commit": found.commit, "files": found.files, "bytes": found.size, "there": there is not None},
    )


def ask_hub(
    world: World, spec: DownloadSpec, token: str | None
) -> tuple[RepositoryFound, FieldError | None, str | None]:
    """What the Hub has, what it refuses, and why it does not answer."""
    endpoint = world.settings.hugging_face_endpoint
    try:
        with Hub(endpoint, token) as hub:
            return look_up(hub, spec), None, None
    except HubError as error:
        if error.refusal is Refusal.UNREACHABLE:
            return RepositoryFound(), None, str(error)
        return RepositoryFound(), explain(error, spec, endpoint), None


def _another(aws: AwsClients, region: str, claim: Claim, spec: DownloadSpec) -> list[FieldError]:
    """A folder has the files of one repository: those of two would be read as one model, and replace each other."""
    left = folder_manifest(aws, region, claim, spec.folder)
    if left is None or (left.repository, left.repository_type) == (spec.repository, spec.repository_type):
        return []
    detail = f"{spec.folder} on claim {spec.claim} holds {left.repository_type.value} {left.repository}"
    return [_fault("/path", detail, "Name another folder, or leave path out.", ProblemCode.CONFLICT)]


def _claim_faults(spec: DownloadSpec, claim: Claim | None) -> list[FieldError]:
    name = f"{spec.namespace}/{spec.claim}"
    if claim is None:
        detail = f"there is no claim {name} on S3 or FSx"
        return [_fault("/claim", detail, "Make one with create-storage, or name another.", ProblemCode.NOT_FOUND)]
    if claim.phase != "Bound":
        remedy = "Wait until it is Bound, or look why it is not (kubectl describe pvc)."
        return [_fault("/claim", f"claim {name} is {claim.phase}", remedy, ProblemCode.NOT_READY)]
    if claim.read_only:
        remedy = "Make another claim on the bucket that may be written (create-storage), or name another."
        return [_fault("/claim", f"claim {name} is read-only", remedy)]
    return []


def _no_room(spec: DownloadSpec, found: RepositoryFound, room: Room) -> list[FieldError]:
    if room.autoscaled:
        return []
    if room.fitting:
        return _no_disk(found, room)
    wanted = f"{spec.cpu:g} CPUs and {spec.memory_gib} GiB"
    if spec.instance_types and not room.of_types:
        types = ", ".join(spec.instance_types)
        detail = f"the cluster has no Ready node of type {types}, and no node pool that could make one"
        there = ", ".join(room.types) or "none"
        return [_fault("/instance_types", detail, f"Choose of: {there}; or none for any.", ProblemCode.CAPACITY)]
    field = "/cpu" if room.most_cpu < spec.cpu else "/memory_gib"
    detail = f"no Ready node has {wanted} to give; the largest gives {room.most_cpu:g} CPUs, {room.most_memory:g} GiB"
    if not room.nodes:
        field, detail = "", "the cluster has no Ready node that takes the Job, and no node pool that could make one"
    return [_fault(field, detail, "Ask for less, or add nodes (add-instance-group).", ProblemCode.CAPACITY)]


def _no_disk(found: RepositoryFound, room: Room) -> list[FieldError]:
    """Files pass through a node's own disk, one by one. A node that does not tell of its disk is believed."""
    scratch = scratch_gib(found.largest)
    if not 0 < room.most_disk < scratch:
        return []
    detail = f"the largest file needs {scratch} GiB of a node's own disk; the roomiest node gives {room.most_disk:g}"
    remedy = "Choose or add nodes with a larger root volume, or exclude the file."
    return [_fault("/instance_types", detail, remedy, ProblemCode.CAPACITY)]


def _changes(spec: DownloadSpec, found: RepositoryFound, there: bool) -> list[PlannedChange]:
    what = f"{spec.repository_type.value} {spec.repository}"
    at = f"{spec.namespace}/{spec.claim}:{spec.folder}"
    if there:
        detail = f"all {found.files} files are in {at} already"
        return [PlannedChange(action=Action.NOTHING, kind="files", name=what, detail=detail)]
    size = (
        f"{number_of(found.files, 'file')}, {found.size / GIB:.2f} GiB" if found.size is not None else "of unknown size"
    )
    limit = deadline_of(spec, found.size)
    return [
        PlannedChange(
            action=Action.CREATE,
            kind="Job",
            name=spec.target,
            detail=f"at most {timedelta(seconds=round(limit.total_seconds()))}, {spec.cpu:g} CPUs, "
            f"{spec.memory_gib} GiB, {scratch_gib(found.largest)} GiB of a node's disk",
        ),
        PlannedChange(
            action=Action.CREATE,
            kind="files",
            name=what,
            detail=f"{size} of {(found.commit or spec.revision)[:12]} into {at}",
        ),
    ]


def _checks(claim: Claim | None, room: Room) -> list[Check]:
    usable = claim is not None and claim.phase == "Bound" and not claim.read_only
    kind = "" if claim is None else " on S3" if claim.type is StorageType.S3 else " on FSx for Lustre"
    told = "there is none" if claim is None else f"{claim.phase}{kind}{', read-only' if claim.read_only else ''}"
    return [
        Check(name="claim", passed=usable, detail=told),
        Check(
            name="room",
            passed=bool(room.fitting or room.autoscaled),
            detail=f"{room.fitting} of {room.nodes} nodes have room"
            + ("; a node pool can make more" if room.autoscaled else ""),
        ),
    ]


def _reachable(unreachable: str | None) -> Check:
    # Not a blocker: the cluster may have a way that the platform has not.
    return Check(name="hub", passed=unreachable is None, detail=unreachable or "it answers")


def _as_fault(error: ApplicationError) -> FieldError:
    found: Any = problem_of(error)
    if found is None:
        raise error
    return _fault(found.field or "", found.detail, found.remedy or "", found.code)


def _fault(field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)
