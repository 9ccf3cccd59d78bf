"""The storage stage: an S3 bucket that pods mount, until its claim is Bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.eks import ControlPlane
from contracts.identity import Identity
from contracts.storage import ENSURE_CLAIM, WAIT_FOR_CLAIM, Claim, EnsureClaim, StorageSpec, WaitForClaim
from workflows.engine import Operation, StagePlan, StageRun
from workflows.identity import own_bucket

STORAGE = StagePlan("storage", "S3 storage", inputs=("storage",), skippable=True)


async def storage_stage(
    operation: Operation[Any], spec: Callable[[], StorageSpec], control_plane: ControlPlane, identity: Identity
) -> Claim:
    async def steps(run: StageRun) -> Claim:
        wanted = spec()
        claim = await run.act(
            ENSURE_CLAIM,
            EnsureClaim(
                scope=operation.scope,
                eks_cluster=control_plane.name,
                bucket=wanted.bucket or await own_bucket(run, operation, identity),
                spec=wanted,
            ),
        )
        claim = await run.wait(
            WAIT_FOR_CLAIM,
            WaitForClaim(
                scope=operation.scope,
                eks_cluster=control_plane.name,
                claim=claim.claim,
                namespace=claim.namespace,
            ),
        )
        run.detail(f"{claim.namespace}/{claim.claim} {claim.phase} on s3://{claim.bucket}/{claim.prefix or ''}")
        others = [
            each for each in operation.record.storage if (each.namespace, each.claim) != (claim.namespace, claim.claim)
        ]
        await run.record(storage=[*others, claim])
        return claim

    return await operation.stage(STORAGE.name, steps)
