"""Durable pauses: what an operation asks, and what people and programs answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from contracts.model import Model

COMBINATIONS = "combinations"
"""Key in a decision's options: objects with the values of several fields that go together; others do not."""


class Decision(Model):
    """A question that an operation waits on. Nothing times out unless ``default_at`` says so."""

    id: str
    """The stage that asks."""
    question: str
    answer_schema: dict[str, Any] = Field(alias="schema")
    """JSON Schema of a valid answer."""
    options: dict[str, list[JsonValue]] = Field(default_factory=dict)
    """What can be chosen now for the answer's fields: looked up, not assumed."""
    asked_at: datetime
    default: JsonValue = None
    """What is taken where nobody can be asked; null if a person must choose."""
    default_at: datetime | None = None
    """When the default is taken without an answer; null: never."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


class Answer(Model):
    """An answer to a decision. The first valid one wins."""

    decision: str
    answer: dict[str, JsonValue]
    by: str


def is_harmless(answer: dict[str, JsonValue]) -> bool:
    """Whether an answer buys nothing and ends nothing beyond what the operation's plan already says: waiting on,
    stopping, or being content with less."""
    match answer:
        case {"choice": "wait" | "stop"}:
            return True
        case {"remedy": "wait" | "keep" | "abort" | {"kind": "wait" | "keep" | "fewer" | "abort"}}:
            return True
        case _:
            return False


class Resolution(Model):
    """What to do with a blocked stage: the answer to a failure."""

    action: Literal["retry", "skip"]
    stage: str
    attempt: int
    """The attempt that failed, so that an answer to an earlier failure is refused."""
    corrections: dict[str, JsonValue] | None = None
    """JSON merge patch for the operation's spec (retry only)."""
    by: str


class Supersede(Model):
    """Another specification for an operation that runs, of a kind whose last request wins."""

    spec: dict[str, JsonValue]
    by: str


class Abort(Model):
    """End the operation without doing more. What exists stays."""

    by: str
    reason: str = ""


class Approval(Model):
    """A human's word on what an agent asked for, bound to the plan that was shown."""

    approved: bool
    plan_hash: str
    by: str
    reason: str = ""
