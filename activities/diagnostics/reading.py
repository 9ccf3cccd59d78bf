"""Sources that are read side by side, within one limit of time.

One that fails or is late is told, and the others count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from threading import Lock
from typing import TypeVar

from activities.context import Threads
from activities.errors import classify, clean
from contracts.diagnostics import Source, SourceRead, TimelineEntry

AT_ONCE = 8
LONGEST_PROBLEM = 300

T = TypeVar("T")


class Reading:
    """What is being read for one diagnosis. ``seconds``: for everything together."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._lock = Lock()
        self._pool = Threads(max_workers=AT_ONCE, thread_name_prefix="diagnosis")
        self._pending: dict[Future[None], tuple[Source, str]] = {}
        self._entries: list[TimelineEntry] = []
        self._read: list[SourceRead] = []
        self._ended = False

    def ask(self, source: Source, what: str, read: Callable[[], Iterable[TimelineEntry | None]]) -> None:
        """Begin to read entries; ``what`` says from where, in a few words."""

        def run() -> None:
            if time.monotonic() >= self._until:
                self._told(source, what, problem="there was no time left for it")
                return
            try:
                found = [entry for entry in read() if entry is not None]
            except Exception as error:
                self._told(source, what, problem=_why(error))
            else:
                self._told(source, what, found)

        self._pending[self._pool.submit(run)] = (source, what)

    def now(self, source: Source, what: str, read: Callable[[], T]) -> T | None:
        """Read at once what others rest on; None where it cannot be read, which is told."""
        try:
            return read()
        except Exception as error:
            self._told(source, what, problem=_why(error))
            return None

    def add(self, source: Source, what: str, found: Iterable[TimelineEntry | None]) -> None:
        """Entries of what was read already."""
        self._told(source, what, [entry for entry in found if entry is not None])

    def end(self) -> tuple[list[TimelineEntry], list[SourceRead]]:
        """Everything that was read in time. Threads that are late are left alone: their calls have limits."""
        _, late = wait(self._pending, timeout=max(self._until - time.monotonic(), 0))
        with self._lock:
            self._ended = True
            entries, read = list(self._entries), list(self._read)
        # What ended between the two looks has told of itself.
        told = {(each.source, each.what) for each in read}
        for future in late:
            source, what = self._pending[future]
            if (source, what) not in told:
                read.append(SourceRead(source=source, what=what, ok=False, problem="it did not answer in time"))
        self._pool.shutdown(wait=False, cancel_futures=True)
        return entries, sorted(read, key=lambda each: (each.source, each.what))

    def _told(
        self, source: Source, what: str, found: list[TimelineEntry] | None = None, problem: str | None = None
    ) -> None:
        with self._lock:
            if self._ended:
                return
            self._entries += found or []
            self._read.append(
                SourceRead(source=source, what=what, ok=problem is None, problem=problem, entries=len(found or ()))
            )


def _why(error: Exception) -> str:
    return clean(str(classify(error)), LONGEST_PROBLEM)
