"""create-fsx-storage: a file system of FSx for Lustre, one that exists or a new one, until a pod has used its claim."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import CREATE_FSX_STORAGE
from contracts.fsx_storage import (
    ENSURE_FILE_SYSTEM,
    ENSURE_FSX_CLAIM,
    ENSURE_LUSTRE_ACCESS,
    FIND_FILE_SYSTEM_PLACE,
    WAIT_FOR_FILE_SYSTEM,
    EnsureFileSystem,
    EnsureFsxClaim,
    EnsureLustreAccess,
    FileSystem,
    FileSystemRef,
    FindPlace,
    FsxStorageSpec,
    NewFileSystem,
)
from contracts.operation import Outcome, Start
from workflows.engine import Operation, StagePlan, StageRun
from workflows.parts import control_plane_of
from workflows.plans import checks, checks_stage
from workflows.storage import lease, settle

SOURCE = ("file_system_id", "create")
MOUNT = ("read_only", "mount_options")


@workflow.defn(name=CREATE_FSX_STORAGE.name)
class CreateFsxStorage(Operation[FsxStorageSpec]):
    kind = CREATE_FSX_STORAGE
    stages = (
        checks(*SOURCE, *MOUNT),
        StagePlan("file_system", "FSx file system", inputs=SOURCE),
        StagePlan("storage", "Claim", inputs=MOUNT),
    )

    @workflow.init
    def __init__(self, start: Start[FsxStorageSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[FsxStorageSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (lease(self.spec.namespace, self.spec.claim),)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        async def file_system_steps(run: StageRun) -> FileSystem:
            name, create = self.spec.file_system_id, self.spec.create
            if create is not None:
                name = (await self._ensure(run, control_plane.name, create)).file_system_id
            if name is None:
                raise ValueError("a spec names a file system or says what is to be made")
            found = await run.wait(WAIT_FOR_FILE_SYSTEM, FileSystemRef(scope=self.scope, file_system_id=name))
            run.observed = True
            run.detail(f"{name} {found.lifecycle}, {found.capacity_gib} GiB, {found.deployment_type}")
            return found

        async def claim_steps(run: StageRun) -> dict[str, Any]:
            wanted = EnsureFsxClaim(
                scope=self.scope, eks_cluster=control_plane.name, file_system=file_system, spec=self.spec
            )
            claim = await run.act(ENSURE_FSX_CLAIM, wanted)
            return await settle(run, self, control_plane, claim)

        file_system = await self.stage("file_system", file_system_steps)
        claim = await self.stage("storage", claim_steps)
        return {**claim, "file_system_details": file_system.model_dump(mode="json", exclude={"changed"})}

    async def _ensure(self, run: StageRun, eks_cluster: str, create: NewFileSystem) -> FileSystem:
        """Where it goes, the rules that lead there, and the file system itself."""
        hyperpod = self.record.hyperpod.name if self.record.hyperpod is not None else None
        place = await run.act(
            FIND_FILE_SYSTEM_PLACE,
            FindPlace(scope=self.scope, eks_cluster=eks_cluster, hyperpod_cluster=hyperpod, create=create),
        )
        await run.act(
            ENSURE_LUSTRE_ACCESS,
            EnsureLustreAccess(
                scope=self.scope,
                vpc_id=place.vpc_id,
                security_group_id=place.security_group_id,
                client_group_ids=place.client_group_ids,
            ),
        )
        wanted = EnsureFileSystem(
            scope=self.scope, claim=self.spec.claim, namespace=self.spec.namespace, create=create, place=place
        )
        return await run.act(ENSURE_FILE_SYSTEM, wanted)
