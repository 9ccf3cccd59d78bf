"""The first stage of a creation: everything that can be known before anything is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.cluster import ClusterSpec
from contracts.options import CHECK_CLUSTER, CheckCluster
from contracts.problem import invalid
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import refusal

PREFLIGHT = StagePlan(
    "preflight",
    "Checks before anything is made",
    inputs=("network", "instance_groups", "kubernetes_version", "hyperpod", "storage"),
)


async def preflight_stage(operation: Operation[Any], spec: Callable[[], ClusterSpec]) -> None:
    async def steps(run: StageRun) -> None:
        findings = await run.act(CHECK_CLUSTER, CheckCluster(spec=spec(), region=operation.start.region))
        if findings.errors:
            raise refusal(invalid(findings.errors))
        run.detail("nothing stands in the way")

    await operation.stage(PREFLIGHT.name, steps)
