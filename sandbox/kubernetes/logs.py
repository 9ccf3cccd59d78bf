"""What containers print, kept in memory per pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Line = tuple[float, str]
KEEP_LINES = 10_000


class PodLogs:
    """Lines by pod uid and container. Callers hold the store's lock."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, list[Line]]] = {}
        self._previous: dict[str, dict[str, list[Line]]] = {}
        self._followers: dict[str, list[Callable[[], None]]] = {}

    def lines(self, uid: str, container: str) -> list[Line]:
        return self._lines.get(uid, {}).get(container, [])

    def previous(self, uid: str, container: str) -> list[Line] | None:
        """What a container printed before its last start; None if that was its first."""
        return self._previous.get(uid, {}).get(container)

    def restart(self, uid: str, container: str) -> None:
        """The container starts again: its log begins anew."""
        self._previous.setdefault(uid, {})[container] = self._lines.setdefault(uid, {}).get(container, [])
        self._lines[uid][container] = []
        self._notify(uid)

    def write(self, uid: str, container: str, at: float, *texts: str) -> None:
        lines = self._lines.setdefault(uid, {}).setdefault(container, [])
        if len(lines) < KEEP_LINES:
            lines.extend((at, text) for text in texts)
        self._notify(uid)

    def _notify(self, uid: str) -> None:
        for notify in tuple(self._followers.get(uid, ())):
            notify()

    def forget(self, uid: str) -> None:
        self._lines.pop(uid, None)
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
        return {"lines": self._lines, "previous": self._previous}

    def load(self, dumped: Any) -> None:
        self._lines, self._previous = (
            {
                uid: {name: [(at, line) for at, line in lines] for name, lines in containers.items()}
                for uid, containers in dumped[which].items()
            }
            for which in ("lines", "previous")
        )
