"""What is kept of one container's log, as it comes: lines are gathered, and written as chunks."""

from __future__ import annotations

import asyncio
import logging
import time

from activities.context import Threads, in_thread
from activities.errors import classify
from activities.logs.chunks import Chunks, Folder, Told
from activities.logs.pods import AGAIN_SECONDS
from activities.logs.streams import Missing, Read
from contracts.log_lines import Line, Position, StreamKey

log = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 1024 * 1024
"""Of lines, before they are compressed."""


class Writer:
    """Keeps one stream. What it has gathered and not written is read again by whoever goes on after a kill."""

    def __init__(self, chunks: Chunks, folder: Folder, stream: StreamKey, rank: int, threads: Threads) -> None:
        self._chunks, self._folder, self._threads = chunks, folder, threads
        self.stream, self.rank = stream, rank
        self.lines = self.size = self.gaps = 0
        """Kept, in all chunks of the stream."""
        self.position: Position | None = None
        """Of the last line that is kept."""
        self.ended = False
        self._gathered: list[Line] = []
        self._bytes = 0
        self._since = time.monotonic()
        self._lock = asyncio.Lock()

    async def resume(self) -> Position | None:
        """Where the stream is to be read on: behind what is kept already."""
        newest = self._folder.newest
        if newest and (told := await self._told(newest)) is not None and told.uid == self.stream.uid:
            self._take(told, newest)
        return self.position

    async def add(self, found: Read) -> None:
        """Gather. Raises what S3 refuses for good."""
        if isinstance(found, Missing):
            self.gaps += 1
            return
        for line in found:
            if self._gathered and line.position.restart != self._gathered[-1].position.restart:
                await self.flush()
            if not self._gathered:
                self._since = time.monotonic()
            self._gathered.append(line)
            self._bytes += len(line.text) + 32
            if self._bytes >= CHUNK_BYTES:
                await self.flush()

    @property
    def gathered(self) -> int:
        """Lines that are not written yet."""
        return len(self._gathered)

    @property
    def age(self) -> float:
        """Seconds since the oldest line came that is not written."""
        return time.monotonic() - self._since if self._gathered else 0.0

    async def flush(self) -> None:
        """Write what is gathered, however often it takes. Raises what S3 refuses for good."""
        async with self._lock:
            failures = 0
            while self._gathered:
                try:
                    await self._write()
                    failures = 0
                except Exception as error:
                    classified = classify(error, attempt=failures + 1)
                    if classified.non_retryable:
                        raise classified from None
                    log.info("%s/%s is not written yet: %s", self.stream.pod, self.stream.container, classified)
                    await asyncio.sleep(AGAIN_SECONDS[min(failures, len(AGAIN_SECONDS) - 1)])
                    failures += 1

    async def _write(self) -> None:
        lines = list(self._gathered)
        restart = lines[0].position.restart
        lines = lines[: next((n for n, line in enumerate(lines) if line.position.restart != restart), None)]
        number = self._folder.newest + 1
        told = Told(
            uid=self.stream.uid,
            rank=self.rank,
            first=lines[0].position,
            last=lines[-1].position,
            lines=self.lines + len(lines),
            size=self.size,
            gaps=self.gaps,
        )
        place = (self.stream.pod, self.stream.container, number)
        size = await in_thread(self._threads, self._chunks.write, *place, lines, told)
        if size is not None:
            self._folder.sizes[number] = size
            self.lines, self.size, self.position = told.lines, self.size + size, told.last
            self._drop(len(lines))
            return
        # This number is taken: by an earlier try whose answer was lost, or by another worker that goes on with this.
        theirs = await self._told(number)
        self._folder.sizes.setdefault(number, 0)
        if theirs is not None and theirs.uid == self.stream.uid:
            self._take(theirs, number)
            self._drop(sum(line.position <= theirs.last for line in self._gathered))

    def _take(self, told: Told, number: int) -> None:
        self.position, self.lines, self.gaps = told.last, told.lines, max(self.gaps, told.gaps)
        self.size = told.size + self._folder.sizes[number]

    def _drop(self, count: int) -> None:
        del self._gathered[:count]
        self._bytes = sum(len(line.text) + 32 for line in self._gathered)
        self._since = time.monotonic()

    async def _told(self, number: int) -> Told | None:
        return await in_thread(self._threads, self._chunks.told, self.stream.pod, self.stream.container, number)
