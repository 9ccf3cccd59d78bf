"""What containers print, kept in memory per pod.

A log is bounded as a kubelet's is: its oldest lines go. Positions count all lines that were ever written to it, so that
a reader that follows is not misled by what went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

Line = tuple[float, str]
KEEP_LINES = 20_000
_APART = 2e-6
"""Two microseconds, in seconds: a time of today is known to a quarter of one, and written to one."""


class Log:
    """The lines of one run of a container, each with its time; no two have the same."""

    def __init__(self, lines: Iterable[Line] = (), first: int = 0) -> None:
        self._lines: list[Line] = list(lines)
        self.first = first
        """The position of the oldest line that is kept."""

    @property
    def end(self) -> int:
        """The position of the next line."""
        return self.first + len(self._lines)

    def add(self, lines: Iterable[Line]) -> None:
        last = self._lines[-1][0] if self._lines else 0.0
        for at, text in lines:
            last = at if at >= last + _APART else last + _APART
            self._lines.append((last, text))
        # Not with each line: to take something from the front costs as much as all that is left.
        if len(self._lines) > KEEP_LINES + KEEP_LINES // 4:
            excess = len(self._lines) - KEEP_LINES
            del self._lines[:excess]
            self.first += excess

    def since(self, position: int) -> list[Line]:
        """What is kept from a position on."""
        return list(islice(self._lines, max(position - self.first, 0), None))

    def dump(self) -> tuple[int, list[Line]]:
        return self.first, list(self._lines)


class PodLogs:
    """Logs by pod uid and container. Callers hold the store's lock."""

    def __init__(self) -> None:
        self._logs: dict[str, dict[str, Log]] = {}
        self._previous: dict[str, dict[str, Log]] = {}
        self._followers: dict[str, list[Callable[[], None]]] = {}

    def log(self, uid: str, container: str) -> Log:
        """The log of a container's present run, which may be empty."""
        return self._logs.setdefault(uid, {}).setdefault(container, Log())

    def lines(self, uid: str, container: str) -> list[Line]:
        held = self._logs.get(uid, {}).get(container)
        return held.since(0) if held is not None else []

    def previous(self, uid: str, container: str) -> Log | None:
        """What a container printed before its last start; None if that was its first."""
        return self._previous.get(uid, {}).get(container)

    def restart(self, uid: str, container: str) -> None:
        """The container starts again: its log begins anew."""
        self._previous.setdefault(uid, {})[container] = self.log(uid, container)
        self._logs[uid][container] = Log()
        self._notify(uid)

    def write(self, uid: str, container: str, at: float, *texts: str) -> None:
        self.extend(uid, container, ((at, text) for text in texts))
        self._notify(uid)

    def extend(self, uid: str, container: str, lines: Iterable[Line]) -> None:
        """Add lines in order of time, without waking those who follow: the one who reads has asked for them."""
        self.log(uid, container).add(lines)

    def _notify(self, uid: str) -> None:
        for notify in tuple(self._followers.get(uid, ())):
            notify()

    def forget(self, uid: str) -> None:
        self._logs.pop(uid, None)
        self._previous.pop(uid, None)

    def follow(self, uid: str, notify: Callable[[], None]) -> None:
        self._followers.setdefault(uid, []).append(notify)

    def unfollow(self, uid: str, notify: Callable[[], None]) -> None:
        followers = self._followers.get(uid, [])
        if notify in followers:
            followers.remove(notify)
        if not followers:
            self._followers.pop(uid, None)

    def dump(self) -> Any:
        return {
            which: {uid: {name: log.dump() for name, log in held.items()} for uid, held in logs.items()}
            for which, logs in (("logs", self._logs), ("previous", self._previous))
        }

    def load(self, dumped: Any) -> None:
        self._logs, self._previous = (
            {
                uid: {name: Log(((at, text) for at, text in lines), first) for name, (first, lines) in held.items()}
                for uid, held in dumped[which].items()
            }
            for which in ("logs", "previous")
        )


def stamp(at: float) -> str:
    """The time of a line as a container runtime writes it: RFC 3339 with nine digits behind the point."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
