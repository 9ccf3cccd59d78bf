"""The sandbox's clock: time that runs faster than the wall's, stops, jumps, and carries out what is due.

Everything slow in the sandbox (a control plane, a node, an add-on) is an *event*: a name and a JSON payload with a due
time. Events are data, not closures, so that a snapshot can hold them and a restarted sandbox carries them out.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

DEFAULT_SPEED = 30.0

log = logging.getLogger(__name__)

Handler = Callable[..., None]


@dataclass(order=True)
class Event:
    """Something that happens at a time of the sandbox: ``handler(**payload)``."""

    due: float
    order: int
    name: str = field(compare=False)
    payload: dict[str, Any] = field(compare=False)


class Clock:
    """Virtual time in seconds since the epoch, ``speed`` times as fast as the wall's.

    Handlers run one at a time, in order of their due times, in the thread that calls :meth:`run_due` (the clock's own
    thread after :meth:`start`). While a handler runs, :meth:`timestamp` in that thread is the event's own due time, so
    a jump of an hour gives the same sequence of events as an hour of waiting.
    """

    def __init__(self, speed: float = DEFAULT_SPEED, timestamp: float | None = None) -> None:
        self._speed = speed
        self._anchor_wall = time.monotonic()
        self._anchor = time.time() if timestamp is None else timestamp
        self._paused = False
        self._queue: list[Event] = []
        self._order = itertools.count()
        self._handlers: dict[str, Handler] = {}
        self._changed = threading.Condition()
        self._running = threading.RLock()
        self._at = threading.local()
        self._thread: threading.Thread | None = None
        self._stopping = False

    @property
    def speed(self) -> float:
        return self._speed

    @property
    def paused(self) -> bool:
        return self._paused

    def timestamp(self) -> float:
        """Seconds since the epoch, in sandbox time."""
        at: float | None = getattr(self._at, "due", None)
        return self._timestamp() if at is None else at

    def now(self) -> datetime:
        """The sandbox's time, in UTC."""
        return datetime.fromtimestamp(self.timestamp(), UTC)

    def on(self, name: str, handler: Handler) -> None:
        """Say what happens when an event called ``name`` is due."""
        self._handlers[name] = handler

    def schedule(self, seconds: float, name: str, /, **payload: Any) -> None:
        """Let ``name`` happen in so many sandbox seconds. The payload must survive JSON."""
        with self._changed:
            heapq.heappush(self._queue, Event(self.timestamp() + seconds, next(self._order), name, payload))
            self._changed.notify_all()

    def run_due(self, patience: float | None = None) -> None:
        """Carry out, in order, everything that is due now. A failing handler is logged and does not stop the others.

        With ``patience`` (real seconds) what takes longer is left to the clock's own thread.
        """
        if not self._running.acquire(timeout=-1 if patience is None else patience):
            return
        until = None if patience is None else time.monotonic() + patience
        try:
            while (until is None or time.monotonic() < until) and (event := self._pop_due()):
                self._at.due = event.due
                try:
                    self._handlers[event.name](**event.payload)
                except Exception:
                    log.exception("sandbox event %s%r failed", event.name, event.payload)
                finally:
                    self._at.due = None
        finally:
            self._running.release()

    def advance(self, seconds: float) -> None:
        """Jump forward and carry out what became due on the way."""
        with self._changed:
            self._anchor += seconds
            self._changed.notify_all()
        self.run_due()

    @property
    def still(self) -> AbstractContextManager[object]:
        """A lock: while it is held, no event is carried out. What is dumped under it is of one moment."""
        return self._running

    @property
    def pending(self) -> int:
        """How many events are still to come."""
        return len(self._queue)

    def cancel_all(self) -> None:
        """Forget every event that is still to come."""
        with self._changed:
            self._queue.clear()

    def set_speed(self, speed: float) -> None:
        """Change how many sandbox seconds pass in a second. ``speed`` must be above zero."""
        if speed <= 0:
            raise ValueError(f"speed must be above 0, not {speed}: use pause() to stop the clock")
        with self._changed:
            self._anchor, self._anchor_wall, self._speed = self._timestamp(), time.monotonic(), speed
            self._changed.notify_all()

    def pause(self) -> None:
        with self._changed:
            self._anchor, self._anchor_wall, self._paused = self._timestamp(), time.monotonic(), True
            self._changed.notify_all()

    def resume(self) -> None:
        with self._changed:
            self._anchor_wall, self._paused = time.monotonic(), False
            self._changed.notify_all()

    def start(self) -> None:
        """Run events in a thread of the clock's own, as they become due."""
        self._thread = threading.Thread(target=self._loop, name="sandbox-clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def dump(self) -> dict[str, Any]:
        """The clock as JSON: its time and the events that are still to come."""
        with self._changed:
            events = [{"due": e.due, "name": e.name, "payload": e.payload} for e in sorted(self._queue)]
            return {"timestamp": self._timestamp(), "events": events}

    def load(self, dumped: dict[str, Any]) -> None:
        """Take up the time and the events of :meth:`dump`. Time stood still in between."""
        with self._changed:
            self._anchor, self._anchor_wall = dumped["timestamp"], time.monotonic()
            self._queue = [Event(e["due"], next(self._order), e["name"], e["payload"]) for e in dumped["events"]]
            heapq.heapify(self._queue)
            self._changed.notify_all()

    def _timestamp(self) -> float:
        if self._paused:
            return self._anchor
        return self._anchor + (time.monotonic() - self._anchor_wall) * self._speed

    def _pop_due(self) -> Event | None:
        with self._changed:
            if self._queue and self._queue[0].due <= self._timestamp():
                return heapq.heappop(self._queue)
            return None

    def _loop(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                wait = None
                if self._queue and not self._paused:
                    wait = max(0.0, (self._queue[0].due - self._timestamp()) / self._speed)
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                if self._stopping:
                    return
            self.run_due()
