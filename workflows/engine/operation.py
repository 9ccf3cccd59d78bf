"""The base of every operation's workflow.

An operation's own module declares its stages and reads like the runbook it replaces::

    async def runbook(self) -> dict[str, Any]:
        network = await self.stage("network", self._build_network)
        ...

Everything else is here: approval, leases, stages that block instead of failing, decisions, and what all faces show. A
finished stage is never done again. What is said to a running operation is taken in :mod:`workflows.engine.messages`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from contracts.cluster import ClusterRecord, HistoryEntry, RecordChange
from contracts.decision import Decision
from contracts.model import fingerprint
from contracts.names import cluster_id
from contracts.network import Scope
from contracts.operation import Outcome, Phase, Progress, StageState, Start
from contracts.problem import Problem
from workflows.engine.failures import Aborted, Skipped, Superseded, problem_of
from workflows.engine.leases import acquire
from workflows.engine.measures import operation_ended
from workflows.engine.messages import Listener, Question, in_words
from workflows.engine.stage import StagePlan, StageRun

Spec = TypeVar("Spec", bound=BaseModel)
T = TypeVar("T")


class Operation(Listener[Spec]):
    """A workflow of stages. Subclasses are decorated with ``workflow.defn`` and define ``run``."""

    stages: ClassVar[tuple[StagePlan, ...]]

    def __init__(self, start: Start[Spec]) -> None:
        super().__init__(start.spec, self.planned_stages(start.spec))
        self.start = start
        self.record: ClusterRecord = ClusterRecord(
            tag=start.cluster,
            region=start.region,
            created_by=start.origin.by,
            created_at=workflow.now(),
            updated_at=workflow.now(),
        )
        self.made: dict[str, str] = {}
        """What was made or found, by the activity that did."""
        self.unknown: list[str] = []
        """Activities that an abort cut off before they could say what they had done."""
        self.left: dict[str, int] = {}
        """How often the watching of a wait was given up, by its activity ID, for what was asked instead."""
        self.lease_granted = False

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
                operation_ended(self.progress.phase)
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
        asked = self._questions[stage] = Question(decision, parse)
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
            self.progress.heard("decide", "nobody", stage, f"the default: {in_words(default)}")
        self._questions.pop(stage, None)
        self.progress.ask(next((other.decision for other in self._questions.values()), None))
        self.check_aborted()
        if self.superseded and not asked.answered:
            raise Superseded
        self.progress.change(stage, state=StageState.RUNNING, detail=None)
        value: T = asked.value
        return value

    def check_cancelled(self) -> None:
        """Raise if the operation was ended from here or in Temporal. Cancellation must not be swallowed."""
        self.check_aborted()
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError

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
