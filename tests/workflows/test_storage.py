"""Operations on storage: a claim is there when a pod has used it, and what is behind a deleted one stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import fsx_storage, queues, storage
from contracts.catalogue import CREATE_FSX_STORAGE, CREATE_STORAGE, DELETE_STORAGE, OperationKind
from contracts.decision import Abort, Resolution
from contracts.eks import ControlPlane
from contracts.fsx_storage import FileSystem, FileSystemGone, FileSystemPlace, LustreAccess
from contracts.hyperpod import HyperPodCluster
from contracts.identity import Identity
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from contracts.storage import Claim, ClaimGone, DeletedClaim, DeletedVolume, Probe, ProbeState, StorageType
from tests.workflows.conftest import progress, recorded, until
from tests.workflows.fakes import REGION, FakeAccount

FILE_SYSTEM = "fs-0123456789abcdef0"


def claim(name: str, phase: str = "Bound", **more: Any) -> Claim:
    return Claim(claim=name, namespace="default", volume=f"v-{name}", phase=phase, **more)


def lustre(**more: Any) -> FileSystem:
    given: dict[str, Any] = {
        "file_system_id": FILE_SYSTEM,
        "lifecycle": "AVAILABLE",
        "dns_name": f"{FILE_SYSTEM}.fsx",
        "mount_name": "abc",
        "capacity_gib": 1200,
        "deployment_type": "PERSISTENT_2",
        "subnet_id": "subnet-1",
        "vpc_id": "vpc-1",
        "owned": True,
    }
    return FileSystem.model_validate({**given, **more})


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34"),
        "hyperpod": HyperPodCluster(name="hp", arn="arn:hp", status="InService"),
        "identity": Identity(account="1", platform_principal_arn="p", cluster_role_arn="c", bucket="own"),
        "storage": [claim("other", bucket="own")],
    }
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        storage.ENSURE_CLAIM.name: lambda a: claim(a.spec.claim, "Pending", bucket=a.bucket),
        storage.WAIT_FOR_CLAIM.name: lambda a: claim(a.claim, bucket="own"),
        storage.DELETE_CLAIM.name: lambda a: DeletedClaim(
            claim=a.claim, namespace=a.namespace, volume=f"v-{a.claim}", bucket="own"
        ),
        storage.WAIT_FOR_CLAIM_GONE.name: lambda a: ClaimGone(claim=a.claim, namespace=a.namespace),
        storage.DELETE_VOLUME.name: lambda a: DeletedVolume(volume=a.volume),
        fsx_storage.FIND_FILE_SYSTEM_PLACE.name: lambda _: FileSystemPlace(
            vpc_id="vpc-1", subnet_id="subnet-1", zone="us-west-2a", security_group_id="sg-1"
        ),
        fsx_storage.ENSURE_LUSTRE_ACCESS.name: lambda a: LustreAccess(
            security_group_id=a.security_group_id, changed=False
        ),
        fsx_storage.ENSURE_FILE_SYSTEM.name: lambda _: lustre(lifecycle="CREATING"),
        fsx_storage.WAIT_FOR_FILE_SYSTEM.name: lambda a: lustre(file_system_id=a.file_system_id),
        fsx_storage.ENSURE_FSX_CLAIM.name: lambda a: claim(
            a.spec.claim, "Pending", type="fsx_lustre", file_system=a.file_system.file_system_id
        ),
        fsx_storage.DELETE_FILE_SYSTEM.name: lambda a: FileSystemGone(file_system_id=a.file_system_id),
        fsx_storage.WAIT_FOR_FILE_SYSTEM_GONE.name: lambda a: FileSystemGone(file_system_id=a.file_system_id),
    }


async def start(client: Client, kind: OperationKind[Any], **spec: Any) -> WorkflowHandle[Any, Outcome]:
    wanted = kind.spec.model_validate(spec)
    origin = Origin(by="alice", role="operator", request_id="r-1")
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](cluster="demo", region=REGION, spec=wanted, origin=origin),  # type: ignore[name-defined]
        id=operation_id(kind.name, "demo", kind.target(wanted)),
        task_queue=queues.WORKFLOWS,
        result_type=Outcome,
    )


async def ended(handle: WorkflowHandle[Any, Outcome]) -> Outcome:
    async with asyncio.timeout(30):
        return await handle.result()


def calls(account: FakeAccount) -> list[str]:
    """The acts and waits on storage, in their order."""
    return [name for name, _ in account.arguments if name.partition(".")[0] in ("storage", "fsx_storage")]


async def test_a_claim_is_there_when_a_pod_has_used_it(client: Client, account: FakeAccount) -> None:
    handle = await start(client, CREATE_STORAGE, claim="data", namespace="ml")
    assert handle.id == "create-storage/demo/ml/data"
    outcome = await ended(handle)
    assert outcome.phase is Phase.SUCCEEDED
    assert calls(account) == [
        storage.ENSURE_CLAIM.name,
        storage.WAIT_FOR_CLAIM.name,
        storage.ENSURE_PROBE.name,
        storage.WAIT_FOR_PROBE.name,
        storage.REMOVE_PROBE.name,
    ]
    assert outcome.result["verification"] == {"state": "verified", "node": "hyperpod-i-1", "detail": None}
    stages = (await progress(handle)).stages
    assert "a pod on hyperpod-i-1 has used it" in (stages[-1].detail or "")


async def test_a_claim_without_a_node_is_there_and_said_to_be_untried(client: Client, account: FakeAccount) -> None:
    untried = Probe(pod="probe", state=ProbeState.NOT_VERIFIED, detail="not verified: there is no Ready node")
    account.answers[storage.ENSURE_PROBE.name] = lambda _: untried
    outcome = await ended(await start(client, CREATE_STORAGE))
    assert outcome.phase is Phase.SUCCEEDED
    assert outcome.result["verification"]["state"] == "not_verified"
    assert storage.WAIT_FOR_PROBE.name not in calls(account)


async def test_a_claim_that_cannot_be_used_blocks_and_its_pod_is_removed_each_time(
    client: Client, account: FakeAccount
) -> None:
    account.fail(storage.WAIT_FOR_PROBE, ProblemCode.NOT_READY)
    handle = await start(client, CREATE_STORAGE)
    blocked = await until(handle, lambda seen: seen.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.code is ProblemCode.NOT_READY
    assert account.calls[storage.REMOVE_PROBE.name] == 1
    await handle.execute_update("resolve", Resolution(action="retry", stage="storage", attempt=1, by="alice"))
    assert (await ended(handle)).phase is Phase.SUCCEEDED
    assert account.calls[storage.REMOVE_PROBE.name] == 2


@pytest.mark.real_server
async def test_an_abort_while_a_pod_tries_removes_it_and_leaves_the_claim_recorded(
    client: Client, account: FakeAccount
) -> None:
    account.hold[storage.WAIT_FOR_PROBE.name] = asyncio.Event()
    handle = await start(client, CREATE_STORAGE)
    await until(handle, lambda _: storage.WAIT_FOR_PROBE.name in calls(account))
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await ended(handle)).phase is Phase.ABORTED
    assert account.calls[storage.REMOVE_PROBE.name] == 1
    (put,) = (await recorded(client, handle))[-1].put["storage"]
    assert (put["claim"], put["phase"]) == ("s3-claim", "Pending")


@pytest.mark.real_server
async def test_a_claim_that_goes_is_in_no_record_although_the_deletion_was_aborted(
    client: Client, account: FakeAccount
) -> None:
    account.hold[storage.WAIT_FOR_CLAIM_GONE.name] = asyncio.Event()
    handle = await start(client, DELETE_STORAGE, claim="other")
    await until(handle, lambda _: storage.WAIT_FOR_CLAIM_GONE.name in calls(account))
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await ended(handle)).phase is Phase.ABORTED
    assert (await recorded(client, handle))[-1].gone["storage"] == [{"namespace": "default", "claim": "other"}]


@pytest.mark.parametrize(
    ("kind", "spec"), [(CREATE_STORAGE, {}), (CREATE_FSX_STORAGE, {"create": {}}), (DELETE_STORAGE, {"claim": "other"})]
)
async def test_a_blocker_stops_it_before_anything_is_touched(
    client: Client, account: FakeAccount, kind: OperationKind[Any], spec: dict[str, Any]
) -> None:
    fault = FieldError(field="/claim", detail="no", remedy="mend it", code=ProblemCode.CONFLICT)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[fault]))
    handle = await start(client, kind, **spec)
    await until(handle, lambda seen: seen.phase is Phase.BLOCKED)
    assert calls(account) == []
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await ended(handle)).phase is Phase.ABORTED


async def test_a_new_file_system_is_placed_let_through_made_and_mounted(client: Client, account: FakeAccount) -> None:
    account.answers[storage.WAIT_FOR_CLAIM.name] = lambda a: claim(a.claim, type="fsx_lustre", file_system=FILE_SYSTEM)
    outcome = await ended(await start(client, CREATE_FSX_STORAGE, create={"capacity_gib": 2400}))
    assert outcome.phase is Phase.SUCCEEDED
    assert calls(account) == [
        fsx_storage.FIND_FILE_SYSTEM_PLACE.name,
        fsx_storage.ENSURE_LUSTRE_ACCESS.name,
        fsx_storage.ENSURE_FILE_SYSTEM.name,
        fsx_storage.WAIT_FOR_FILE_SYSTEM.name,
        fsx_storage.ENSURE_FSX_CLAIM.name,
        storage.WAIT_FOR_CLAIM.name,
        storage.ENSURE_PROBE.name,
        storage.WAIT_FOR_PROBE.name,
        storage.REMOVE_PROBE.name,
    ]
    result = outcome.result
    assert (result["file_system"], result["type"]) == (FILE_SYSTEM, StorageType.FSX_LUSTRE.value)
    assert result["file_system_details"]["capacity_gib"] == 1200


async def test_an_existing_file_system_is_only_mounted(client: Client, account: FakeAccount) -> None:
    outcome = await ended(await start(client, CREATE_FSX_STORAGE, file_system_id=FILE_SYSTEM))
    assert outcome.phase is Phase.SUCCEEDED
    assert calls(account)[:2] == [fsx_storage.WAIT_FOR_FILE_SYSTEM.name, fsx_storage.ENSURE_FSX_CLAIM.name]


async def test_a_claim_goes_before_its_volume_and_its_data_is_kept(client: Client, account: FakeAccount) -> None:
    handle = await start(client, DELETE_STORAGE, claim="other")
    outcome = await ended(handle)
    assert outcome.phase is Phase.SUCCEEDED
    assert calls(account) == [
        storage.DELETE_CLAIM.name,
        storage.WAIT_FOR_CLAIM_GONE.name,
        storage.DELETE_VOLUME.name,
    ]
    assert outcome.result["kept"] == ["bucket own stays with its data"]
    states = {stage.name: stage.state for stage in (await progress(handle)).stages}
    assert states["file_system"] is StageState.UNCHANGED


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_file_system_goes_last_and_only_where_it_was_asked_for(
    client: Client, account: FakeAccount, wanted: bool
) -> None:
    account.answers[storage.DELETE_CLAIM.name] = lambda a: DeletedClaim(
        claim=a.claim, namespace=a.namespace, volume="v", type=StorageType.FSX_LUSTRE, file_system=FILE_SYSTEM
    )
    outcome = await ended(await start(client, DELETE_STORAGE, claim="other", delete_file_system=wanted))
    assert outcome.phase is Phase.SUCCEEDED
    gone = [fsx_storage.DELETE_FILE_SYSTEM.name, fsx_storage.WAIT_FOR_FILE_SYSTEM_GONE.name]
    assert calls(account)[3:] == (gone if wanted else [])
    kept = outcome.result["kept"]
    assert kept == ([] if wanted else [f"FSx file system {FILE_SYSTEM} stays with its data, and is paid for"])
