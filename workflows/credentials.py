"""Credentials: stored as Secrets, and deleted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import DELETE_CREDENTIAL, STORE_CREDENTIAL
from contracts.credentials import DELETE_CREDENTIAL as DELETE_SECRET
from contracts.credentials import STORE_CREDENTIAL as STORE_SECRET
from contracts.credentials import DeleteCredential, DeleteCredentialSpec, StoreCredential, StoreCredentialSpec
from contracts.operation import Outcome, Start
from workflows.engine import Operation, StagePlan, StageRun
from workflows.parts import control_plane_of
from workflows.plans import checks, checks_stage


@workflow.defn(name=STORE_CREDENTIAL.name)
class StoreCredentialOperation(Operation[StoreCredentialSpec]):
    kind = STORE_CREDENTIAL
    stages = (checks(), StagePlan("secret", "Secret"))

    @workflow.init
    def __init__(self, start: Start[StoreCredentialSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[StoreCredentialSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"credentials/{self.spec.namespace}/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        async def steps(run: StageRun) -> dict[str, Any]:
            request = StoreCredential(scope=self.scope, eks_cluster=control_plane.name, spec=self.spec)
            stored = await run.act(STORE_SECRET, request)
            run.detail(f"Secret {stored.namespace}/{stored.secret}")
            return stored.model_dump(mode="json")

        return await self.stage("secret", steps)


@workflow.defn(name=DELETE_CREDENTIAL.name)
class DeleteCredentialOperation(Operation[DeleteCredentialSpec]):
    kind = DELETE_CREDENTIAL
    stages = (checks(), StagePlan("secret", "Secret"))

    @workflow.init
    def __init__(self, start: Start[DeleteCredentialSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteCredentialSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"credentials/{self.spec.namespace}/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        async def steps(run: StageRun) -> dict[str, Any]:
            spec = self.spec
            gone = await run.act(
                DELETE_SECRET,
                DeleteCredential(
                    scope=self.scope, eks_cluster=control_plane.name, name=spec.name, namespace=spec.namespace
                ),
            )
            run.detail(f"{spec.name} is gone")
            return gone.model_dump(mode="json")

        return await self.stage("secret", steps)
