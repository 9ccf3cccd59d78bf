"""The HyperPod stage: a cluster whose nodes are Ready with the accelerators that their type has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.availability import addresses_of, offer_errors
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
    brought_up_to_date,
)
from contracts.identity import (
    ENSURE_BUCKET,
    ENSURE_EXECUTION_ROLE,
    ENSURE_LIFECYCLE_SCRIPTS,
    EnsureBucket,
    EnsureLifecycleScripts,
    EnsureRole,
    Identity,
)
from contracts.network import ENSURE_COMPUTE_SUBNET, EnsureComputeSubnet, Network, Subnet
from contracts.options import LOOK_UP_OPTIONS, LookUpOptions, Options
from contracts.problem import invalid
from contracts.words import number_of
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
        types = sorted({name for group in groups() for name in group.instance_types})
        options = await run.act(LOOK_UP_OPTIONS, LookUpOptions(region=scope.region, instance_types=types))
        # A correction may have brought groups here that no earlier stage has looked at.
        if errors := [
            error
            for position, group in enumerate(groups())
            for error in offer_errors(group, options, f"/instance_groups/{position}")
        ]:
            raise refusal(invalid(errors))
        placed = [await place_group(run, operation, group, options, network, prefix()) for group in groups()]
        await record_subnets(run, operation, network, [each.subnet for each in placed])
        role_arn, scripts_uri = await _nodes_identity(run, operation, identity)
        wanted = EnsureHyperPod(
            scope=scope,
            spec=spec(),
            eks_cluster_arn=control_plane.arn,
            security_group_id=network.security_group_id,
            execution_role_arn=role_arn,
            lifecycle_scripts_uri=scripts_uri,
            groups=placed,
        )
        cluster = await run.act(ENSURE_HYPERPOD, wanted)
        while cluster.replacing:
            # What failed without a node is made anew elsewhere, but only after it is gone.
            await run.wait(
                WAIT_FOR_GROUPS_GONE, WaitForGroupsGone(scope=scope, name=cluster.name, groups=cluster.replacing)
            )
            cluster = await run.act(ENSURE_HYPERPOD, wanted)
        names = [each.spec.name for each in placed]
        await run.record(hyperpod=brought_up_to_date(operation.record.hyperpod, cluster, names))
        ready = await run.wait(
            WAIT_FOR_HYPERPOD,
            WaitForHyperPod(
                scope=scope,
                name=cluster.name,
                eks_cluster=control_plane.name,
                groups=names,
            ),
        )
        await run.record(**ready.recorded(operation.record.hyperpod, names))
        run.detail(f"{ready.cluster.name} {ready.cluster.status}, {number_of(ready.total, 'node')} Ready")
        return ready

    return await operation.stage(HYPERPOD.name, steps)


async def _nodes_identity(run: StageRun, operation: Operation[Any], identity: Identity) -> tuple[str, str]:
    """The nodes' role and scripts; an imported cluster that had no nodes gets them now."""
    if identity.execution_role_arn and identity.lifecycle_scripts_uri:
        return identity.execution_role_arn, identity.lifecycle_scripts_uri
    scope, account = operation.scope, identity.account
    role_arn = identity.execution_role_arn
    if role_arn is None:
        role_arn = (await run.act(ENSURE_EXECUTION_ROLE, EnsureRole(scope=scope, account=account))).arn
    bucket = await run.act(ENSURE_BUCKET, EnsureBucket(scope=scope, account=account))
    scripts = await run.act(ENSURE_LIFECYCLE_SCRIPTS, EnsureLifecycleScripts(scope=scope, bucket=bucket.name))
    made = {"execution_role_arn": role_arn, "bucket": bucket.name, "lifecycle_scripts_uri": scripts.uri}
    await run.record(identity=identity.model_copy(update=made))
    return role_arn, scripts.uri


async def place_group(
    run: StageRun,
    operation: Operation[Any],
    wanted: InstanceGroupSpec,
    options: Options,
    network: Network,
    prefix: int,
    hyperpod_cluster: str | None = None,
) -> PlacedGroup:
    """The group in its zone, with a compute subnet that has room for it. Raises the problem of a zone that is none."""
    group = place(wanted, options)
    if group.availability_zone is None:
        raise refusal(invalid(offer_errors(wanted, options, "")))
    subnet = await run.act(
        ENSURE_COMPUTE_SUBNET,
        EnsureComputeSubnet(
            scope=operation.scope,
            vpc_id=network.vpc_id,
            zone=group.availability_zone,
            prefix=prefix,
            addresses=addresses_of(group, options),
            nat_gateways=network.nat_gateways,
            s3_endpoint_id=network.s3_endpoint_id,
            subnet_id=group.subnet_id,
            group=group.name,
            hyperpod_cluster=hyperpod_cluster,
            dedicated=group.subnet_placement == "dedicated",
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


async def record_subnets(run: StageRun, operation: Operation[Any], network: Network, subnets: list[Subnet]) -> None:
    """Put the subnets into the cluster's record, beside those that it has."""
    known = operation.record.network or network
    merged = {subnet.subnet_id: subnet for subnet in (*known.compute_subnets, *subnets)}
    await run.record(network=known.model_copy(update={"compute_subnets": list(merged.values())}))
