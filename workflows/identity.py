"""The identity stages: roles and the bucket of a cluster, and who may use its Kubernetes API."""

from __future__ import annotations

from typing import Any

from contracts.eks import ControlPlane
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_BUCKET,
    ENSURE_CLUSTER_ROLE,
    ENSURE_EXECUTION_ROLE,
    ENSURE_LIFECYCLE_SCRIPTS,
    ENSURE_OIDC_PROVIDER,
    GET_CALLER,
    VERIFY_ACCESS,
    EnsureAccessEntry,
    EnsureBucket,
    EnsureLifecycleScripts,
    EnsureOidcProvider,
    EnsureRole,
    GetCaller,
    Identity,
    LifecycleScripts,
    VerifiedAccess,
    VerifyAccess,
)
from contracts.network import Scope
from workflows.engine import Operation, StagePlan, StageRun, together

IDENTITY = StagePlan("identity", "Roles and bucket")
ACCESS = StagePlan("access", "Access to the Kubernetes API")


async def identity_stage(operation: Operation[Any]) -> Identity:
    """The control plane's role, the nodes' role, the bucket and the lifecycle scripts in it."""

    async def steps(run: StageRun) -> Identity:
        identity = await build_identity(run, operation.scope)
        run.detail(f"2 roles and s3://{identity.bucket} in account {identity.account}")
        await run.record(identity=identity)
        return identity

    return await operation.stage(IDENTITY.name, steps)


async def access_stage(operation: Operation[Any], control_plane: ControlPlane, identity: Identity) -> VerifiedAccess:
    """Give the platform's own principal administration of the cluster, and prove it."""

    async def steps(run: StageRun) -> VerifiedAccess:
        scope = operation.scope
        await together(
            run.act(ENSURE_OIDC_PROVIDER, EnsureOidcProvider(scope=scope, eks_cluster=control_plane.name)),
            run.act(
                ENSURE_ACCESS_ENTRY,
                EnsureAccessEntry(
                    scope=scope,
                    eks_cluster=control_plane.name,
                    principal_arn=identity.platform_principal_arn,
                ),
            ),
        )
        verified = await run.act(VERIFY_ACCESS, VerifyAccess(scope=scope, eks_cluster=control_plane.name))
        run.detail(f"Kubernetes {verified.kubernetes_version} answers; {verified.username} administers it")
        return verified

    return await operation.stage(ACCESS.name, steps)


async def build_identity(run: StageRun, scope: Scope) -> Identity:
    caller = await run.act(GET_CALLER, GetCaller(region=scope.region))
    wanted = EnsureRole(scope=scope, account=caller.account)
    cluster_role, execution_role, (bucket, scripts) = await together(
        run.act(ENSURE_CLUSTER_ROLE, wanted),
        run.act(ENSURE_EXECUTION_ROLE, wanted),
        _bucket(run, scope, caller.account),
    )
    return Identity(
        account=caller.account,
        platform_principal_arn=caller.principal_arn,
        cluster_role_arn=cluster_role.arn,
        execution_role_arn=execution_role.arn,
        bucket=bucket,
        lifecycle_scripts_uri=scripts.uri,
    )


async def own_bucket(run: StageRun, operation: Operation[Any], identity: Identity) -> str:
    """The cluster's own bucket. An imported cluster gets one when something first needs it."""
    if identity.bucket is not None:
        return identity.bucket
    bucket = await run.act(ENSURE_BUCKET, EnsureBucket(scope=operation.scope, account=identity.account))
    known = operation.record.identity or identity
    await run.record(identity=known.model_copy(update={"bucket": bucket.name}))
    return bucket.name


async def execution_stage(operation: Operation[Any], identity: Identity) -> Identity:
    """What HyperPod nodes are made with: role, bucket and lifecycle scripts. An imported EKS cluster has none yet."""

    async def steps(run: StageRun) -> Identity:
        if identity.execution_role_arn and identity.lifecycle_scripts_uri:
            run.detail(f"nodes take {identity.execution_role_arn}")
            return identity
        scope = operation.scope
        role, (bucket, scripts) = await together(
            run.act(ENSURE_EXECUTION_ROLE, EnsureRole(scope=scope, account=identity.account)),
            _bucket(run, scope, identity.account),
        )
        made = {"execution_role_arn": role.arn, "bucket": bucket, "lifecycle_scripts_uri": scripts.uri}
        complete = identity.model_copy(update=made)
        await run.record(identity=complete)
        run.detail(f"nodes take {role.arn}")
        return complete

    return await operation.stage(IDENTITY.name, steps)


async def _bucket(run: StageRun, scope: Scope, account: str) -> tuple[str, LifecycleScripts]:
    bucket = await run.act(ENSURE_BUCKET, EnsureBucket(scope=scope, account=account))
    scripts = await run.act(ENSURE_LIFECYCLE_SCRIPTS, EnsureLifecycleScripts(scope=scope, bucket=bucket.name))
    return bucket.name, scripts
