"""The HyperPod stage: a cluster whose nodes are Ready with the accelerators that their type has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.availability import offer_errors
from contracts.capacity import InstanceGroupSpec, TrainingPlan, threads_per_core
from contracts.eks import ControlPlane
from contracts.hyperpod import (
    ENSURE_HYPERPOD,
    WAIT_FOR_GROUPS_GONE,
    WAIT_FOR_HYPERPOD,
    EnsureHyperPod,
    HyperPodSpec,
    NodesReady,
    PlacedGroup,
    WaitForGroupsGone,
    WaitForHyperPod,
)
from contracts.identity import Identity
from contracts.network import ENSURE_COMPUTE_SUBNET, EnsureComputeSubnet, Network, Subnet
from contracts.options import LOOK_UP_OPTIONS, LookUpOptions, Options
from contracts.problem import invalid
from workflows.capacity import place
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import refusal

HYPERPOD = StagePlan(
    "hyperpod",
    "HyperPod cluster",
    inputs=("instance_groups", "hyperpod", "network/compute_subnet_prefix"),
)


async def hyperpod_stage(
    operation: Operation[Any],
    *,
    spec: Callable[[], HyperPodSpec],
    groups: Callable[[], list[InstanceGroupSpec]],
    prefix: Callable[[], int],
    network: Network,
    identity: Identity,
    control_plane: ControlPlane,
) -> NodesReady:
    async def steps(run: StageRun) -> NodesReady:
        scope = operation.scope
        types = sorted({group.instance_type for group in groups()})
        options = await run.act(LOOK_UP_OPTIONS, LookUpOptions(region=scope.region, instance_types=types))
        # A correction may have brought groups here that no earlier stage has looked at.
        if errors := [
            error
            for position, group in enumerate(groups())
            for error in offer_errors(group, options, f"/instance_groups/{position}")
        ]:
            raise refusal(invalid(errors))
        placed = [await _place(run, operation, place(group, options), options, network, prefix()) for group in groups()]
        await _record_subnets(run, operation, network, [each.subnet for each in placed])
        wanted = EnsureHyperPod(
            scope=scope,
            spec=spec(),
            eks_cluster_arn=control_plane.arn,
            security_group_id=network.security_group_id,
            execution_role_arn=identity.execution_role_arn,
            lifecycle_scripts_uri=identity.lifecycle_scripts_uri,
            groups=placed,
        )
        cluster = await run.act(ENSURE_HYPERPOD, wanted)
        while cluster.replacing:
            # What failed without a node is made anew elsewhere, but only after it is gone.
            await run.wait(
                WAIT_FOR_GROUPS_GONE, WaitForGroupsGone(scope=scope, name=cluster.name, groups=cluster.replacing)
            )
            cluster = await run.act(ENSURE_HYPERPOD, wanted)
        await run.record(hyperpod=cluster)
        ready = await run.wait(
            WAIT_FOR_HYPERPOD,
            WaitForHyperPod(
                scope=scope,
                name=cluster.name,
                eks_cluster=control_plane.name,
                groups=[each.spec.name for each in placed],
            ),
        )
        await run.record(hyperpod=ready.cluster, nodes=ready.nodes)
        run.detail(f"{ready.cluster.name} {ready.cluster.status}, {len(ready.nodes)} nodes Ready")
        return ready

    return await operation.stage(HYPERPOD.name, steps)


async def _place(
    run: StageRun,
    operation: Operation[Any],
    group: InstanceGroupSpec,
    options: Options,
    network: Network,
    prefix: int,
) -> PlacedGroup:
    option = options.instance_type(group.instance_type)
    subnet = await run.act(
        ENSURE_COMPUTE_SUBNET,
        EnsureComputeSubnet(
            scope=operation.scope,
            vpc_id=network.vpc_id,
            zone=group.availability_zone or network.zones[0],
            prefix=prefix,
            addresses=group.count * (option.addresses if option is not None else 1),
            nat_gateways=network.nat_gateways,
            s3_endpoint_id=network.s3_endpoint_id,
            subnet_id=group.subnet_id,
            group=group.name,
        ),
        key=group.name,
    )
    plan = options.training_plan(group.capacity.training_plan) if isinstance(group.capacity, TrainingPlan) else None
    return PlacedGroup(
        spec=group,
        subnet=subnet,
        threads_per_core=group.threads_per_core or threads_per_core(group.instance_type),
        training_plan_arn=plan.arn if plan is not None else None,
    )


async def _record_subnets(run: StageRun, operation: Operation[Any], network: Network, subnets: list[Subnet]) -> None:
    known = operation.record.network or network
    merged = {subnet.subnet_id: subnet for subnet in (*known.compute_subnets, *subnets)}
    await run.record(network=known.model_copy(update={"compute_subnets": list(merged.values())}))
