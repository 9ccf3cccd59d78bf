"""Operations: one workflow each, seen alike by every face."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, JsonValue

from contracts.decision import Decision
from contracts.model import Model
from contracts.problem import Problem

Spec = TypeVar("Spec", bound=BaseModel)


class Phase(StrEnum):
    """Where an operation is. The last three are ends."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_FOR_DECISION = "waiting_for_decision"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    ABORTED = "aborted"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.ABORTED, Phase.FAILED)

    @property
    def needs_attention(self) -> bool:
        return self in (Phase.WAITING_FOR_DECISION, Phase.WAITING_FOR_APPROVAL, Phase.BLOCKED)


class StageState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    """For a decision."""
    BLOCKED = "blocked"
    DONE = "done"
    SKIPPED = "skipped"
    UNCHANGED = "unchanged"
    """Nothing had to be done."""

    @property
    def finished(self) -> bool:
        return self in (StageState.DONE, StageState.SKIPPED, StageState.UNCHANGED)


class Stage(Model):
    """One step of an operation. A finished stage is never done again."""

    name: str
    title: str
    state: StageState = StageState.PENDING
    attempt: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    detail: str | None = None
    """One line: what is going on, or what came of it."""
    skippable: bool = False
    problem: Problem | None = None


class Links(Model):
    """Where more can be read. URLs."""

    self: str
    events: str
    temporal: str | None = None


class Said(Model):
    """What somebody answered to an operation, in one line."""

    action: Literal["approve", "reject", "decide", "retry", "skip", "abort", "supersede"]
    by: str
    at: datetime
    stage: str | None = None
    """That was answered to, where one was."""
    detail: str | None = None
    """The answer, the corrections, or the reason that was given."""


class Operation(Model):
    """An operation as every face shows it. ``id`` is the workflow ID."""

    id: str
    kind: str
    cluster: str
    phase: Phase
    detail: str | None = None
    """What it waits for, in one line, where it waits."""
    stages: list[Stage] = Field(default_factory=list)
    decision: Decision | None = None
    problem: Problem | None = None
    result: dict[str, JsonValue] | None = None
    answers: list[Said] = Field(default_factory=list)
    """What people and programs said to it, the first first; the last ones of many."""
    plan_hash: str
    """Hash of the spec that is carried out; an approval is bound to it."""
    started_by: str
    started_at: datetime
    updated_at: datetime
    run_id: str | None = None
    links: Links | None = None
    completion: str = "GET /api/v1/operations/{id}"
    """Which status call decides completion."""


class Origin(Model):
    """Who asked for an operation, and how the request is called in logs, AWS user agents and audit."""

    by: str
    role: str
    request_id: str
    idempotency_key: str | None = None
    """A hash of the caller's Idempotency-Key, where one was sent."""


class Start(Model, Generic[Spec]):
    """What an operation's workflow is started with."""

    cluster: str
    region: str
    spec: Spec
    origin: Origin
    wait_for_leases: bool = True
    """Queue behind other operations; false: fail at once when something needed is held."""
    needs_approval: bool = False
    """A human must approve first."""
    plan_facts: str | None = None
    """Hash of the facts of the plan that it was started with; other facts block its checks."""


class Label(Model):
    """What is known of an operation when it starts; the memo ``operation`` of its workflow."""

    kind: str
    cluster: str
    region: str
    started_by: str
    spec_hash: str
    request_id: str
    idempotency_key: str | None = None


class Progress(Model):
    """What changes of an operation while it runs; the memo ``progress`` of its workflow."""

    version: int = 0
    phase: Phase = Phase.RUNNING
    detail: str | None = None
    stages: list[Stage] = Field(default_factory=list)
    decision: Decision | None = None
    problem: Problem | None = None
    result: dict[str, JsonValue] | None = None
    answers: list[Said] = Field(default_factory=list)
    plan_hash: str = ""
    updated_at: datetime


class Outcome(Model):
    """What an operation's workflow returns."""

    phase: Phase
    result: dict[str, Any] = Field(default_factory=dict)


MEMO_LABEL = "operation"
MEMO_PROGRESS = "progress"

STATUS_CALL = "GET /api/v1/operations/{id}"
