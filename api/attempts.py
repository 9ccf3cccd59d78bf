"""How often who failed to say who they are: so that guessing is slow, and nobody fills the audit trail with it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

WINDOW_SECONDS = 60.0
MOST = 100
"""Failures of one address within a window that are answered, and listed, one by one."""
_MOST_ADDRESSES = 10_000


class Verdict(StrEnum):
    """What comes of a failure."""

    LISTED = "listed"
    LAST_LISTED = "last listed"
    """The last for now: the trail says that more are left out."""
    TOO_MANY = "too many"


@dataclass
class _Window:
    began: float
    failures: int = 0


class Attempts:
    """Failures by the address that they came from. Who shows something valid is never held up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def failed(self, address: str) -> tuple[Verdict, float]:
        """Note a failure; what comes of it, and in how many seconds the address begins anew."""
        now = self._clock()
        window = self._windows.get(address)
        if window is None or now - window.began >= WINDOW_SECONDS:
            self._windows.pop(address, None)
            window = self._windows[address] = _Window(now)
            while len(self._windows) > _MOST_ADDRESSES:
                self._windows.popitem(last=False)
        window.failures += 1
        left = WINDOW_SECONDS - (now - window.began)
        if window.failures < MOST:
            return Verdict.LISTED, left
        return (Verdict.LAST_LISTED if window.failures == MOST else Verdict.TOO_MANY), left
