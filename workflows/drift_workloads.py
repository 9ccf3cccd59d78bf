"""Nodes, features, storage and model servers as they are recorded, back again."""

from __future__ import annotations

from typing import Any

from contracts.deployments import APPLY_DEPLOYMENT, READ_DEPLOYMENT, ApplyDeployment, DeploymentRef, ReadDeployment
from contracts.drift import Difference
from contracts.feature_catalogue import DEFINITIONS
from contracts.features import ENSURE_PART, WAIT_FOR_PART, ChangePart, Feature, WaitForPart
from contracts.hyperpod import WAIT_FOR_HYPERPOD, WaitForHyperPod
from contracts.identity import ENSURE_OIDC_PROVIDER, EnsureOidcProvider
from contracts.instance_groups import (
    SET_COUNT,
    UPDATE_GROUP,
    WAIT_FOR_UPDATE,
    SetCount,
    UpdateGroup,
    UpdateInstanceGroupSpec,
    WaitForUpdate,
)
from contracts.node_groups import (
    SCALE_NODE_GROUP_TO,
    WAIT_FOR_NODE_GROUP,
    ScaleNodeGroup,
    ScaleNodeGroupSpec,
    WaitForNodeGroup,
)
from contracts.problem import ProblemCode, problem
from contracts.storage import ENSURE_CLAIM, WAIT_FOR_CLAIM, EnsureClaim, StorageSpec, WaitForClaim
from workflows.deployments import DEFAULT_STARTUP_MINUTES, watch
from workflows.engine import Operation, StageRun
from workflows.engine.failures import refusal
from workflows.features import IN_TIME
from workflows.parts import control_plane_of, feature_site_of, hyperpod_of


async def instance_group(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """The group's settings, then its number of nodes. What else HyperPod tells of the cluster is not recorded: it may
    have drifted, too."""
    group, cluster = found[0].name, control_plane_of(operation).name
    hyperpod = hyperpod_of(operation).name
    at: dict[str, Any] = {"scope": operation.scope, "hyperpod_cluster": hyperpod, "group": group}
    told = {each.path: each.recorded for each in found if each.path != "target"}
    if told:
        empty: dict[str, Any] = {"labels": {}, "taints": [], "deep_health_checks": [], "min_count": 0}
        settings = {path: empty[path] if value is None else value for path, value in told.items() if path in empty}
        changes = UpdateInstanceGroupSpec.model_validate({"group": group, **settings})
        await run.act(UPDATE_GROUP, UpdateGroup(**at, changes=changes), key=group)
        await run.wait(WAIT_FOR_UPDATE, WaitForUpdate(**at, eks_cluster=cluster, changes=changes), key=group)
    target = next((each.recorded for each in found if each.path == "target"), None)
    if isinstance(target, int):
        await run.act(SET_COUNT, SetCount(**at, count=target), key=group)
        wanted = WaitForHyperPod(
            scope=operation.scope, name=hyperpod, eks_cluster=cluster, groups=[group], targets={group: target}
        )
        ready = await run.wait(WAIT_FOR_HYPERPOD, wanted, key=group)
        await run.record(nodes=ready.nodes, node_counts=ready.counts)


async def node_group(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """The group's recorded number of nodes."""
    name, cluster = found[0].name, control_plane_of(operation).name
    known = next(each for each in operation.record.node_groups if each.name == name)
    spec = ScaleNodeGroupSpec(
        node_group=name, desired=known.desired, minimum=known.minimum, maximum=max(known.maximum, known.desired, 1)
    )
    await run.act(SCALE_NODE_GROUP_TO, ScaleNodeGroup(scope=operation.scope, eks_cluster=cluster, spec=spec), key=name)
    wanted = WaitForNodeGroup(scope=operation.scope, eks_cluster=cluster, name=name, desired=known.desired)
    await run.wait(WAIT_FOR_NODE_GROUP, wanted, key=name)


async def feature(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """Every part of the feature, as update-features ensures them."""
    named = Feature(found[0].name)
    site = feature_site_of(operation)
    definition = DEFINITIONS[named]
    if definition.oidc:
        oidc = EnsureOidcProvider(scope=site.scope, eks_cluster=site.eks_cluster)
        await run.act(ENSURE_OIDC_PROVIDER, oidc, key=named.value)
    for part in definition.parts:
        key = f"{named.value}/{part.key}"
        done = await run.act(ENSURE_PART, ChangePart(site=site, feature=named, part=part), key=key)
        if part.kind in IN_TIME and done.changed:
            await run.wait(WAIT_FOR_PART, WaitForPart(site=site, feature=named, part=part), key=key)


async def storage(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """The claim with its volume, on the bucket that it was on."""
    namespace, _, claim = found[0].name.partition("/")
    known = next(each for each in operation.record.storage if (each.namespace, each.claim) == (namespace, claim))
    spec = StorageSpec(
        claim=claim, namespace=namespace, bucket=known.bucket, prefix=known.prefix, read_only=known.read_only
    )
    cluster, key = control_plane_of(operation).name, found[0].name
    wanted = EnsureClaim(scope=operation.scope, eks_cluster=cluster, bucket=known.bucket, spec=spec, pointer="")
    await run.act(ENSURE_CLAIM, wanted, key=key)
    waited = WaitForClaim(scope=operation.scope, eks_cluster=cluster, claim=claim, namespace=namespace)
    await run.wait(WAIT_FOR_CLAIM, waited, key=key)


async def deployment(run: StageRun, operation: Operation[Any], found: list[Difference]) -> None:
    """The Deployment as it was made, with the recorded number of replicas; its pods are waited for."""
    namespace, _, name = found[0].name.partition("/")
    target = DeploymentRef(
        scope=operation.scope, eks_cluster=control_plane_of(operation).name, name=name, namespace=namespace
    )
    seen = await run.act(READ_DEPLOYMENT, ReadDeployment(**target.model_dump()), key=found[0].name)
    if seen.spec is None:
        raise refusal(
            problem(
                ProblemCode.NOT_FOUND,
                f"deployment {found[0].name} does not tell any more what it was made from",
                remedy="Change it with update-deployment, or adopt it as it is.",
            )
        )
    replicas = next((each.recorded for each in found if each.path == "replicas"), seen.deployment.replicas)
    spec = seen.spec.model_copy(update={"replicas": replicas})
    wanted = ApplyDeployment(scope=operation.scope, eks_cluster=target.eks_cluster, spec=spec, update=True)
    applied = await run.act(APPLY_DEPLOYMENT, wanted, key=found[0].name)
    minutes = spec.startup_timeout_minutes or DEFAULT_STARTUP_MINUTES
    await watch(run, target, applied.generation, minutes, key=found[0].name)
