"""The base of every operation's workflow.

An operation's own module declares its stages and reads like the runbook it replaces::

    async def runbook(self) -> dict[str, Any]:
        network = await self.stage("network", self._build_network)
        ...

Everything else is here: approval, leases, stages that block instead of failing, retry with corrections, skip, abort,
decisions, and what all faces show. A finished stage is never done again.
"""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from contracts.catalogue import OperationKind
from contracts.cluster import ClusterRecord, HistoryEntry, RecordChange
from contracts.corrections import apply_corrections, outside
from contracts.decision import Abort, Answer, Approval, Decision, Resolution, Supersede
from contracts.model import fingerprint
from contracts.names import cluster_id
from contracts.network import Scope
from contracts.operation import MEMO_LABEL, Label, Outcome, Phase, Progress, Stage, StageState, Start
from contracts.problem import Problem, ProblemCode, field_errors, invalid, problem
from workflows.engine.failures import Aborted, Skipped, Superseded, problem_of, refusal
from workflows.engine.leases import acquire
from workflows.engine.progress import ProgressKeeper
from workflows.engine.stage import StageRun

Spec = TypeVar("Spec", bound=BaseModel)
T = TypeVar("T")


@dataclass(frozen=True)
class StagePlan:
    """A stage before it runs. ``inputs`` are the members of the spec, as ``a/b`` paths, that a retry may correct."""

    name: str
    title: str
    inputs: tuple[str, ...] = ()
    skippable: bool = False


@dataclass
class _Question:
    decision: Decision
    parse: Callable[[dict[str, Any]], Any]
    answered: bool = False
    value: Any = None


def _in_words(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False)


class Operation(Generic[Spec]):
    """A workflow of stages. Subclasses are decorated with ``workflow.defn`` and define ``run``."""

    kind: ClassVar[OperationKind[Any]]
    stages: ClassVar[tuple[StagePlan, ...]]

    def __init__(self, start: Start[Spec]) -> None:
        self.start = start
        self.spec = start.spec
        self.record: ClusterRecord = ClusterRecord(
            tag=start.cluster,
            region=start.region,
            created_by=start.origin.by,
            created_at=workflow.now(),
            updated_at=workflow.now(),
        )
        self.plans = self.planned_stages(start.spec)
        self.progress = ProgressKeeper(
            (Stage(name=plan.name, title=plan.title, skippable=plan.skippable) for plan in self.plans),
            plan_hash=fingerprint(start.spec),
        )
        self.made: dict[str, str] = {}
        """What was made or found, by the activity that did."""
        self.unknown: list[str] = []
        """Activities that an abort cut off before they could say what they had done."""
        self.left: dict[str, int] = {}
        """How often the watching of a wait was given up, by its activity ID, for what was asked instead."""
        self.lease_granted = False
        self.superseded = False
        """Another specification has come in since the running stage began."""
        self.asked_anew: list[str] = []
        """Who asked for what instead, while it ran."""
        self._questions: dict[str, _Question] = {}
        self._resolutions: dict[str, Resolution] = {}
        self._abort: Abort | None = None
        self._approval: Approval | None = None

    @classmethod
    def planned_stages(cls, spec: Spec) -> tuple[StagePlan, ...]:
        """The stages of an operation that is asked with ``spec``. Kinds whose stages depend on it override this."""
        return cls.stages

    @abstractmethod
    async def runbook(self) -> dict[str, Any]:
        """Do the work, stage by stage; what it returns is the operation's result."""

    def leases(self) -> tuple[str, ...]:
        """What the operation needs exclusively of its cluster; nothing if it only reads."""
        return ()

    async def beforehand(self) -> None:
        """What is done before the operation asks for its leases; most kinds do nothing."""

    @property
    def scope(self) -> Scope:
        """What every activity of the cluster is told."""
        return Scope(
            cluster=self.start.cluster,
            region=self.start.region,
            created_by=self.start.origin.by,
            request_id=self.start.origin.request_id,
        )

    async def carry_out(self) -> Outcome:
        """Run the operation to one of its ends. Everything that was made is kept, whatever the end."""
        try:
            await self._await_approval()
            await self.beforehand()
            await acquire(self)
            self.progress.enter(Phase.RUNNING)
            result = await self.runbook()
            self.progress.result = result | ({"asked_anew": self.asked_anew} if self.asked_anew else {})
            self.progress.enter(Phase.SUCCEEDED)
        except Aborted as aborted:
            self._end_stages(str(aborted))
            self.progress.result = self._report_what_exists()
            self.progress.enter(Phase.ABORTED, str(aborted), self.progress.problem)
        except asyncio.CancelledError:
            self._end_stages("cancelled")
            self.progress.result = self._report_what_exists()
            self.progress.enter(Phase.ABORTED, "cancelled in Temporal", self.progress.problem)
            raise
        finally:
            if self.progress.phase.ended:
                await asyncio.shield(self._report_end())
                await workflow.wait_condition(workflow.all_handlers_finished)
                # Last, so that it is written with the end itself: who reads of the end can start anew at once.
                self.progress.ask(None)
                self.progress.flush()
        return Outcome(phase=self.progress.phase, result=self.progress.result or {})

    async def stage(self, name: str, steps: Callable[[StageRun], Awaitable[T]]) -> T:
        """Run a stage to its end: done, unchanged, or blocked until somebody retries it. Raises Aborted.

        A stage that may be skipped raises :class:`Skipped` when it was. A stage that waits begins anew when another
        specification comes in (``last_wins``).
        """
        while True:
            self.check_aborted()
            self.superseded = False
            attempt = self.progress.stages[name].attempt + 1
            self.progress.change(
                name,
                state=StageState.RUNNING,
                attempt=attempt,
                started_at=workflow.now(),
                finished_at=None,
                problem=None,
                detail=None,
            )
            run = StageRun(self, name)
            try:
                result = await steps(run)
            except Superseded:
                continue
            except (ActivityError, ApplicationError) as error:
                self.check_cancelled()
                await self._blocked(name, attempt, problem_of(error))
                continue
            self.check_cancelled()
            if self.superseded:
                continue
            done = StageState.UNCHANGED if run.observed and not run.changed else StageState.DONE
            self.progress.change(name, state=done, finished_at=workflow.now())
            if self.progress.current is not None:
                # Another stage runs beside: its next step may be long in coming.
                self.progress.flush()
            return result

    async def record_changes(self, **changes: BaseModel | list[Any] | str | None) -> None:
        """Put what a stage has verified into the cluster's record."""
        before, self.record = self.record, self.record.model_copy(update=changes)
        change = RecordChange.between(before, self.record, changes, workflow.info().workflow_id)
        entity = workflow.get_external_workflow_handle(cluster_id(self.start.cluster))
        try:
            # Shielded: a signal that is cancelled in the very task that it is answered in wedges the workflow.
            await asyncio.shield(entity.signal("amend", change))
        except ApplicationError:
            workflow.logger.warning("the entity of cluster %s is gone; its record is not kept", self.start.cluster)

    async def ask(
        self,
        stage: str,
        question: str,
        *,
        schema: dict[str, Any],
        options: dict[str, list[Any]],
        default: Any,
        parse: Callable[[dict[str, Any]], T],
        default_after: timedelta | None = None,
    ) -> T:
        """A durable pause: ask, and wait for the first valid answer. Raises Aborted."""
        decision = Decision(
            id=stage,
            question=question,
            answer_schema=schema,
            options=options,
            asked_at=workflow.now(),
            default=default,
            default_at=workflow.now() + default_after if default_after else None,
        )
        asked = self._questions[stage] = _Question(decision, parse)
        self.progress.change(stage, state=StageState.WAITING, detail=question)
        self.progress.ask(decision)
        self.progress.flush()
        try:
            await workflow.wait_condition(
                lambda: asked.answered or self._abort is not None or self.superseded,
                timeout=default_after,
                timeout_summary=f"decision {stage}",
            )
        except TimeoutError:
            asked.value = parse(default)
            self.progress.heard("decide", "nobody", stage, f"the default: {_in_words(default)}")
        self._questions.pop(stage, None)
        self.progress.ask(next((other.decision for other in self._questions.values()), None))
        self.check_aborted()
        if self.superseded and not asked.answered:
            raise Superseded
        self.progress.change(stage, state=StageState.RUNNING, detail=None)
        value: T = asked.value
        return value

    def check_aborted(self) -> None:
        """Raise Aborted if somebody has ended the operation."""
        if self._abort is not None:
            reason = f": {self._abort.reason}" if self._abort.reason else ""
            raise Aborted(f"aborted by {self._abort.by}{reason}")

    def check_superseded(self) -> None:
        """Raise if another specification has come in since the stage began."""
        if self.superseded:
            raise Superseded

    def check_cancelled(self) -> None:
        """Raise if the operation was ended from here or in Temporal. Cancellation must not be swallowed."""
        self.check_aborted()
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError

    @property
    def ending(self) -> bool:
        """Whether somebody has ended the operation."""
        return self._abort is not None

    async def aborted(self) -> None:
        """Return when somebody ends the operation."""
        await workflow.wait_condition(lambda: self._abort is not None)

    async def interrupted(self) -> None:
        """Return when somebody ends the operation, or asks for something else."""
        await workflow.wait_condition(lambda: self._abort is not None or self.superseded)

    async def _blocked(self, name: str, attempt: int, found: Problem) -> None:
        """Wait for what to do with a failed stage. Returns for another attempt; raises Aborted or Skipped."""
        self._resolutions.pop(name, None)
        self.progress.change(
            name, state=StageState.BLOCKED, problem=found, detail=found.detail, finished_at=workflow.now()
        )
        self.progress.flush()
        await workflow.wait_condition(lambda: name in self._resolutions or self._abort is not None or self.superseded)
        self.check_aborted()
        if name not in self._resolutions:
            return
        resolution = self._resolutions.pop(name)
        if resolution.action == "skip":
            self.progress.change(
                name,
                state=StageState.SKIPPED,
                detail=f"skipped by {resolution.by}: {found.detail}",
                finished_at=workflow.now(),
            )
            raise Skipped(name)
        if resolution.corrections:
            self.spec = self._corrected(resolution.corrections)
            self.progress.plan_hash = fingerprint(self.spec)

    def _corrected(self, corrections: dict[str, Any]) -> Spec:
        return type(self.spec).model_validate(apply_corrections(self.spec.model_dump(mode="json"), corrections))

    async def _await_approval(self) -> None:
        if not self.start.needs_approval:
            return
        self.progress.enter(
            Phase.WAITING_FOR_APPROVAL,
            f"{self.start.origin.by} (an agent) asks; a person must approve plan {self.progress.plan_hash}",
        )
        self.progress.flush()
        await workflow.wait_condition(lambda: self._approval is not None or self._abort is not None)
        self.check_aborted()
        approval = self._approval
        if approval is not None and not approval.approved:
            raise Aborted(f"rejected by {approval.by}" + (f": {approval.reason}" if approval.reason else ""))
        self.progress.enter(Phase.RUNNING)
        self.progress.flush()

    def _report_what_exists(self) -> dict[str, Any]:
        """What an operation that was ended early leaves in place."""
        return {"exists": self.made, "unknown": self.unknown}

    def _end_stages(self, why: str) -> None:
        for stage in list(self.progress.stages.values()):
            if stage.state in (StageState.RUNNING, StageState.WAITING):
                self.progress.change(stage.name, state=StageState.PENDING, detail=f"not finished: {why}")

    async def _report_end(self) -> None:
        """Give the leases back and leave a line in the cluster's history."""
        info = workflow.info()
        entry = HistoryEntry(
            operation=info.workflow_id,
            run_id=info.run_id,
            kind=self.kind.name,
            by=self.start.origin.by,
            phase=self.progress.phase,
            started_at=info.start_time,
            finished_at=workflow.now(),
            detail=self.progress.document().detail,
        )
        entity = workflow.get_external_workflow_handle(cluster_id(self.start.cluster))
        try:
            await entity.signal("ended", entry)
        except ApplicationError:
            workflow.logger.warning("the entity of cluster %s is gone; nothing to give back", self.start.cluster)

    @workflow.query(name="progress")
    def query_progress(self) -> Progress:
        """Where the operation is; the same as its memo."""
        return self.progress.document()

    @workflow.query(name="spec")
    def query_spec(self) -> dict[str, Any]:
        """What is carried out, with all corrections and answers."""
        return self.spec.model_dump(mode="json")

    @workflow.signal(name="lease_granted")
    def on_lease_granted(self) -> None:
        """The cluster's entity says that the operation's turn has come."""
        self.lease_granted = True

    @workflow.update(name="decide")
    def decide(self, answer: Answer) -> None:
        """Answer the open question."""
        asked = self._questions[answer.decision]
        asked.value, asked.answered = asked.parse(dict(answer.answer)), True
        self.progress.heard("decide", answer.by, answer.decision, _in_words(answer.answer))

    @decide.validator
    def _validate_decide(self, answer: Answer) -> None:
        asked = self._questions.get(answer.decision)
        if asked is None or asked.answered:
            raise refusal(
                problem(
                    ProblemCode.CONFLICT,
                    f"the operation does not wait for decision {answer.decision!r}",
                    remedy="Read the operation: it may have been answered already.",
                )
            )
        try:
            asked.parse(dict(answer.answer))
        except ValidationError as error:
            raise refusal(invalid(field_errors(error, prefix="/answer"))) from error

    @workflow.update(name="resolve")
    def resolve(self, resolution: Resolution) -> None:
        """Retry or skip a blocked stage."""
        self._resolutions[resolution.stage] = resolution
        corrected = f"with {_in_words(resolution.corrections)}" if resolution.corrections else None
        self.progress.heard(resolution.action, resolution.by, resolution.stage, corrected)

    @resolve.validator
    def _validate_resolve(self, resolution: Resolution) -> None:
        stage = self.progress.stages.get(resolution.stage)
        if stage is None or stage.state is not StageState.BLOCKED or resolution.stage in self._resolutions:
            raise refusal(problem(ProblemCode.CONFLICT, f"stage {resolution.stage!r} is not blocked"))
        if stage.attempt != resolution.attempt:
            raise refusal(
                problem(
                    ProblemCode.CONFLICT,
                    f"stage {stage.name!r} is blocked on attempt {stage.attempt}, not {resolution.attempt}",
                    remedy="Read the operation again: somebody has answered that failure.",
                )
            )
        if resolution.action == "skip" and not stage.skippable:
            raise refusal(
                problem(ProblemCode.INVALID, f"stage {stage.name!r} cannot be skipped", remedy="Retry or abort.")
            )
        if resolution.corrections:
            self._validate_corrections(stage, resolution.corrections)

    def _validate_corrections(self, stage: Stage, corrections: dict[str, Any]) -> None:
        try:
            corrected = self._corrected(corrections)
        except ValidationError as error:
            raise refusal(invalid(field_errors(error, "/corrections", type(self.spec)))) from error
        open_inputs = {
            path for plan in self.plans if not self.progress.stages[plan.name].state.finished for path in plan.inputs
        }
        before, after = self.spec.model_dump(mode="json"), corrected.model_dump(mode="json")
        if wrong := outside(before, after, open_inputs):
            raise refusal(
                problem(
                    ProblemCode.INVALID,
                    f"{wrong!r} cannot be corrected any more: the stages that used it are finished",
                    field=f"/corrections/{wrong}",
                    remedy=f"What can be corrected at {stage.name!r}: {', '.join(sorted(open_inputs)) or 'nothing'}.",
                )
            )

    @workflow.update(name="supersede")
    def supersede(self, wish: Supersede) -> None:
        """Do what is asked now instead of what was asked before. What the stage waits for is looked at anew.

        Only people's requests come here (the gateway refuses an agent's): one that takes the place of what waits for
        an approval needs none any more.
        """
        before = self.spec
        self.spec = type(before).model_validate(wish.spec)
        if self.spec == before:
            return
        self.superseded = True
        plan_hash = fingerprint(self.spec)
        self.progress.plan_hash = plan_hash
        if self.progress.phase is Phase.WAITING_FOR_APPROVAL and self._approval is None:
            self._approval = Approval(approved=True, plan_hash=plan_hash, by=wish.by)
        label = workflow.memo_value(MEMO_LABEL, type_hint=Label, default=None)
        if label is not None:
            changed = label.model_copy(update={"spec_hash": plan_hash})
            workflow.upsert_memo({MEMO_LABEL: changed.model_dump(mode="json", exclude_none=True)})
        if (stage := self.progress.current) is not None:
            self.progress.change(stage.name, detail=f"asked anew by {wish.by}: {self.describe_change(before)}")
        self.asked_anew.append(f"{wish.by}: {self.describe_change(before)}")
        self.progress.heard("supersede", wish.by, None, self.describe_change(before))
        self.progress.touch()
        self.progress.flush()

    @supersede.validator
    def _validate_supersede(self, wish: Supersede) -> None:
        if not self.kind.last_wins:
            raise refusal(problem(ProblemCode.CONFLICT, f"a {self.kind.name} that runs cannot be asked for more"))
        if self.progress.phase.ended or self._abort is not None or not self.open_for_change():
            raise refusal(problem(ProblemCode.CONFLICT, "the operation has ended, or is ending", retryable=True))
        try:
            type(self.spec).model_validate(wish.spec)
        except ValidationError as error:
            raise refusal(invalid(field_errors(error))) from error

    def open_for_change(self) -> bool:
        """Whether another specification can still be carried out: the last stage has not finished."""
        return any(not stage.state.finished for stage in self.progress.stages.values())

    def describe_change(self, before: BaseModel) -> str:
        """What differs between the former and the present specification, in words."""
        old, new = before.model_dump(mode="json"), self.spec.model_dump(mode="json")
        return ", ".join(f"{key} {old.get(key)} → {new[key]}" for key in new if old.get(key) != new[key])

    @workflow.update(name="abort")
    def abort(self, abort: Abort) -> None:
        """End the operation. What exists stays in place."""
        self._abort = abort
        self.progress.heard("abort", abort.by, None, abort.reason)

    @abort.validator
    def _validate_abort(self, abort: Abort) -> None:
        if self.progress.phase.ended or self._abort is not None:
            raise refusal(problem(ProblemCode.CONFLICT, "the operation has ended, or is ending"))

    @workflow.update(name="approve")
    def approve(self, approval: Approval) -> None:
        """A person's word on the plan."""
        self._approval = approval
        self.progress.heard("approve" if approval.approved else "reject", approval.by, None, approval.reason)

    @approve.validator
    def _validate_approve(self, approval: Approval) -> None:
        if self.progress.phase is not Phase.WAITING_FOR_APPROVAL or self._approval is not None:
            raise refusal(problem(ProblemCode.CONFLICT, "the operation does not wait for an approval"))
        if approval.plan_hash != self.progress.plan_hash:
            raise refusal(
                problem(
                    ProblemCode.CONFLICT,
                    f"the plan is {self.progress.plan_hash}, not {approval.plan_hash}",
                    remedy="Look at the plan again; approve exactly what is shown.",
                )
            )
