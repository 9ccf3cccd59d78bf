"""What must not go unnoticed: a workflow that does otherwise what it did before, without a patch."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from temporalio import workflow

from contracts.catalogue import VERIFY_ACCESS, AccessSpec
from contracts.eks import ControlPlane
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_OIDC_PROVIDER,
    EnsureAccessEntry,
    EnsureOidcProvider,
    VerifyAccess,
)
from contracts.identity import VERIFY_ACCESS as VERIFY
from contracts.operation import Outcome, Start
from workflows.engine import Operation, StagePlan, StageRun, together
from workflows.parts import control_plane_of, identity_of


class Changed(Operation[AccessSpec]):
    """verify-access, written anew."""

    kind = VERIFY_ACCESS
    stages = (StagePlan("access", "Access to the Kubernetes API"),)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        identity = identity_of(self)
        name = self.stages[0].name
        return await self.stage(name, lambda run: self.steps(run, control_plane, identity.platform_principal_arn))

    @abstractmethod
    async def steps(self, run: StageRun, control_plane: ControlPlane, principal: str) -> dict[str, Any]: ...

    def leases(self) -> tuple[str, ...]:
        return ("eks/access",)

    async def provider(self, run: StageRun, control_plane: ControlPlane) -> None:
        await run.act(ENSURE_OIDC_PROVIDER, EnsureOidcProvider(scope=self.scope, eks_cluster=control_plane.name))

    async def entry(self, run: StageRun, control_plane: ControlPlane, principal: str) -> None:
        wanted = EnsureAccessEntry(scope=self.scope, eks_cluster=control_plane.name, principal_arn=principal)
        await run.act(ENSURE_ACCESS_ENTRY, wanted)

    async def verify(self, run: StageRun, control_plane: ControlPlane, key: str | None = None) -> dict[str, Any]:
        asked = VerifyAccess(scope=self.scope, eks_cluster=control_plane.name)
        verified = await run.act(VERIFY, asked, key)
        run.detail(f"Kubernetes {verified.kubernetes_version} answers; {verified.username} administers it")
        return verified.model_dump(mode="json")


@workflow.defn(name=VERIFY_ACCESS.name)
class AsItWas(Changed):
    @workflow.init
    def __init__(self, start: Start[AccessSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AccessSpec]) -> Outcome:
        return await self.carry_out()

    async def steps(self, run: StageRun, control_plane: ControlPlane, principal: str) -> dict[str, Any]:
        await together(self.provider(run, control_plane), self.entry(run, control_plane, principal))
        return await self.verify(run, control_plane)


@workflow.defn(name=VERIFY_ACCESS.name)
class LooksTwice(Changed):
    """One more activity, of a type that the run has had already."""

    @workflow.init
    def __init__(self, start: Start[AccessSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AccessSpec]) -> Outcome:
        return await self.carry_out()

    async def steps(self, run: StageRun, control_plane: ControlPlane, principal: str) -> dict[str, Any]:
        await together(self.provider(run, control_plane), self.entry(run, control_plane, principal))
        await self.verify(run, control_plane, "once")
        return await self.verify(run, control_plane)


@workflow.defn(name=VERIFY_ACCESS.name)
class OneAfterTheOther(Changed):
    """The same activities in the same order, no longer at once."""

    @workflow.init
    def __init__(self, start: Start[AccessSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AccessSpec]) -> Outcome:
        return await self.carry_out()

    async def steps(self, run: StageRun, control_plane: ControlPlane, principal: str) -> dict[str, Any]:
        await self.provider(run, control_plane)
        await self.entry(run, control_plane, principal)
        return await self.verify(run, control_plane)


@workflow.defn(name=VERIFY_ACCESS.name)
class AnotherStage(Changed):
    """The same activities with the same arguments, as steps of a stage with another name."""

    stages = (StagePlan("entry", "Access to the Kubernetes API"),)

    @workflow.init
    def __init__(self, start: Start[AccessSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AccessSpec]) -> Outcome:
        return await self.carry_out()

    async def steps(self, run: StageRun, control_plane: ControlPlane, principal: str) -> dict[str, Any]:
        await together(self.provider(run, control_plane), self.entry(run, control_plane, principal))
        return await self.verify(run, control_plane)
