"""Drift: checks by a schedule, adoption and restoration of what they find."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from contracts.activity import Act
from contracts.catalogue import ADOPT_DRIFT, RESTORE_DRIFT
from contracts.cluster import ClusterView, RecordChange
from contracts.drift import (
    CHECK_DRIFT_WORKFLOW,
    REMOVE_DRIFT_SCHEDULE,
    AdoptDriftSpec,
    CheckDrift,
    Difference,
    DriftAnswer,
    DriftState,
    EnsureDriftSchedule,
    RestoreDriftSpec,
    Sight,
    Unread,
    leases_for,
)
from contracts.drift_adopt import adopted, changed_members
from contracts.drift_choice import chosen_of
from contracts.drift_compare import judge
from contracts.drift_look import LOOKS, READ_MANAGED, LookForDrift, Managed
from contracts.lease import WHOLE_CLUSTER, Lease
from contracts.names import cluster_id
from contracts.network import Scope
from contracts.operation import Outcome, Start
from contracts.problem import ProblemCode, invalid, problem
from contracts.queues import task_queue
from contracts.words import number_of
from workflows.drift_restore import restore
from workflows.engine import Operation, StagePlan, StageRun, together
from workflows.engine.failures import problem_of, refusal
from workflows.plans import checks, checks_stage

CHOICE = ("differences",)
"""What a retry may correct while it is looked again: a difference that has changed since is chosen anew there."""
ACCEPTANCE = (*CHOICE, "accept_weaker_security")
LOOKING = "drift"
LOOKING_TO_ADOPT = StagePlan(LOOKING, "What differs now", inputs=ACCEPTANCE)
LOOKING_TO_RESTORE = StagePlan(LOOKING, "What differs now", inputs=CHOICE)
ADOPTING = StagePlan("adoption", "The record takes what is")
RESTORING = StagePlan("restoration", "What is recorded comes back")
LOOKING_AGAIN = StagePlan("verification", "Looked at again")
ROUNDS = 3
"""So often is a cluster looked at in which operations end meanwhile."""
PATIENCE = timedelta(minutes=4)
RETRY = RetryPolicy(maximum_attempts=4, maximum_interval=timedelta(seconds=20))

Run = Callable[[Act[Any, Any], Any, str], Awaitable[Any]]
"""How an activity is run: its signature, its argument, and a key that tells it from others of its name."""


async def looked_for(run: Run, asked: CheckDrift, *, but: str = "") -> DriftState | None:
    """Look at a cluster and compare it with its record; None where there is no such cluster. ``but``: the run that
    asks, whose own leases are no reason to leave something out."""
    state: DriftState | None = None
    for number in range(1, ROUNDS + 1):
        began = workflow.now()
        before: Managed = await run(READ_MANAGED, asked, f"{number}-before")
        if before.view is None:
            return None
        sights = await together(*(_look(run, name, asked, before.view, number) for name in LOOKS))
        after: Managed = await run(READ_MANAGED, asked, f"{number}-after")
        if after.view is None:
            return None
        held = [each for each in [*before.view.holding, *after.view.holding] if each.run_id != but]
        ended = before.view.history[:1] != after.view.history[:1]
        if ended:
            # Whatever it was at work on may have been seen half done.
            held.append(_everything(after.view, began))
        state = judge(after.view.record, sights, held, after.view.history, now=began)
        if not ended:
            break
    return state


def _everything(view: ClusterView, since: datetime) -> Lease:
    last = view.history[0]
    return Lease(
        operation=last.operation, run_id=last.run_id, kind=last.kind, by=last.by, leases=(WHOLE_CLUSTER,), since=since
    )


async def _look(run: Run, name: str, asked: CheckDrift, view: ClusterView, number: int) -> Sight:
    signature, kinds = LOOKS[name]
    scope = Scope(cluster=asked.cluster, region=asked.region, created_by="", request_id=CHECK_DRIFT_WORKFLOW)
    # What was found before is not looked at, and would only be carried to and fro.
    record = view.record.model_copy(update={"drift": None})
    try:
        found: Sight = await run(signature, LookForDrift(scope=scope, record=record), f"{number}-{name}")
    except ActivityError as error:
        if workflow.cancellation_reason() is not None:
            raise
        return Sight(unread=[Unread(kinds=list(kinds), detail=problem_of(error).detail)])
    return found


@workflow.defn(name=CHECK_DRIFT_WORKFLOW)
class CheckDriftWorkflow:
    """Looks, tells the cluster's entity, and ends. It holds nothing, and changes nothing in the cluster.

    Where there is no such cluster, it takes away the schedule that starts it.
    """

    @workflow.run
    async def run(self, asked: CheckDrift) -> DriftAnswer:
        async def run(signature: Act[Any, Any], argument: Any, key: str) -> Any:
            return await workflow.execute_activity(
                signature.name,
                argument,
                task_queue=task_queue(signature.queue, asked.region),
                result_type=signature.output,
                start_to_close_timeout=signature.limit,
                schedule_to_close_timeout=PATIENCE,
                retry_policy=RETRY,
                summary=key,
            )

        state = await looked_for(run, asked)
        if state is not None:
            await _tell(asked.cluster, state)
        else:
            # What deletes a cluster deletes its schedule. One that was made anew meanwhile, or whose cluster went
            # another way, would start checks for ever.
            gone = EnsureDriftSchedule(cluster=asked.cluster, region=asked.region)
            await run(REMOVE_DRIFT_SCHEDULE, gone, "no such cluster")
        return DriftAnswer(cluster=asked.cluster, report=state.report if state else None, live=True)


async def _tell(cluster: str, state: DriftState) -> None:
    """Have the cluster's entity keep what was found."""
    change = RecordChange(changes={"drift": state.model_dump(mode="json")}, by=workflow.info().workflow_id)
    try:
        # Shielded: a signal that is cancelled in the very task that it is answered in wedges the workflow.
        await asyncio.shield(workflow.get_external_workflow_handle(cluster_id(cluster)).signal("amend", change))
    except ApplicationError:
        workflow.logger.warning("the entity of cluster %s is gone; what was found is not kept", cluster)


async def _look_stage(
    operation: Operation[Any], stage: str, pick: Callable[[DriftState], list[Difference]]
) -> list[Difference]:
    """Look anew, keep what was found, and pick what this is about. Raises what ``pick`` raises."""

    async def steps(run: StageRun) -> list[Difference]:
        asked = CheckDrift(cluster=operation.start.cluster, region=operation.start.region)
        attempt = operation.progress.stages[stage].attempt

        async def act(signature: Act[Any, Any], argument: Any, key: str) -> Any:
            return await run.act(signature, argument, key=f"{attempt}-{key}")

        state = await looked_for(act, asked, but=workflow.info().run_id)
        if state is None:
            detail = f"there is no cluster {asked.cluster}"
            raise refusal(problem(ProblemCode.NOT_FOUND, detail, remedy="Nothing has been done: abort."))
        await run.record(drift=state)
        picked = pick(state)
        more = f"; {len(picked) - 3} more" if picked[3:] else ""
        run.detail("; ".join(each.detail for each in picked[:3]) + more or "as recorded")
        return picked

    return await operation.stage(stage, steps)


def _picked(operation: Operation[Any], state: DriftState) -> list[Difference]:
    """The differences that are meant. Raises what stands in the way of one, and where a correction names a part of the
    cluster that the operation did not ask for when it began, and so does not hold."""
    if beyond := set(leases_for(operation.spec.differences)) - set(leases_for(operation.start.spec.differences)):
        detail = f"it was begun for other differences, and does not hold {', '.join(sorted(beyond))}"
        raise refusal(problem(ProblemCode.CONFLICT, detail, remedy="Abort it, and start another for these."))
    picked, faults = chosen_of(state.report, operation.spec)
    if faults:
        raise refusal(invalid(faults))
    return picked


def _told(differences: list[Difference]) -> list[str]:
    return [each.detail for each in differences]


@workflow.defn(name=ADOPT_DRIFT.name)
class AdoptDrift(Operation[AdoptDriftSpec]):
    kind = ADOPT_DRIFT
    stages = (checks(*ACCEPTANCE), LOOKING_TO_ADOPT, ADOPTING)

    @workflow.init
    def __init__(self, start: Start[AdoptDriftSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[AdoptDriftSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return leases_for(self.spec.differences)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        picked = await _look_stage(self, LOOKING, lambda state: _picked(self, state))

        async def steps(run: StageRun) -> None:
            changes = changed_members(self.record, adopted(self.record, picked, workflow.now()))
            await run.record(**changes)
            run.detail(f"{number_of(len(picked), 'difference')} adopted")

        await self.stage(ADOPTING.name, steps)
        return {"adopted": _told(picked)}


@workflow.defn(name=RESTORE_DRIFT.name)
class RestoreDrift(Operation[RestoreDriftSpec]):
    kind = RESTORE_DRIFT
    stages = (checks(*CHOICE), LOOKING_TO_RESTORE, RESTORING, LOOKING_AGAIN)

    @workflow.init
    def __init__(self, start: Start[RestoreDriftSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[RestoreDriftSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return leases_for(self.spec.differences)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        picked = await _look_stage(self, LOOKING, lambda state: _picked(self, state))

        async def steps(run: StageRun) -> None:
            await restore(run, self, picked)
            run.detail(f"{number_of(len(picked), 'difference')} restored")

        await self.stage(RESTORING.name, steps)
        await _look_stage(self, LOOKING_AGAIN.name, lambda state: self._settled(state, picked))
        return {"restored": _told(picked)}

    @staticmethod
    def _settled(state: DriftState, picked: list[Difference]) -> list[Difference]:
        """What was restored and is otherwise still: none. Raises where there is some, or where nobody can tell."""
        places, members = {each.place for each in picked}, {each.member for each in picked}
        left = [each for each in state.report.differences if each.place in places]
        blind = {kind for each in state.report.unread for kind in each.kinds} & {each.kind for each in picked}
        passed_over = [each for each in state.report.skipped if each.partition(": ")[0] in members]
        if left or blind or passed_over:
            unseen = [f"{kind.value} could not be looked at" for kind in sorted(blind)]
            unseen += [f"left out because an operation was at work, {each}" for each in passed_over]
            raise refusal(
                problem(
                    ProblemCode.NOT_READY,
                    "; ".join([*_told(left), *unseen]),
                    remedy="Retry: it is looked at again. Somebody may be changing it back.",
                    retryable=True,
                )
            )
        return []
