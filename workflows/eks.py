"""The control plane stage: an EKS cluster, until it is ACTIVE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.eks import (
    ENSURE_CONTROL_PLANE,
    WAIT_FOR_CONTROL_PLANE,
    ControlPlane,
    EnsureControlPlane,
    WaitForControlPlane,
)
from contracts.identity import Identity
from contracts.network import Network
from workflows.engine import Operation, StagePlan, StageRun

CONTROL_PLANE = StagePlan("control_plane", "EKS control plane", inputs=("kubernetes_version",))


async def control_plane_stage(
    operation: Operation[Any], kubernetes_version: Callable[[], str], network: Network, identity: Identity
) -> ControlPlane:
    async def steps(run: StageRun) -> ControlPlane:
        scope = operation.scope
        control_plane = await run.act(
            ENSURE_CONTROL_PLANE,
            EnsureControlPlane(
                scope=scope,
                kubernetes_version=kubernetes_version(),
                role_arn=identity.cluster_role_arn,
                subnet_ids=network.control_plane_subnet_ids,
                security_group_id=network.security_group_id,
                service_cidr=network.service_cidr,
            ),
        )
        control_plane = await run.wait(
            WAIT_FOR_CONTROL_PLANE, WaitForControlPlane(scope=scope, name=control_plane.name)
        )
        run.detail(f"{control_plane.name} {control_plane.status} (Kubernetes {control_plane.kubernetes_version})")
        await run.record(control_plane=control_plane, kubernetes_version=control_plane.kubernetes_version)
        return control_plane

    return await operation.stage(CONTROL_PLANE.name, steps)
