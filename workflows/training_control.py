"""stop-training, suspend-training and resume-training: what people do to a job that runs.

Each tells the operation that watches the run who does what, and why, before it acts; then it acts on the job itself,
and sees that it took effect. They work as well where nobody watches any more.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from contracts.activity import Act
from contracts.catalogue import (
    RESUME_TRAINING,
    RUN_TRAINING,
    STOP_TRAINING,
    SUSPEND_TRAINING,
)
from contracts.names import operation_id
from contracts.operation import Outcome, Start
from contracts.problem import ProblemCode, problem
from contracts.training import ResumeTrainingSpec, StopTrainingSpec, SuspendTrainingSpec
from contracts.training_activities import (
    DELETE_TRAINING_JOB,
    SET_SUSPENDED,
    WAIT_FOR_TRAINING,
    SetSuspended,
    StopTraining,
    Told,
    TrainingStopped,
    WaitForTraining,
)
from contracts.training_parts import RunAction, TrainingName
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import Aborted, refusal
from workflows.parts import control_plane_of
from workflows.plans import checks, checks_stage

Wanted = Literal["gone", "suspended", "resumed"]


Standing = Literal["begun", "done", "withdrawn"]


async def tell(
    operation: Operation[Any], spec: TrainingName, action: RunAction, reason: str | None, standing: Standing = "begun"
) -> bool:
    """Tell the operation that watches a run what is about to happen to its job, and what came of it. False where
    nobody watches."""
    watcher = operation_id(RUN_TRAINING.name, operation.start.cluster, spec.target)
    told = Told(
        action=action,
        by=operation.start.origin.by,
        operation=workflow.info().workflow_id,
        at=workflow.now(),
        reason=reason,
        standing=standing,
    )
    try:
        # Shielded: a signal that is cancelled in the very task that it is answered in wedges the workflow.
        await asyncio.shield(workflow.get_external_workflow_handle(watcher).signal("told", told))
    except ApplicationError:
        return False
    return True


async def telling(
    run: StageRun,
    operation: Operation[Any],
    spec: TrainingName,
    action: RunAction,
    reason: str | None,
    act: tuple[Act[Any, TrainingStopped], Any],
) -> tuple[TrainingStopped, bool]:
    """Act on a job between two words to the operation that watches it: what is begun, and whether it was done or
    given up. Returns what came of it, and whether anybody watches."""
    signature, request = act
    watched = await tell(operation, spec, action, reason)
    try:
        changed: TrainingStopped = await run.act(signature, request)
    except (ActivityError, ApplicationError, Aborted, asyncio.CancelledError):
        # An operation that is ended in this very moment may have had its effect all the same.
        done = f"{run.name}/{signature.name}" in operation.made
        await tell(operation, spec, action, reason, "done" if done else "withdrawn")
        raise
    await tell(operation, spec, action, reason, "done")
    return changed, watched


async def settle(
    run: StageRun,
    operation: Operation[Any],
    eks_cluster: str,
    spec: TrainingName,
    changed: TrainingStopped,
    wanted: Wanted,
) -> str:
    """Watch until what was done to the job has taken effect."""
    if changed.submission is None:
        return "there was no job any more"
    settled = await run.wait(
        WAIT_FOR_TRAINING,
        WaitForTraining(
            scope=operation.scope,
            eks_cluster=eks_cluster,
            name=spec.name,
            namespace=spec.namespace,
            uid=changed.uid,
            submission=changed.submission,
            wanted=wanted,
        ),
    )
    return settled.detail


@workflow.defn(name=STOP_TRAINING.name)
class StopTrainingOperation(Operation[StopTrainingSpec]):
    kind = STOP_TRAINING
    stages = (checks(), StagePlan("job", "Job deleted"), StagePlan("gone", "Nothing of it runs"))

    @workflow.init
    def __init__(self, start: Start[StopTrainingSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[StopTrainingSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"training/{self.spec.namespace}/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        planned = await checks_stage(self)

        async def job(run: StageRun) -> TrainingStopped:
            # Who asks anew, with another reason, is heard.
            spec = self.spec
            request = StopTraining(scope=self.scope, eks_cluster=cluster, name=spec.name, namespace=spec.namespace)
            act = (DELETE_TRAINING_JOB, request)
            stopped, watched = await telling(run, self, spec, "stop", spec.reason, act)
            if stopped.submission is None and not watched and planned.draft.facts.get("job") is None:
                remedy = "List the training runs; abort this operation."
                said = f"there is neither a job of a training run {spec.target} nor an operation that runs one"
                raise refusal(problem(ProblemCode.NOT_FOUND, said, field="/name", remedy=remedy, retryable=True))
            was = f"it was {stopped.was}" if stopped.was else "there was none any more"
            run.detail(was if watched else f"{was}; no operation watched it")
            return stopped

        async def gone(run: StageRun) -> str:
            detail = await settle(run, self, cluster, self.spec, stopped, "gone")
            run.detail(detail)
            return detail

        stopped = await self.stage("job", job)
        detail = await self.stage("gone", gone)
        return {"training_run": self.spec.target, "was": stopped.was, "detail": detail}


class _Suspension(Operation[Any]):
    """Suspending and resuming differ in one word."""

    suspended: bool

    def leases(self) -> tuple[str, ...]:
        return (f"training/{self.spec.namespace}/{self.spec.name}",)

    async def runbook(self) -> dict[str, Any]:
        cluster = control_plane_of(self).name
        spec = self.spec
        action: RunAction = "suspend" if self.suspended else "resume"
        wanted: Wanted = "suspended" if self.suspended else "resumed"
        await checks_stage(self)

        async def job(run: StageRun) -> TrainingStopped:
            request = SetSuspended(
                scope=self.scope,
                eks_cluster=cluster,
                name=spec.name,
                namespace=spec.namespace,
                suspended=self.suspended,
                by=self.start.origin.by,
                reason=spec.reason,
            )
            changed, _ = await telling(run, self, spec, action, spec.reason, (SET_SUSPENDED, request))
            run.detail(f"it was {changed.was}" if changed.changed else f"it was {wanted} already")
            return changed

        async def settled(run: StageRun) -> str:
            detail = await settle(run, self, cluster, spec, changed, wanted)
            run.detail(detail)
            return detail

        changed = await self.stage("job", job)
        detail = await self.stage("settled", settled)
        return {"training_run": spec.target, "was": changed.was, "detail": detail}


@workflow.defn(name=SUSPEND_TRAINING.name)
class SuspendTraining(_Suspension):
    kind = SUSPEND_TRAINING
    stages = (checks(), StagePlan("job", "Job suspended"), StagePlan("settled", "Nothing of it runs"))
    suspended = True

    @workflow.init
    def __init__(self, start: Start[SuspendTrainingSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[SuspendTrainingSpec]) -> Outcome:
        return await self.carry_out()


@workflow.defn(name=RESUME_TRAINING.name)
class ResumeTraining(_Suspension):
    kind = RESUME_TRAINING
    stages = (checks(), StagePlan("job", "Job resumed"), StagePlan("settled", "It goes on"))
    suspended = False

    @workflow.init
    def __init__(self, start: Start[ResumeTrainingSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ResumeTrainingSpec]) -> Outcome:
        return await self.carry_out()
