"""create-cluster: from nothing to a verified cluster with storage mounted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.capacity import InstanceGroupSpec
from contracts.catalogue import CREATE_CLUSTER
from contracts.cluster import ClusterSpec
from contracts.lease import WHOLE_CLUSTER
from contracts.operation import Outcome, Start
from workflows.capacity import CAPACITY, capacity_stage
from workflows.dependencies import DEPENDENCIES, dependencies_stage, install_again
from workflows.drift_checks import DRIFT_CHECKS, drift_stage
from workflows.eks import CONTROL_PLANE, control_plane_stage
from workflows.engine import Operation, Skipped, together
from workflows.hyperpod import HYPERPOD, hyperpod_stage
from workflows.identity import ACCESS, IDENTITY, access_stage, identity_stage
from workflows.network import EGRESS, NETWORK, egress_stage, network_stage
from workflows.parts import identity_of
from workflows.preflight import PREFLIGHT, preflight_stage
from workflows.storage import STORAGE, storage_stage
from workflows.verification import VERIFICATION, verification_stage


@workflow.defn(name=CREATE_CLUSTER.name)
class CreateCluster(Operation[ClusterSpec]):
    kind = CREATE_CLUSTER
    stages = (
        PREFLIGHT,
        NETWORK,
        IDENTITY,
        EGRESS,
        CONTROL_PLANE,
        ACCESS,
        DEPENDENCIES,
        CAPACITY,
        HYPERPOD,
        STORAGE,
        VERIFICATION,
        DRIFT_CHECKS,
    )

    @workflow.init
    def __init__(self, start: Start[ClusterSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ClusterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (WHOLE_CLUSTER,)

    async def runbook(self) -> dict[str, Any]:
        await preflight_stage(self, lambda: self.spec)

        network, identity = await together(
            network_stage(self, lambda: self.spec.network),
            identity_stage(self),
        )
        # NAT gateways are needed by nodes, not by the control plane: both come up side by side.
        network, control_plane = await together(
            egress_stage(self, network),
            control_plane_stage(self, lambda: self.spec.kubernetes_version, network, identity),
        )
        await access_stage(self, control_plane, identity)
        await dependencies_stage(self, control_plane, identity)

        await capacity_stage(
            self,
            lambda: self.spec.instance_groups,
            self.spec.network.compute_subnet_prefix,
            self._choose,
        )
        await hyperpod_stage(
            self,
            spec=lambda: self.spec.hyperpod,
            groups=lambda: self.spec.instance_groups,
            prefix=lambda: self.spec.network.compute_subnet_prefix,
            network=network,
            identity=identity,
            control_plane=control_plane,
        )
        try:
            await storage_stage(self, lambda: self.spec.storage, control_plane, identity)
        except Skipped:
            workflow.logger.info("the cluster is finished without storage")
        # Nobody else can install while this holds the whole cluster.
        verified = await verification_stage(
            self, control_plane, lambda run: install_again(run, self, control_plane, identity_of(self))
        )
        await drift_stage(self)
        return verified

    def _choose(self, groups: list[InstanceGroupSpec]) -> None:
        self.spec = self.spec.model_copy(update={"instance_groups": groups})
