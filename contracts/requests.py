"""What is sent to an operation that waits or is blocked."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from contracts.model import Model
from contracts.plain_yaml import DEEPEST


def _shallow(document: object) -> object:
    """Looked at before it is validated, which ends in the midst of what is deeper than it can go, and step by step: a
    document may be deeper than Python's stack."""
    level = [document]
    for _ in range(DEEPEST):
        level = [
            member
            for each in level
            if isinstance(each, dict | list)
            for member in (each.values() if isinstance(each, dict) else each)
        ]
    if any(isinstance(each, dict | list) for each in level):
        raise ValueError(f"is deeper than {DEEPEST} lists and objects within one another; say it flatter")
    return document


def _encodable(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """JSON's escapes can write what no encoding can: half a surrogate pair. And ``NaN`` and ``1e400`` are read as
    numbers that JSON has no word for, so that they would be passed on as null."""
    try:
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds a character that does not exist: {error.object[error.start]!r}") from None
    except ValueError:
        raise ValueError("holds a number that JSON cannot write (NaN, or without end); leave it out") from None
    return document


Document = Annotated[dict[str, JsonValue], AfterValidator(_encodable), BeforeValidator(_shallow)]
Word = Annotated[str, Field(max_length=255)]


class RetryRequest(Model):
    """Which blocked stage to try again; what is absent is taken from the operation."""

    stage: Word | None = None
    """Absent: the only blocked one."""
    attempt: int | None = Field(None, ge=0)
    """The attempt that failed, so that an answer to an earlier failure is refused; absent: the last."""
    corrections: Document | None = None
    """JSON merge patch (RFC 7396) for the operation's spec."""


class SkipRequest(Model):
    """Which blocked stage to leave out."""

    stage: Word | None = None
    attempt: int | None = Field(None, ge=0)


class AbortRequest(Model):
    reason: str = Field("", max_length=1000)


class DecideRequest(Model):
    """The answer to the decision that the operation waits for."""

    decision: Word | None = None
    """Its id; absent: the one that is asked now."""
    answer: Document


class ApproveRequest(Model):
    """A human's word for the plan that was shown."""

    plan_hash: Word
    """The operation's plan_hash as it was shown."""
    reason: str = Field("", max_length=1000)


class RejectRequest(Model):
    reason: str = Field("", max_length=1000)
