"""What is to be read of one container: what was kept of it, then what its pod has; and many of these as one."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice

from activities.logs.chunks import Chunks, Folder, Told
from activities.logs.losses import Counted, Loss, Losses
from activities.logs.pods import Container, Pod, Pods
from activities.logs.streams import Missing, Read, Stream
from contracts.log_lines import Line, Position, Positions, StreamKey
from contracts.logs import LogGap, LogStream

HANDFUL = 500
AT_ONCE = 40
"""Logs that are opened at the same time."""


@dataclass
class Part:
    """One container's name in one pod's name. ``since``: nanoseconds since 1970 before which nothing is wanted."""

    pods: Pods
    live: tuple[Pod, Container] | None
    kept: tuple[Chunks, Folder] | None
    positions: Positions
    since: int = 0
    previous: bool = False
    newest: Told | None = None
    """What the newest chunk says, where something is kept."""
    counted: Counted = field(default_factory=dict)
    rank: int = 0
    gaps: list[LogGap] = field(default_factory=list)
    """Of the pod's own log, as they were met."""
    lost: list[Loss] = field(default_factory=list)
    """Of what was kept, as far as its chunks were opened."""

    @property
    def name(self) -> tuple[str, str]:
        if self.live is not None:
            return self.live[0].name, self.live[1].name
        assert self.kept is not None
        return self.kept[1].pod, self.kept[1].container

    def gaps_between(self, begun: Positions, reached: Positions, end: bool) -> list[LogGap]:
        """What is missing of the lines of a page, from ``begun`` to ``reached``."""
        return [*self.gaps, *(loss.gap() for loss in self.lost if loss.between(begun, reached, end))]

    def shown(self) -> LogStream:
        if self.live is not None:
            return self.pods.stream(*self.live)
        pod, container = self.name
        uid = self.newest.uid if self.newest is not None else ""
        return LogStream(pod=pod, container=container, uid=uid, rank=self.rank, state="kept")

    async def look(self) -> None:
        """Ask what is kept last, and whose it was."""
        if self.kept is not None:
            chunks, folder = self.kept
            self.newest = await asyncio.to_thread(chunks.told, folder.pod, folder.container, folder.newest)
            if self.live is None and self.newest is not None:
                self.rank = self.newest.rank
        if self.live is not None:
            self.rank = self.pods.rank(self.live[0])

    async def rest(self) -> AsyncGenerator[list[Line], None]:
        """Everything behind the position, in handfuls."""
        last: Position | None = None
        if self.kept is not None and not self.previous:
            async for lines in self._kept(*self.kept):
                if self.live is not None and lines[-1].stream.uid == self.live[0].uid:
                    last = lines[-1].position
                yield lines
        if self.live is not None:
            pod, container = self.live
            stream = Stream(self.pods, pod, container.name, last or self._begin(pod, container))
            async with aclosing(stream.rest(pod, container, previous=self.previous)) as found:
                async for read in found:
                    if lines := self._lines(read):
                        yield lines

    async def last(self, lines: int) -> list[Line]:
        """The newest lines: the pod's own, or where it is gone those that were kept."""
        if self.live is not None:
            pod, container = self.live
            stream = Stream(self.pods, pod, container.name)
            return self._lines(await stream.last(pod, container, lines, previous=self.previous))
        found: list[Line] = []
        if self.kept is not None:
            chunks, folder = self.kept
            for number in sorted(folder.sizes, reverse=True):
                if len(found) >= lines:
                    break
                found = await asyncio.to_thread(_whole, chunks, folder, number) + found
        return self._lines(found[-lines:] if lines else [])

    def _begin(self, pod: Pod, container: Container) -> Position | None:
        known = self.positions.get(StreamKey(pod.name, container.name, pod.uid))
        if self.newest is not None and self.newest.uid == pod.uid and (known is None or self.newest.last > known):
            known = self.newest.last
        if known is None and self.since:
            return Position(max(container.restarts - 1, 0), self.since, -1)
        return known

    def _lines(self, read: Read) -> list[Line]:
        if isinstance(read, Missing):
            self.gaps.append(read.gap())
            return []
        return [line for line in read if line.position.at >= self.since] if self.since else read

    async def _kept(self, chunks: Chunks, folder: Folder) -> AsyncIterator[list[Line]]:
        before, unread = await asyncio.to_thread(self._unread, chunks, folder)
        losses = Losses(folder.pod, folder.container, self.counted, before, self.lost)
        for number in unread:
            told, lines = await asyncio.to_thread(chunks.opened, folder.pod, folder.container, number)
            losses.pass_chunk(told)
            while handful := await asyncio.to_thread(_next, lines):
                if fresh := [line for line in handful if not self._known(line.stream.uid, line.position)]:
                    yield fresh
        if self.live is None:
            losses.end()

    def _unread(self, chunks: Chunks, folder: Folder) -> tuple[Told | None, list[int]]:
        """What the last chunk before the position says, and the chunks that have something behind it: they stand in
        order, so halving finds the first, and has looked at the one before."""
        numbers = sorted(folder.sizes)
        low, high = 0, len(numbers)
        before: Told | None = None
        while low < high:
            middle = (low + high) // 2
            told = chunks.told(folder.pod, folder.container, numbers[middle])
            if told is None or self._known(told.uid, told.last):
                low, before = middle + 1, told
            else:
                high = middle
        return before, numbers[low:]

    def _known(self, uid: str, position: Position) -> bool:
        """Whether it was read, or is older than what is wanted."""
        if position.at < self.since:
            return True
        pod, container = self.name
        own = self.positions.get(StreamKey(pod, container, uid))
        if own is not None:
            return position <= own
        # An earlier pod of the same name: who has read something newer has left it behind.
        return any(
            stream.pod == pod and stream.container == container and position.at < known.at
            for stream, known in self.positions.items()
        )


def _whole(chunks: Chunks, folder: Folder, number: int) -> list[Line]:
    return list(chunks.lines(folder.pod, folder.container, number))


def _next(lines: Iterator[Line]) -> list[Line]:
    return list(islice(lines, HANDFUL))


async def merged(parts: list[Part]) -> AsyncGenerator[Line, None]:
    """All lines in the order of their times; at the same time, by rank. Of each log a handful is in memory."""
    opening = asyncio.Semaphore(AT_ONCE)
    readers = [part.rest() for part in parts]

    async def more(number: int) -> list[Line]:
        async with opening:
            return await anext(readers[number], [])

    try:
        handfuls = list(await asyncio.gather(*(more(number) for number in range(len(parts)))))
        heads = [(lines[0].position.at, parts[n].rank, n, 0) for n, lines in enumerate(handfuls) if lines]
        heapq.heapify(heads)
        while heads:
            _, rank, number, index = heads[0]
            yield handfuls[number][index]
            index += 1
            if index == len(handfuls[number]):
                handfuls[number], index = await more(number), 0
            if handfuls[number]:
                heapq.heapreplace(heads, (handfuls[number][index].position.at, rank, number, index))
            else:
                heapq.heappop(heads)
    finally:
        for reader in readers:
            await reader.aclose()
