"""What is said to an operation while it runs: answers, what to do about a failed stage, another specification, the
end, a person's approval.

Each word is judged before it is taken: what a validator refuses leaves no event in the history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow

from contracts.catalogue import OperationKind
from contracts.corrections import apply_corrections, outside
from contracts.decision import Abort, Answer, Approval, Decision, Resolution, Supersede
from contracts.model import fingerprint
from contracts.operation import MEMO_LABEL, Label, Phase, Stage, StageState
from contracts.problem import ProblemCode, field_errors, invalid, problem
from workflows.engine.failures import Aborted, Superseded, refusal
from workflows.engine.progress import ProgressKeeper
from workflows.engine.stage import StagePlan

Spec = TypeVar("Spec", bound=BaseModel)


@dataclass
class Question:
    """A decision that is open, and how its answer is read."""

    decision: Decision
    parse: Callable[[dict[str, Any]], Any]
    answered: bool = False
    value: Any = None


def in_words(document: Any) -> str:
    """An answer or a correction as the list of what was said shows it."""
    return json.dumps(document, ensure_ascii=False)


class Listener(Generic[Spec]):
    """Takes the updates of an operation. What they mean for its stages, the operation finds out by waiting on what is
    noted here."""

    kind: ClassVar[OperationKind[Any]]

    def __init__(self, spec: Spec, plans: Sequence[StagePlan]) -> None:
        self.spec = spec
        self.plans = plans
        self.progress = ProgressKeeper(
            (Stage(name=plan.name, title=plan.title, skippable=plan.skippable) for plan in plans),
            plan_hash=fingerprint(spec),
        )
        self.superseded = False
        """Another specification has come in since the running stage began."""
        self.asked_anew: list[str] = []
        """Who asked for what instead, while it ran."""
        self._questions: dict[str, Question] = {}
        self._resolutions: dict[str, Resolution] = {}
        self._abort: Abort | None = None
        self._approval: Approval | None = None

    def check_aborted(self) -> None:
        """Raise Aborted if somebody has ended the operation."""
        if self._abort is not None:
            reason = f": {self._abort.reason}" if self._abort.reason else ""
            raise Aborted(f"aborted by {self._abort.by}{reason}")

    def check_superseded(self) -> None:
        """Raise if another specification has come in since the stage began."""
        if self.superseded:
            raise Superseded

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

    @workflow.update(name="decide")
    def decide(self, answer: Answer) -> None:
        """Answer the open question."""
        asked = self._questions[answer.decision]
        asked.value, asked.answered = asked.parse(dict(answer.answer)), True
        self.progress.heard("decide", answer.by, answer.decision, in_words(answer.answer))

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
        corrected = f"with {in_words(resolution.corrections)}" if resolution.corrections else None
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
        asked_for = self.progress.phase is Phase.WAITING_FOR_APPROVAL and self._approval is None
        if self.spec == before and not asked_for:
            return
        self.superseded = True
        plan_hash = fingerprint(self.spec)
        self.progress.plan_hash = plan_hash
        if asked_for:
            self._approval = Approval(approved=True, plan_hash=plan_hash, by=wish.by)
        if self.spec == before:
            self.asked_anew.append(f"{wish.by}: the same")
            self.progress.heard("approve", wish.by, None, "asked for the same")
            return
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

    def _corrected(self, corrections: dict[str, Any]) -> Spec:
        return type(self.spec).model_validate(apply_corrections(self.spec.model_dump(mode="json"), corrections))
