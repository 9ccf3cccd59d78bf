"""Keeps an operation's stages and shows them: memo, search attributes and the Web UI's current details.

All three are written once for each transition, so that lists and pages need no worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from contracts import visibility
from contracts.decision import Decision
from contracts.operation import MEMO_PROGRESS, Phase, Progress, Said, Stage, StageState
from contracts.problem import Problem
from workflows.engine.measures import stage_ended

_PHASE = SearchAttributeKey.for_keyword(visibility.PHASE)
_STAGE = SearchAttributeKey.for_keyword(visibility.STAGE)
_NEEDS_ATTENTION = SearchAttributeKey.for_bool(visibility.NEEDS_ATTENTION)

_MARKS = {
    StageState.PENDING: "·",
    StageState.RUNNING: "▶",
    StageState.WAITING: "?",
    StageState.BLOCKED: "✖",
    StageState.DONE: "✔",
    StageState.SKIPPED: "–",
    StageState.UNCHANGED: "=",
}
_STOPS = frozenset({StageState.BLOCKED, StageState.DONE, StageState.SKIPPED, StageState.UNCHANGED})


MOST_ANSWERS = 30
"""So many of what was said are kept: a memo is not for more."""
LONGEST_ANSWER = 300


class ProgressKeeper:
    """The one place that knows where an operation is."""

    def __init__(self, stages: Iterable[Stage], plan_hash: str) -> None:
        self.stages = {stage.name: stage for stage in stages}
        self.decision: Decision | None = None
        self.plan_hash = plan_hash
        self.result: dict[str, Any] | None = None
        self.answers: list[Said] = []
        self._phase = Phase.RUNNING
        self._detail: str | None = None
        self._problem: Problem | None = None
        self._version = 0
        self._dirty = True
        self._shown: tuple[Phase, str, bool] | None = None

    def change(self, stage: str, **changes: Any) -> Stage:
        """Change members of a stage."""
        before = self.stages[stage]
        changed = before.model_copy(update=changes)
        if changed != before:
            self.stages[stage] = changed
            self._dirty = True
            if changed.state is not before.state and changed.state in _STOPS:
                stage_ended(changed)
        return changed

    def enter(self, phase: Phase, detail: str | None = None, problem: Problem | None = None) -> None:
        """Enter a phase that is not a matter of stages: queued, awaiting approval, ended."""
        self._phase, self._detail, self._problem, self._dirty = phase, detail, problem, True

    def queue(self, place: str) -> None:
        """Enter the queue, or another place in it. A place that is shown already changes nothing."""
        if (self._phase, self._detail) != (Phase.QUEUED, place):
            self.enter(Phase.QUEUED, place)

    def heard(
        self,
        action: Literal["approve", "reject", "decide", "retry", "skip", "abort", "supersede"],
        by: str,
        stage: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Keep who answered what. It is written with what follows from it, not on its own."""
        said = Said(
            action=action, by=by, at=workflow.now(), stage=stage, detail=(detail or "")[:LONGEST_ANSWER] or None
        )
        self.answers = [*self.answers, said][-MOST_ANSWERS:]

    def touch(self) -> None:
        """Say that something outside the stages has changed, such as the plan's hash."""
        self._dirty = True

    def ask(self, decision: Decision | None) -> None:
        """Show an open question, or show that there is none."""
        self.decision, self._dirty = decision, True

    @property
    def phase(self) -> Phase:
        """The phase; while running it follows from the stages: what waits for somebody comes first."""
        if self._phase is not Phase.RUNNING:
            return self._phase
        states = {stage.state for stage in self.stages.values()}
        if StageState.BLOCKED in states:
            return Phase.BLOCKED
        if StageState.WAITING in states:
            return Phase.WAITING_FOR_DECISION
        return Phase.RUNNING

    @property
    def current(self) -> Stage | None:
        """The stage that matters most now: blocked, else waiting, else running."""
        for state in (StageState.BLOCKED, StageState.WAITING, StageState.RUNNING):
            for stage in self.stages.values():
                if stage.state is state:
                    return stage
        return None

    @property
    def problem(self) -> Problem | None:
        current = self.current
        return self._problem or (current.problem if current is not None else None)

    def document(self) -> Progress:
        """Where the operation is, as the memo holds it."""
        current = self.current
        detail = self._detail or (current.detail if current is not None and self.phase is not Phase.RUNNING else None)
        return Progress(
            version=self._version,
            phase=self.phase,
            detail=detail,
            stages=list(self.stages.values()),
            decision=self.decision,
            problem=self.problem,
            result=self.result,
            answers=self.answers,
            plan_hash=self.plan_hash,
            updated_at=workflow.now(),
        )

    def flush(self) -> None:
        """Write what has changed since the last time, at most once for each transition."""
        if not self._dirty:
            return
        self._dirty = False
        self._version += 1
        document = self.document()
        workflow.upsert_memo({MEMO_PROGRESS: document.model_dump(mode="json", exclude_none=True, by_alias=True)})
        self._upsert_search_attributes()
        workflow.set_current_details(self._markdown(document))

    def _upsert_search_attributes(self) -> None:
        # An operation that was started without them (from a shell, or in a namespace that has none) is not listed.
        if workflow.info().typed_search_attributes.get(_PHASE) is None:
            return
        current = self.current
        shown = (self.phase, current.name if current is not None else "", self.phase.needs_attention)
        if shown == self._shown:
            return
        updates: list[SearchAttributeUpdate[Any]] = [
            _PHASE.value_set(shown[0].value),
            _STAGE.value_set(shown[1]),
            _NEEDS_ATTENTION.value_set(shown[2]),
        ]
        workflow.upsert_search_attributes(updates)
        self._shown = shown

    @staticmethod
    def _markdown(document: Progress) -> str:
        lines = [f"**{document.phase.value}** {document.detail or ''}", "", "| | stage | state | detail |", "|-|-|-|-|"]
        for stage in document.stages:
            detail = (stage.detail or "").replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {_MARKS[stage.state]} | {stage.title} | {stage.state.value} | {detail} |")
        if document.problem is not None:
            lines += ["", f"**Problem:** {document.problem.detail}"]
            if document.problem.remedy:
                lines.append(f"**Remedy:** {document.problem.remedy}")
        return "\n".join(lines)
