"""Conditions of Temporal's list filters, safe against what callers send."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator

from contracts import visibility
from contracts.operation import Phase

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d")
ZONED = "RFC 3339 with a zone; a plus sign in it is sent as %2B."


def _rfc3339(text: object) -> object:
    # Pydantic would read a bare number as seconds since 1970.
    if isinstance(text, str) and not _DATE_TIME.match(text):
        raise ValueError("not a time as RFC 3339 has it, such as 2026-01-31T12:00:00Z")
    return text


Moment = Annotated[AwareDatetime, BeforeValidator(_rfc3339)]


def clause(attribute: str, value: str | None) -> str | None:
    """A condition of a list filter, safe against what the value holds."""
    if value is None:
        return None
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{attribute} = '{escaped}'"


def any_of(conditions: Iterable[str | None]) -> str | None:
    """A condition that is met where one of several is; None without any."""
    given = [each for each in conditions if each is not None]
    return f"({' OR '.join(given)})" if given else None


def phase_clause(phase: Phase) -> str:
    """Search attributes say what a workflow last reported; its status says whether it still runs."""
    reported = f"{visibility.PHASE} = '{phase}'"
    ended = ", ".join(f"'{each}'" for each in Phase if each.ended)
    if phase is Phase.ABORTED:
        cut = f"ExecutionStatus IN ('Terminated', 'Canceled') AND {visibility.PHASE} NOT IN ({ended})"
        return f"({reported} OR ({cut}))"
    if phase is Phase.FAILED:
        broken = f"ExecutionStatus IN ('Failed', 'TimedOut', 'Completed') AND {visibility.PHASE} NOT IN ({ended})"
        return f"({reported} OR ({broken}))"
    return reported if phase.ended else f"({reported} AND ExecutionStatus = 'Running')"


def started(comparison: str, moment: datetime | None) -> str | None:
    """A condition on when a workflow started; None without a moment."""
    if moment is None:
        return None
    return f"StartTime {comparison} '{moment.astimezone(UTC).isoformat(timespec='microseconds')}'"
