"""The lines of one reader, for all who watch it at this gateway: taken once from the reader's heartbeat, kept for a
while, and written out as events once.

A watcher that is slow holds up nobody: what has fallen out of here it reads in pages.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property

from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from api.log_pages import heartbeat, ranks_of, read_page
from api.problems import ProblemError
from api.temporal import RPC, Temporal, guarded
from contracts import queues
from contracts.catalogue import FOLLOW_LOGS_WORKFLOW
from contracts.log_lines import Level, Line, Position, Positions, StreamKey, gravity, level_of, stamp, unpack
from contracts.log_search import Matcher
from contracts.logs import (
    LONGEST_FOLLOW,
    WATCHING,
    FollowLogs,
    LogGap,
    LogsFollowed,
    LogSource,
    LogStream,
    ReadLogs,
    WindowTold,
)
from contracts.problem import Problem

logger = logging.getLogger("instantstart.api")

LOOK_SECONDS = 0.2
AGAIN_SECONDS = 1.0
"""Before Temporal is asked again after it did not answer."""
KEPT_CHARACTERS = 4 * 1024 * 1024
MOST_PAGES = 20
"""Read to come up with a reader; what is missing then is told as a gap."""
PAGE_LINES = 2000
ROWS = 500
"""Lines of one event."""
_LIVES = LONGEST_FOLLOW + timedelta(minutes=10)


class Batch:
    """Lines that came together. What is written of them is written once, whoever watches."""

    def __init__(self, number: int, lines: Sequence[Line], ranks: dict[tuple[str, str], int | None]) -> None:
        self.number, self.lines = number, lines
        self.characters = sum(len(line.text) + 64 for line in lines)
        self._ranks = ranks
        self.firsts: dict[StreamKey, Position] = {}
        self.lasts: dict[StreamKey, Position] = {}
        for line in lines:
            self.firsts.setdefault(line.stream, line.position)
            self.lasts[line.stream] = line.position

    def unseen(self, seen: Positions) -> bool:
        """Whether none of these lines is among those that somebody has seen."""
        return all(stream not in seen or seen[stream] < first for stream, first in self.firsts.items())

    def pass_over(self, seen: Positions) -> None:
        """Note that somebody has seen these lines."""
        for stream, last in self.lasts.items():
            if stream not in seen or seen[stream] < last:
                seen[stream] = last

    @cached_property
    def levels(self) -> list[Level | None]:
        return [level_of(line.text) for line in self.lines]

    @cached_property
    def rows(self) -> list[str]:
        """Each line as JSON."""
        return [row_of(line, self.rank(line), level) for line, level in zip(self.lines, self.levels, strict=True)]

    @cached_property
    def whole(self) -> list[tuple[bytes, Positions]]:
        """Events of all the lines, without an id, each with how far it goes."""
        parts = [self.lines[start : start + ROWS] for start in range(0, len(self.lines), ROWS)]
        return list(zip(events_of(self.rows), [reached(part) for part in parts], strict=True))

    def rank(self, line: Line) -> int | None:
        return self._ranks.get((line.stream.pod, line.stream.container))


def row_of(line: Line, rank: int | None, level: Level | None) -> str:
    """A line as :class:`contracts.log_lines.LogLine` in JSON."""
    shown = {
        "at": stamp(line.position.at),
        "pod": line.stream.pod,
        "container": line.stream.container,
        "rank": rank,
        "restart": line.position.restart,
        "level": level,
        "text": line.text,
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def reached(lines: Sequence[Line]) -> Positions:
    """How far these lines go."""
    found = Positions()
    found.advance(lines)
    return found


def events_of(rows: Sequence[str]) -> list[bytes]:
    """Server-sent events of a bounded size, each of which begins with its name: an id may stand before that."""
    return [
        f'event: lines\ndata: {{"lines":[{",".join(rows[start : start + ROWS])}]}}\n\n'.encode(errors="replace")
        for start in range(0, len(rows), ROWS)
    ]


class Wanted:
    """Which lines a watcher sees."""

    def __init__(self, matcher: Matcher | None, level: Level | None, rank: int | None, pod: str | None) -> None:
        self._matcher, self._rank, self._pod = matcher, rank, pod
        self._least = None if level is None else gravity(level)
        self.everything = matcher is None and level is None and rank is None and pod is None

    def numbers(self, batch: Batch, seen: Positions) -> list[int]:
        """Their places in ``batch``."""
        return [
            number
            for number, line in enumerate(batch.lines)
            if not seen.passed(line) and self._fits(batch, number, line)
        ]

    def _fits(self, batch: Batch, number: int, line: Line) -> bool:
        if self._pod is not None and line.stream.pod != self._pod:
            return False
        if self._rank is not None and batch.rank(line) != self._rank:
            return False
        if self._least is not None and gravity(batch.levels[number]) < self._least:
            return False
        return self._matcher is None or self._matcher(line.text)


class Feed:
    """One reader as this gateway sees it. ``positions``: how far its lines have come in."""

    def __init__(
        self, temporal: Temporal, workflow_id: str, source: LogSource, positions: Positions, fresh: bool
    ) -> None:
        """``fresh``: who begins it has seen the newest lines and wants what comes; else what came since, too."""
        self.positions = positions
        self._fresh = fresh
        self._stale = False
        """The reader that was found has ended for others already."""
        self.batches: deque[Batch] = deque()
        self.fell = Positions(positions)
        """What is not in ``batches`` (any more)."""
        self.jumped = Positions()
        """How far lines were left out between ``batches``, and told as a gap to those who watched then."""
        self.streams: list[LogStream] = []
        self.gaps: list[tuple[int, LogGap]] = []
        """The latest, each with its number."""
        self.ended: str | None = None
        self.problem: Problem | None = None
        self.closed = False
        self.watchers = 0
        self._temporal, self._id, self._source = temporal, workflow_id, source
        self._handle = temporal.client.get_workflow_handle(workflow_id)
        self._next, self._reader, self._piece = 0, "", 0
        self._told = b""
        self._characters = 0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    @property
    def first(self) -> int:
        """The number of the oldest batch that is here."""
        return self.batches[0].number if self.batches else self._next

    def batch(self, number: int) -> Batch | None:
        """None where it is not here yet."""
        index = number - self.first
        return self.batches[index] if index < len(self.batches) else None

    def newest(self, lines: int) -> Sequence[Line] | None:
        """The last lines that came in; None where so many are not here."""
        found: list[Line] = []
        for batch in reversed(self.batches):
            if len(found) >= lines:
                break
            found[:0] = batch.lines
        return found[-lines:] if lines and len(found) >= lines else None

    def missing(self, *, joining: bool) -> Positions:
        """What a watcher must have read elsewhere to go on with ``batches``. ``joining``: it was told of no gap yet."""
        found = Positions(self.fell)
        for stream, position in self.jumped.items() if joining else ():
            if stream not in found or found[stream] < position:
                found[stream] = position
        return found

    async def news(self) -> None:
        """Until something changes."""
        await self._news.wait()

    async def close(self) -> None:
        self.closed = True
        self._publish()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _publish(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _follow(self) -> None:
        said = 0.0
        while self.ended is None and self.problem is None:
            try:
                if not said:
                    await self._begin()
                    said = time.monotonic()
                found = await self._temporal.find(self._id)
                if found is None or found.status is not WorkflowExecutionStatus.RUNNING:
                    if not self._stale:
                        await self._look_again()
                    self._stale, said = False, 0.0
                    continue
                told = await heartbeat(found)
                if told is not None and told != self._told:
                    window = WindowTold.model_validate_json(told)
                    self._stale = window.ended is not None and not self._reader
                    if not self._stale:
                        await self._take(window)
                    self._told = told
                if time.monotonic() - said > WATCHING.seconds:
                    await guarded(self._handle.signal(WATCHING.signal, rpc_timeout=RPC))
                    said = time.monotonic()
                await asyncio.sleep(LOOK_SECONDS)
            except ProblemError as error:
                if error.body.status not in (502, 503):
                    self.problem = error.body
                    break
                await asyncio.sleep(AGAIN_SECONDS)
            except RPCError as error:
                logger.warning("following %s: %s", self._id, error)
                said = 0.0
                await asyncio.sleep(AGAIN_SECONDS)
        self.closed = True
        self._publish()

    async def _begin(self) -> None:
        """A reader behind what has come in, unless there is one: whichever gateway began it."""
        if not await self._temporal.polled(queues.WORKFLOWS):
            raise await self._temporal.no_answer()
        question = FollowLogs(source=self._source, position=self.positions.sealed())
        await guarded(
            self._temporal.client.start_workflow(
                FOLLOW_LOGS_WORKFLOW,
                question,
                id=self._id,
                task_queue=queues.WORKFLOWS,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=WATCHING.signal,
                run_timeout=_LIVES,
                rpc_timeout=RPC,
            )
        )

    async def _look_again(self) -> None:
        """The reader has ended: for good, or to be begun anew. Raises ProblemError with what it failed with."""
        handle = self._temporal.client.get_workflow_handle(self._id, result_type=LogsFollowed)
        followed = await self._temporal.result(handle)
        if followed.reason in ("ended", "gone"):
            # Its last window was not seen: what was in it is read in pages.
            await self._catch_up(None)
            self.ended = followed.reason

    async def _take(self, told: WindowTold) -> None:
        if told.streams != self.streams:
            self.streams = told.streams
        if not self._reader and self._fresh:
            self._pass_over_gone(told)
        if told.reader != self._reader:
            self._reader, self._piece = told.reader, told.first
        before = Positions.opened(told.before) if told.before else Positions()
        if not covers(self.positions, before):
            await self._catch_up(before)
        for number, piece in enumerate(told.pieces, told.first):
            if number >= self._piece:
                self._add(unpack(piece))
        self._piece = told.first + len(told.pieces)
        for gap in told.gaps:
            if all(known != gap for _, known in self.gaps):
                self._miss(gap)
        self.ended = told.ended
        self._publish()

    def _pass_over_gone(self, told: WindowTold) -> None:
        """Pods that were gone when the first watcher came have printed nothing since."""
        gone = {StreamKey(each.pod, each.container, each.uid) for each in told.streams if each.state == "gone"}
        gone -= set(self.positions)
        for piece in told.pieces:
            self.positions.advance(line for line in unpack(piece) if line.stream in gone)

    async def _catch_up(self, before: Positions | None) -> None:
        """Read what a window has lost already, or (None) everything that is left."""
        for _ in range(MOST_PAGES):
            question = ReadLogs(source=self._source, position=self.positions.sealed(), lines=PAGE_LINES)
            try:
                lines, told = await read_page(self._temporal, question)
            except ProblemError as error:
                if error.body.status == 503:
                    raise
                if before is None:
                    why = "the pod is gone, and its last lines with it"
                    for each in self.streams:
                        self._miss(LogGap(pod=each.pod, container=each.container, why=why))
                break
            self._add(lines)
            self.positions.update(Positions.opened(told.position))
            if told.end or (before is not None and covers(self.positions, before)):
                break
        if before is not None and not covers(self.positions, before):
            for stream, position in before.items():
                known = self.positions.get(stream)
                if known is None or known < position:
                    after = stamp(known.at) if known is not None else None
                    why = "more was written than can be watched live; read the log in pages for it"
                    self._miss(LogGap(pod=stream.pod, container=stream.container, after=after, why=why))
                    self.positions[stream] = self.jumped[stream] = position

    def _add(self, lines: Sequence[Line]) -> None:
        fresh = [line for line in lines if not self.positions.passed(line)]
        if not fresh:
            return
        self.positions.advance(fresh)
        batch = Batch(self._next, fresh, ranks_of(self.streams))
        self._next += 1
        self.batches.append(batch)
        self._characters += batch.characters
        while self._characters > KEPT_CHARACTERS and len(self.batches) > 1:
            oldest = self.batches.popleft()
            self._characters -= oldest.characters
            self.fell.advance(oldest.lines)
        self._publish()

    def _miss(self, gap: LogGap) -> None:
        number = self.gaps[-1][0] + 1 if self.gaps else 0
        self.gaps = [*self.gaps[-19:], (number, gap)]


def covers(known: Positions, before: Positions) -> bool:
    """Whether who has read up to ``known`` misses nothing of what is in ``before``."""
    return all(stream in known and known[stream] >= position for stream, position in before.items())
