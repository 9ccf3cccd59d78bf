"""Answers that are kept for a few seconds, so that many who ask the same cost one look-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Keeps what was found for ``seconds``. Of each key one look-up runs at a time, whoever asks; its failure is
    everybody's who waits for it, and is not kept."""

    def __init__(self, seconds: float, most: int = 64) -> None:
        self._seconds = seconds
        self._most = most
        self._running: dict[Key, asyncio.Task[Value]] = {}
        self._found: dict[Key, tuple[float, Value]] = {}
        """In the order in which they were found, with when that was."""

    async def get(self, key: Key, look_up: Callable[[], Awaitable[Value]]) -> Value:
        """What was found lately, else what ``look_up`` finds. Raises what it raises."""
        found = self._found.get(key)
        if found is not None and time.monotonic() - found[0] <= self._seconds:
            return found[1]
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._keep(key, look_up))
            # Looked at even where everybody who waited has left: a failure then concerns nobody.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        # Shielded: the caller who asked first may leave, and others wait for the same answer.
        return await asyncio.shield(task)

    async def _keep(self, key: Key, look_up: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await look_up()
        finally:
            del self._running[key]
        self._found.pop(key, None)
        self._found[key] = time.monotonic(), value
        while len(self._found) > self._most:
            del self._found[next(iter(self._found))]
        return value
