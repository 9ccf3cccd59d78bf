"""What is recorded comes back: each kind of member by the activities of the operations that make it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Any

from contracts.catalogue import CREATE_HYPERPOD
from contracts.dependencies import ENSURE_STORAGE_ROLE, ComponentStatus, EnsureStorageRole
from contracts.drift import (
    RESTORE_WAYS_OUT,
    SET_NODE_RECOVERY,
    Change,
    Difference,
    DriftKind,
    NodeRecovery,
    WaysOut,
)
from contracts.drift_recorded import STORAGE_ROLE
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_BUCKET,
    ENSURE_CLUSTER_ROLE,
    ENSURE_EXECUTION_ROLE,
    ENSURE_LIFECYCLE_SCRIPTS,
    VERIFY_ACCESS,
    EnsureAccessEntry,
    EnsureBucket,
    EnsureLifecycleScripts,
    EnsureRole,
    VerifyAccess,
)
from contracts.names import ClusterNames
from contracts.network import (
    ENSURE_NAT_GATEWAY,
    ENSURE_S3_ENDPOINT,
    ENSURE_SECURITY_GROUP,
    WAIT_FOR_NAT_GATEWAYS,
    EnsureNatGateway,
    EnsureS3Endpoint,
    EnsureSecurityGroup,
    WaitForNatGateways,
)
from contracts.problem import ProblemCode, problem
from workflows.dependencies import install
from workflows.drift_workloads import deployment, feature, instance_group, node_group, storage
from workflows.engine import Operation, StageRun
from workflows.engine.failures import refusal
from workflows.parts import control_plane_of, identity_of, network_of, present

Restorer = Callable[[StageRun, Operation[Any], list[Difference]], Awaitable[None]]
"""Restores the differences of one member."""


async def restore(run: StageRun, operation: Operation[Any], differences: list[Difference]) -> None:
    """Restore differences, member by member: what others need comes first. Raises as the activities do."""
    order = list(RESTORERS)
    ordered = sorted(differences, key=lambda each: (order.index(each.kind), each.name))
    for _, group in groupby(ordered, key=lambda each: each.member):
        found = list(group)
        run.detail("; ".join(each.detail for each in found[:3]))
        await RESTORERS[found[0].kind](run, operation, found)


async def _security_group(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    wanted = EnsureSecurityGroup(scope=operation.scope, vpc_id=network_of(operation).vpc_id)
    await run.act(ENSURE_SECURITY_GROUP, wanted)


async def _nat_gateway(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """A gateway in the public subnet that the lost one was in, with routes to it."""
    network, name = network_of(operation), found[0].name
    lost = next((each for each in network.nat_gateways if each.nat_gateway_id == name), None)
    if lost is None:
        # An earlier attempt, which another difference has blocked, has recorded what took its place.
        return
    if lost.subnet_id not in network.public_subnet_ids:
        detail = f"it is not recorded in which of the cluster's public subnets {name} was"
        remedy = "Adopt that it is gone, and make another in EC2; then detect the cluster anew."
        raise refusal(problem(ProblemCode.CONFLICT, detail, remedy=remedy))
    resource = f"nat-{network.public_subnet_ids.index(lost.subnet_id) + 1}"
    wanted = EnsureNatGateway(scope=operation.scope, resource=resource, subnet_id=lost.subnet_id)
    made = await run.act(ENSURE_NAT_GATEWAY, wanted, key=resource)
    await run.wait(
        WAIT_FOR_NAT_GATEWAYS,
        WaitForNatGateways(scope=operation.scope, nat_gateway_ids=[made.nat_gateway_id]),
        key=resource,
    )
    others = [each for each in network.nat_gateways if each.nat_gateway_id != name]
    complete = network.model_copy(update={"nat_gateways": [*others, made]})
    await run.act(RESTORE_WAYS_OUT, WaysOut(scope=operation.scope, network=complete), key=resource)
    # Last: until then, another attempt must know which one was lost.
    await run.record(network=complete)


async def _s3_endpoint(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    network = network_of(operation)
    wanted = EnsureS3Endpoint(scope=operation.scope, vpc_id=network.vpc_id, route_table_ids=[])
    made = await run.act(ENSURE_S3_ENDPOINT, wanted)
    complete = network.model_copy(update={"s3_endpoint_id": made.vpc_endpoint_id})
    await run.act(RESTORE_WAYS_OUT, WaysOut(scope=operation.scope, network=complete), key="s3-endpoint")
    await run.record(network=complete)


async def _subnet(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    wanted = WaysOut(scope=operation.scope, network=network_of(operation))
    await run.act(RESTORE_WAYS_OUT, wanted, key=found[0].name)


async def _role(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    names, identity = ClusterNames(operation.start.cluster), identity_of(operation)
    region, role = operation.start.region, found[0].name
    wanted = EnsureRole(scope=operation.scope, account=identity.account)
    if role == names.role("cluster", region):
        await run.act(ENSURE_CLUSTER_ROLE, wanted)
    elif role == names.role("hyperpod-execution", region):
        await run.act(ENSURE_EXECUTION_ROLE, wanted)
    elif role == names.role(STORAGE_ROLE, region):
        await _pod_identity(run, operation, found)


async def _pod_identity(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """The role of the CSI driver for S3 and its association are made by one activity."""
    identity = identity_of(operation)
    plane = control_plane_of(operation)
    bucket = present(operation, identity.bucket, "bucket", CREATE_HYPERPOD.name)
    wanted = EnsureStorageRole(scope=operation.scope, account=identity.account, eks_cluster=plane.name, bucket=bucket)
    await run.act(ENSURE_STORAGE_ROLE, wanted, key=found[0].kind.value)


async def _access_entry(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    plane = control_plane_of(operation)
    entry = EnsureAccessEntry(scope=operation.scope, eks_cluster=plane.name, principal_arn=found[0].name)
    await run.act(ENSURE_ACCESS_ENTRY, entry)
    await run.act(VERIFY_ACCESS, VerifyAccess(scope=operation.scope, eks_cluster=plane.name))


async def _bucket(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    account = identity_of(operation).account
    made = await run.act(ENSURE_BUCKET, EnsureBucket(scope=operation.scope, account=account))
    if any(each.change is Change.GONE for each in found):
        await run.act(ENSURE_LIFECYCLE_SCRIPTS, EnsureLifecycleScripts(scope=operation.scope, bucket=made.name))


async def _scripts(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    bucket = present(operation, identity_of(operation).bucket, "bucket", CREATE_HYPERPOD.name)
    await run.act(ENSURE_LIFECYCLE_SCRIPTS, EnsureLifecycleScripts(scope=operation.scope, bucket=bucket), key="content")


async def _component(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """The component, and what it needs, as install-dependencies installs them."""
    plane = control_plane_of(operation)
    statuses: dict[str, ComponentStatus] = {each.name: each for each in operation.record.dependencies}
    await install(run, operation.scope, plane, identity_of(operation), [found[0].name], statuses)
    await run.record(dependencies=list(statuses.values()))


async def _hyperpod(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    recovery = next(each for each in found if each.path == "node_recovery")
    wanted = NodeRecovery(scope=operation.scope, hyperpod_cluster=recovery.name, node_recovery=str(recovery.recorded))
    await run.act(SET_NODE_RECOVERY, wanted)


RESTORERS: dict[DriftKind, Restorer] = {
    DriftKind.SECURITY_GROUP: _security_group,
    DriftKind.NAT_GATEWAY: _nat_gateway,
    DriftKind.S3_ENDPOINT: _s3_endpoint,
    DriftKind.SUBNET: _subnet,
    DriftKind.BUCKET: _bucket,
    DriftKind.LIFECYCLE_SCRIPTS: _scripts,
    DriftKind.ROLE: _role,
    DriftKind.ACCESS_ENTRY: _access_entry,
    DriftKind.POD_IDENTITY: _pod_identity,
    DriftKind.COMPONENT: _component,
    DriftKind.HYPERPOD: _hyperpod,
    DriftKind.INSTANCE_GROUP: instance_group,
    DriftKind.NODE_GROUP: node_group,
    DriftKind.FEATURE: feature,
    DriftKind.STORAGE: storage,
    DriftKind.DEPLOYMENT: deployment,
}
"""By kind, in the order in which they are restored."""
