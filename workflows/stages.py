"""The stages of a cluster's creation, each as an operation of its own on a cluster that exists."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.capacity import InstanceGroupSpec
from contracts.catalogue import (
    CREATE_CONTROL_PLANE,
    CREATE_HYPERPOD,
    INSTALL_DEPENDENCIES,
    VERIFY_ACCESS,
    VERIFY_CLUSTER,
    AccessSpec,
    ControlPlaneSpec,
    DependenciesSpec,
    HyperPodClusterSpec,
    VerificationSpec,
)
from contracts.network import NetworkSpec
from contracts.operation import Outcome, Start
from workflows.capacity import CAPACITY, capacity_stage
from workflows.dependencies import DEPENDENCIES, dependencies_stage
from workflows.drift_checks import DRIFT_CHECKS, drift_stage
from workflows.eks import CONTROL_PLANE, control_plane_stage
from workflows.engine import Operation, together
from workflows.hyperpod import HYPERPOD, hyperpod_stage
from workflows.identity import ACCESS, IDENTITY, access_stage, execution_stage, identity_stage
from workflows.network import EGRESS, NETWORK, egress_stage, network_stage
from workflows.parts import control_plane_of, identity_of, network_of
from workflows.verification import VERIFICATION, summary, verification_stage


@workflow.defn(name=CREATE_CONTROL_PLANE.name)
class CreateControlPlane(Operation[ControlPlaneSpec]):
    kind = CREATE_CONTROL_PLANE
    stages = (NETWORK, IDENTITY, EGRESS, CONTROL_PLANE, ACCESS, DRIFT_CHECKS)

    @workflow.init
    def __init__(self, start: Start[ControlPlaneSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ControlPlaneSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("network", "eks")

    async def runbook(self) -> dict[str, Any]:
        network, identity = await together(
            network_stage(self, lambda: self.spec.network),
            identity_stage(self),
        )
        _, control_plane = await together(
            egress_stage(self, network),
            control_plane_stage(self, lambda: self.spec.kubernetes_version, network, identity),
        )
        await access_stage(self, control_plane, identity)
        await drift_stage(self)
        return summary(self)


@workflow.defn(name=VERIFY_ACCESS.name)
class VerifyAccess(Operation[AccessSpec]):
    kind = VERIFY_ACCESS
    stages = (ACCESS,)

    @workflow.init
    def __init__(self, start: Start[AccessSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AccessSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("eks/access",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        identity = identity_of(self)
        verified = await access_stage(self, control_plane, identity)
        return verified.model_dump(mode="json")


@workflow.defn(name=INSTALL_DEPENDENCIES.name)
class InstallDependencies(Operation[DependenciesSpec]):
    kind = INSTALL_DEPENDENCIES
    stages = (DEPENDENCIES,)

    @workflow.init
    def __init__(self, start: Start[DependenciesSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DependenciesSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("eks",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        identity = identity_of(self)
        statuses = await dependencies_stage(self, control_plane, identity, lambda: self.spec.components)
        return {"components": [status.model_dump(mode="json") for status in statuses]}


@workflow.defn(name=CREATE_HYPERPOD.name)
class CreateHyperPod(Operation[HyperPodClusterSpec]):
    kind = CREATE_HYPERPOD
    stages = (IDENTITY, CAPACITY, HYPERPOD)

    @workflow.init
    def __init__(self, start: Start[HyperPodClusterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[HyperPodClusterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("hyperpod", "network/compute")

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        network = network_of(self)
        known = identity_of(self)
        identity = await execution_stage(self, known)
        prefix = NetworkSpec().compute_subnet_prefix
        await capacity_stage(self, lambda: self.spec.instance_groups, prefix, self._choose)
        await hyperpod_stage(
            self,
            spec=lambda: self.spec.hyperpod,
            groups=lambda: self.spec.instance_groups,
            prefix=lambda: prefix,
            network=network,
            identity=identity,
            control_plane=control_plane,
        )
        return summary(self)

    def _choose(self, groups: list[InstanceGroupSpec]) -> None:
        self.spec = self.spec.model_copy(update={"instance_groups": groups})


@workflow.defn(name=VERIFY_CLUSTER.name)
class VerifyCluster(Operation[VerificationSpec]):
    kind = VERIFY_CLUSTER
    stages = (VERIFICATION,)

    @workflow.init
    def __init__(self, start: Start[VerificationSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[VerificationSpec]) -> Outcome:
        return await self.carry_out()

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        return await verification_stage(self, control_plane)
