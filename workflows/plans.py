"""The first stage of an operation on a cluster that exists: the plan is made once more, and must have no blocker."""

from __future__ import annotations

from typing import Any

from contracts.plans import MAKE_PLAN, MakePlan, PlanFindings
from contracts.problem import ProblemCode, invalid, problem
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import refusal


def checks(*inputs: str) -> StagePlan:
    """The stage, for an operation whose spec has these members that a retry may correct."""
    return StagePlan("checks", "Checks before anything is changed", inputs=inputs)


async def checks_stage(operation: Operation[Any]) -> PlanFindings:
    """What the operation would do now. Blocks where something stands in its way."""

    async def steps(run: StageRun) -> PlanFindings:
        findings = await check(run, operation)
        planned = operation.start.plan_facts
        first = operation.progress.stages["checks"].attempt == 1 and not operation.asked_anew
        if planned not in (None, findings.facts_hash) and first:
            raise refusal(
                problem(
                    ProblemCode.STALE,
                    "the cluster has changed since the plan was made that this was started with",
                    remedy="Make the plan anew and look at it; then retry to go on as it is now, or abort.",
                )
            )
        run.detail("; ".join(findings.draft.warnings) or "nothing stands in the way")
        return findings

    return await operation.stage("checks", steps)


async def check(run: StageRun, operation: Operation[Any]) -> PlanFindings:
    """Make the plan of the operation as it is specified now. Raises the problem of its blockers."""
    request = MakePlan(
        kind=operation.kind.name,
        record=operation.record,
        spec=operation.spec.model_dump(mode="json"),
    )
    findings = await run.act(MAKE_PLAN, request)
    if findings.draft.blockers:
        raise refusal(invalid(findings.draft.blockers))
    return findings
