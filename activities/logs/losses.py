"""Which lines of a kept log were lost before they could be kept, and which page goes over such a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from activities.logs.chunks import Told
from contracts.log_lines import Position, Positions, StreamKey
from contracts.logs import LogGap

WHY = "lines were lost before they could be kept: whoever kept them was away until they were gone"

Counted = Mapping[StreamKey, int]
"""How often lines of a log were lost in all, by the index of what is kept."""


def counted(index: Mapping[str, Any]) -> Counted:
    """From the index, as it is written beside the chunks."""
    rows = index.get("streams") or ()
    return {StreamKey(row["pod"], row["container"], row["uid"]): row["gaps"] for row in rows}


@dataclass(frozen=True)
class Loss:
    """Lines between ``after`` and ``before`` of one pod; null: there is no line on that side."""

    stream: StreamKey
    after: Position | None
    before: Position | None

    def gap(self) -> LogGap:
        return LogGap.behind(self.stream, self.after, WHY)

    def between(self, begun: Positions, reached: Positions, end: bool) -> bool:
        """Whether a page from ``begun`` to ``reached`` goes over it. ``end``: nothing was there behind the page; what
        is missing in the end is told with every such page."""
        was, now = begun.get(self.stream), reached.get(self.stream)
        if self.before is not None:
            return now is not None and now >= self.before and (was is None or was < self.before)
        return end and now is not None and self.after is not None and now >= self.after


@dataclass
class Losses:
    """What is found while chunks of one container's name are read in their order."""

    pod: str
    container: str
    counted: Counted
    last: Told | None
    """The chunk before the first that is read."""
    found: list[Loss]

    def pass_chunk(self, told: Told) -> None:
        """The next chunk that is read."""
        last, self.last = self.last, told
        if last is not None and last.uid != told.uid:
            self._ended(last)
            last = None
        if told.gaps > (last.gaps if last is not None else 0):
            after = last.last if last is not None else None
            self.found.append(Loss(StreamKey(self.pod, self.container, told.uid), after, told.first))

    def end(self) -> None:
        """There are no more chunks, and no pod that has the rest."""
        if self.last is not None:
            self._ended(self.last)

    def _ended(self, last: Told) -> None:
        stream = StreamKey(self.pod, self.container, last.uid)
        if self.counted.get(stream, 0) > last.gaps:
            self.found.append(Loss(stream, last.last, None))
