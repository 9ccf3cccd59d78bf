"""How long operations have taken, so that faces can say how long one that runs still will."""

from __future__ import annotations

from api.filters import clause, phase_clause
from api.kept import Kept
from api.mapping import from_row
from api.temporal import Temporal
from contracts.durations import MOST_SAMPLES, Durations, durations_of
from contracts.operation import Phase

_KEPT_SECONDS = 60.0


class PastDurations:
    """Durations of the operations that Temporal still keeps; kept for a minute."""

    def __init__(self, temporal: Temporal) -> None:
        self._temporal = temporal
        self._kept: Kept[str, Durations] = Kept(_KEPT_SECONDS)

    async def of(self, kind: str) -> Durations:
        """How long the last operations of the kind took. Raises ProblemError (503) where Temporal does not answer."""
        return await self._kept.get(kind, lambda: self._read(kind))

    async def _read(self, kind: str) -> Durations:
        succeeded = " AND ".join(
            filter(None, (clause("WorkflowType", kind), phase_clause(Phase.SUCCEEDED), "ExecutionStatus = 'Completed'"))
        )
        seen = [await from_row(row) for row in (await self._temporal.list(succeeded, MOST_SAMPLES)).rows]
        return durations_of(kind, [each.operation for each in seen if each is not None])
