"""The supervisor: starts services in order, keeps them running, and ends them in the opposite order.

One thread: it sleeps until a signal comes (a child's end is one), a probe is due or a restart is.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.stack.child import Child, Service

PROBE_INTERVAL = 0.1
STEADY = 30.0
"""Seconds after which a run no longer counts as a quick death."""
QUICK_DEATHS = 5
"""In a row, after which a service is given up."""
BACKOFF = (0.5, 1.0, 2.0, 5.0)

Say = Callable[[str], None]


class StackError(Exception):
    """The stack cannot run; the message is for people."""


class Stopped(Exception):
    """A signal, or the end of a watched stream, asked to stop."""


class Signals:
    """SIGINT, SIGTERM, SIGHUP and SIGCHLD as something to sleep on; ``tied`` is a stream whose end means: stop."""

    def __init__(self, tied: int | None = None) -> None:
        self.stopping = False
        self._tied = tied
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals inside the block."""
        stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        previous = {number: signal.signal(number, self._stop) for number in stops}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        old = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: object) -> None:
        self.stopping = True

    def sleep(self, seconds: float | None) -> None:
        """Until a signal comes or ``seconds`` have passed. Raises Stopped when asked to stop."""
        watched = [self._read] if self._tied is None else [self._read, self._tied]
        if not self.stopping:
            ready, _, _ = select.select(watched, [], [], seconds)
            if self._read in ready:
                os.read(self._read, 4096)
            if self._tied in ready and self._tied is not None and not os.read(self._tied, 4096):
                self.stopping = True
        if self.stopping:
            raise Stopped


@dataclass
class _Slot:
    """A service, its present run, and how its last runs went."""

    service: Service
    child: Child | None = None
    quick_deaths: int = 0
    restart_at: float = 0.0
    probing: bool = False


class Supervisor:
    """Runs ``services``; ``say`` tells people what happens."""

    def __init__(
        self,
        services: Sequence[Service],
        logs: Path,
        say: Say,
        signals: Signals,
        backoff: Sequence[float] = BACKOFF,
    ) -> None:
        self._slots = [_Slot(service) for service in services]
        self._logs, self._say, self._signals, self._backoff = logs, say, signals, backoff

    def start(self) -> None:
        """Start every service, each when the one before it works. Raises StackError, or Stopped."""
        for slot in self._slots:
            self._say(f"starting {slot.service.name}")
            slot.child = self._spawn(slot.service)
            deadline = time.monotonic() + slot.service.start_limit
            while not self._works(slot.service):
                for other in self._slots:
                    if other.child is not None and other.child.exit_code() is not None:
                        raise StackError(f"{other.service.name} {_obituary(other.child)}")
                if time.monotonic() > deadline:
                    raise StackError(
                        f"{slot.service.name} does not answer after {slot.service.start_limit:.0f} s\n"
                        f"{_indent(slot.child.tail())}\nlog: {slot.child.log}"
                    )
                self._signals.sleep(PROBE_INTERVAL)

    def run(self) -> None:
        """Keep the services running until Stopped is raised. Raises StackError when one keeps dying."""
        while True:
            now = time.monotonic()
            pause: float | None = None
            for slot in self._slots:
                if (due := self._tend(slot, now)) is not None:
                    pause = due if pause is None else min(pause, due)
            self._signals.sleep(pause)

    def stop(self) -> None:
        """End every service, the last started first. A second signal does not hurry it: each has its time."""
        for slot in reversed(self._slots):
            if slot.child is not None:
                if not slot.child.stop():
                    self._say(f"{slot.service.name} did not stop in {slot.service.grace:.0f} s and was killed")
                slot.child = None

    def _tend(self, slot: _Slot, now: float) -> float | None:
        """Look after one service; seconds until it needs that again, None: when something happens."""
        child, name = slot.child, slot.service.name
        if child is not None and child.exit_code() is not None:
            slot.child = None
            child.kill_group()
            slot.quick_deaths = slot.quick_deaths + 1 if now - child.started_at < STEADY else 1
            if slot.quick_deaths >= QUICK_DEATHS:
                raise StackError(f"{name} has died {slot.quick_deaths} times in a row; it {_obituary(child)}")
            delay = self._backoff[min(slot.quick_deaths, len(self._backoff)) - 1]
            slot.restart_at = now + delay
            self._say(f"{name} {child.ended_how()}; starting it again in {delay:g} s (log: {child.log})")
        if slot.child is None:
            if now < slot.restart_at:
                return slot.restart_at - now
            slot.child = self._spawn(slot.service)
            slot.probing = True
        if slot.probing:
            if not self._works(slot.service):
                return PROBE_INTERVAL
            slot.probing = False
            self._say(f"{name} works again")
        return None

    def _spawn(self, service: Service) -> Child:
        try:
            return Child(service, self._logs)
        except OSError as error:
            raise StackError(f"{service.name} cannot be started: {error}") from error

    @staticmethod
    def _works(service: Service) -> bool:
        try:
            return service.ready()
        except OSError:
            return False


def _obituary(child: Child) -> str:
    return f"{child.ended_how()}\n{_indent(child.tail())}\nlog: {child.log}"


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
