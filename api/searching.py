"""Finding clusters by a part of their tag or region.

Temporal's list filters know no substrings: the summaries of all managed clusters are read, page by page.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from api.managed import LISTED, summary_of
from api.rows import Row
from api.temporal import Temporal
from contracts.cluster import ClusterSummary

ROWS = 200
"""Clusters that one call of Temporal gives."""
MOST_CALLS = 10
"""Of Temporal for one page. A search that needs more gives what it has found, with a token to go on."""


@dataclass(frozen=True)
class Mark:
    """Where a search goes on: a page of Temporal's, and the last row of it that was looked at."""

    page: bytes | None
    run_id: str | None = None
    started: datetime | None = None

    def sealed(self) -> bytes:
        text = {"run": self.run_id, "started": self.started.isoformat() if self.started else None}
        return json.dumps(text).encode() + b"\n" + (self.page or b"")

    @classmethod
    def of(cls, position: bytes | None) -> Mark:
        if position is None:
            return cls(None)
        head, _, page = position.partition(b"\n")
        text = json.loads(head)
        return cls(page or None, text["run"], datetime.fromisoformat(text["started"]) if text["started"] else None)

    def rest(self, rows: list[Row]) -> list[Row]:
        """The rows behind the mark, also if the marked one is gone meanwhile: they come by their start, the last
        first."""
        if self.run_id is None or self.started is None:
            return rows
        marked = next((number for number, row in enumerate(rows) if row.run_id == self.run_id), None)
        if marked is not None:
            return rows[marked + 1 :]
        return [row for row in rows if row.start_time < self.started]


async def search(
    temporal: Temporal, text: str, size: int, position: bytes | None
) -> tuple[list[ClusterSummary], bytes | None]:
    """At most ``size`` clusters with ``text`` (case does not matter) in tag or region, and where the next page begins;
    None behind the last one."""
    wanted, mark = text.casefold(), Mark.of(position)
    found: list[ClusterSummary] = []
    for _ in range(MOST_CALLS):
        page = await temporal.list(LISTED, ROWS, mark.page)
        rows = mark.rest(page.rows)
        for row in rows:
            summary = await summary_of(row)
            if summary is None or not any(wanted in part.casefold() for part in (summary.tag, summary.region)):
                continue
            if len(found) == size:
                return found, mark.sealed()
            found.append(summary)
            mark = Mark(mark.page, row.run_id, row.start_time)
        if page.position is None:
            return found, None
        mark = Mark(page.position)
    return found, mark.sealed()
