"""Storage on S3: a bucket that pods mount, until a pod has used its claim; and the end of claims."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from contracts.catalogue import CREATE_STORAGE, DELETE_STORAGE
from contracts.cluster import replaced, without
from contracts.eks import ControlPlane
from contracts.fsx_storage import DELETE_FILE_SYSTEM, WAIT_FOR_FILE_SYSTEM_GONE, FileSystemRef
from contracts.identity import Identity
from contracts.operation import Outcome, Start
from contracts.queues import task_queue
from contracts.storage import (
    DELETE_CLAIM,
    DELETE_VOLUME,
    ENSURE_CLAIM,
    ENSURE_PROBE,
    REMOVE_PROBE,
    WAIT_FOR_CLAIM,
    WAIT_FOR_CLAIM_GONE,
    WAIT_FOR_PROBE,
    Claim,
    ClaimRef,
    DeletedClaim,
    DeleteStorageSpec,
    DeleteVolume,
    EnsureClaim,
    Probe,
    ProbeRemoved,
    ProbeState,
    ProbeStorage,
    StorageSpec,
    WaitForClaim,
)
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import problem_of
from workflows.identity import own_bucket
from workflows.parts import control_plane_of, identity_of
from workflows.plans import checks, checks_stage

STORAGE = StagePlan("storage", "S3 storage", inputs=("storage",), skippable=True)
INPUTS = ("bucket", "prefix", "read_only", "allow_foreign_bucket")
REMOVE_PATIENCE = timedelta(minutes=5)
"""What an operation that ends lets the Kubernetes API take to remove its pod."""


async def storage_stage(
    operation: Operation[Any],
    spec: Callable[[], StorageSpec],
    control_plane: ControlPlane,
    identity: Identity,
    pointer: str = "/storage",
) -> dict[str, Any]:
    """The claim, and what came of trying it. ``pointer`` is where its spec stands in the operation's."""

    async def steps(run: StageRun) -> dict[str, Any]:
        wanted = spec()
        claim = await run.act(
            ENSURE_CLAIM,
            EnsureClaim(
                scope=operation.scope,
                eks_cluster=control_plane.name,
                bucket=wanted.bucket or await own_bucket(run, operation, identity),
                spec=wanted,
                pointer=pointer,
            ),
        )
        return await settle(run, operation, control_plane, claim)

    return await operation.stage(STORAGE.name, steps)


async def settle(run: StageRun, operation: Operation[Any], control_plane: ControlPlane, made: Claim) -> dict[str, Any]:
    """Wait until a claim is Bound, try it, and record it."""
    scope, cluster = operation.scope, control_plane.name
    await run.record_at_once(storage=replaced("storage", operation.record.storage, made))
    waited = WaitForClaim(scope=scope, eks_cluster=cluster, claim=made.claim, namespace=made.namespace)
    claim = await run.wait(WAIT_FOR_CLAIM, waited)
    probe = await try_claim(run, operation, cluster, claim)
    tried = f"a pod on {probe.node} has used it" if probe.state is ProbeState.VERIFIED else probe.detail
    run.detail(f"{claim.namespace}/{claim.claim} {claim.phase} on {claim.source}; {tried}")
    await run.record(storage=replaced("storage", operation.record.storage, claim))
    return {
        **claim.model_dump(mode="json"),
        "verification": {"state": probe.state.value, "node": probe.node, "detail": probe.detail},
    }


async def try_claim(run: StageRun, operation: Operation[Any], eks_cluster: str, claim: Claim) -> Probe:
    """Let a pod use the claim. The pod is removed in any case, also where the operation is ended."""
    question = ProbeStorage(
        scope=operation.scope,
        eks_cluster=eks_cluster,
        claim=claim.claim,
        namespace=claim.namespace,
        read_only=claim.read_only,
    )
    try:
        probe = await run.act(ENSURE_PROBE, question)
        return await run.wait(WAIT_FOR_PROBE, question) if probe.state is ProbeState.RUNNING else probe
    finally:
        await asyncio.shield(_remove(operation, question))


async def _remove(operation: Operation[Any], question: ProbeStorage) -> None:
    """No abort keeps it from that. A failure is logged: the pod ends by itself."""
    try:
        await workflow.execute_activity(
            REMOVE_PROBE.name,
            question,
            activity_id="remove-probe",
            task_queue=task_queue(REMOVE_PROBE.queue, operation.start.region),
            result_type=ProbeRemoved,
            start_to_close_timeout=REMOVE_PROBE.limit,
            schedule_to_close_timeout=REMOVE_PATIENCE,
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20)),
        )
    except ActivityError as error:
        workflow.logger.warning("the pod that tried %s stays: %s", question.claim, problem_of(error).detail)


@workflow.defn(name=CREATE_STORAGE.name)
class CreateStorage(Operation[StorageSpec]):
    kind = CREATE_STORAGE
    stages = (checks(*INPUTS), StagePlan(STORAGE.name, STORAGE.title, inputs=INPUTS))

    @workflow.init
    def __init__(self, start: Start[StorageSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[StorageSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (lease(self.spec.namespace, self.spec.claim),)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        identity = identity_of(self)
        await checks_stage(self)
        return await storage_stage(self, lambda: self.spec, control_plane, identity, pointer="")


@workflow.defn(name=DELETE_STORAGE.name)
class DeleteStorage(Operation[DeleteStorageSpec]):
    kind = DELETE_STORAGE
    stages = (
        checks("foreign", "delete_file_system"),
        StagePlan("claim", "Claim"),
        StagePlan("volume", "Volume"),
        StagePlan("file_system", "FSx file system", inputs=("delete_file_system",)),
    )

    @workflow.init
    def __init__(self, start: Start[DeleteStorageSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteStorageSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (lease(self.spec.namespace, self.spec.claim),)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        scope, name, namespace = self.scope, self.spec.claim, self.spec.namespace
        claim = ClaimRef(scope=scope, eks_cluster=control_plane.name, claim=name, namespace=namespace)
        await checks_stage(self)

        async def delete_claim(run: StageRun) -> DeletedClaim:
            deleted = await run.act(DELETE_CLAIM, claim)
            await run.record_at_once(storage=without("storage", self.record.storage, namespace, name))
            await run.wait(WAIT_FOR_CLAIM_GONE, claim)
            await run.record(storage=without("storage", self.record.storage, namespace, name))
            run.detail(f"{namespace}/{name} is gone")
            return deleted

        async def delete_volume(run: StageRun) -> None:
            if gone.volume is None:
                run.detail("there was none")
                return
            volume = DeleteVolume(
                scope=scope, eks_cluster=control_plane.name, volume=gone.volume, claim=name, namespace=namespace
            )
            await run.act(DELETE_VOLUME, volume)
            run.detail(f"{gone.volume} is gone; nothing was deleted behind it")

        async def delete_file_system(run: StageRun) -> list[str]:
            if gone.file_system is None or not self.spec.delete_file_system:
                run.observed = True
                kept = _kept(gone)
                run.detail(kept or "there is none")
                return [kept] if kept else []
            file_system = FileSystemRef(scope=scope, file_system_id=gone.file_system)
            await run.act(DELETE_FILE_SYSTEM, file_system)
            await run.wait(WAIT_FOR_FILE_SYSTEM_GONE, file_system)
            run.detail(f"{gone.file_system} is gone with its data")
            return []

        gone = await self.stage("claim", delete_claim)
        await self.stage("volume", delete_volume)
        kept = await self.stage("file_system", delete_file_system)
        return {"claim": name, "namespace": namespace, "volume": gone.volume, "kept": kept}


def lease(namespace: str, claim: str) -> str:
    return f"storage/{namespace}/{claim}"


def _kept(gone: DeletedClaim) -> str | None:
    """What the claim was on, which stays with its data."""
    if gone.file_system is not None:
        return f"FSx file system {gone.file_system} stays with its data, and is paid for"
    return f"bucket {gone.bucket} stays with its data" if gone.bucket else None
