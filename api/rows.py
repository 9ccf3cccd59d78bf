"""What a list of Temporal's says of one execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecutionStatus
from temporalio.converter import DataConverter

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """An execution. Temporal's own client decodes every search attribute of every row, twice; a page of many rows takes
    a third of the time without that."""

    id: str
    run_id: str
    status: WorkflowExecutionStatus | None
    start_time: datetime
    close_time: datetime | None
    _memo: Mapping[str, Payload]
    _converter: DataConverter

    @classmethod
    def of(cls, info: WorkflowExecutionInfo, converter: DataConverter) -> Row:
        return cls(
            id=info.execution.workflow_id,
            run_id=info.execution.run_id,
            status=WorkflowExecutionStatus(info.status) if info.status else None,
            start_time=info.start_time.ToDatetime(UTC),
            close_time=info.close_time.ToDatetime(UTC) if info.HasField("close_time") else None,
            _memo=info.memo.fields,
            _converter=converter,
        )

    async def memo(self, key: str, form: type[T]) -> T | None:
        """One value of the memo, read as ``form``; None if there is none. The others are not read."""
        if key not in self._memo:
            return None
        found: T | None = (await self._converter.decode([self._memo[key]], [form]))[0]
        return found
