"""What was done to the sandbox: every mutating call, with what it asked for and what came of it.

Tests read it to prove that each effect happened once, even where a response was lost. Reads are only counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

SECRET_WORDS = ("password", "secret", "token", "privatekey", "credential", "accesskey")
NOT_SECRET = frozenset({"clienttoken", "clientrequesttoken", "nexttoken", "clientrequesttokens"})
MAX_TEXT = 2000
KEEP = 20_000
"""Older entries fall out, so that a sandbox that runs for weeks does not grow without end."""


@dataclass
class Entry:
    """A mutating call. ``effect`` is false if it was refused, lost before it arrived, or only a dry run."""

    number: int
    api: str
    service: str
    operation: str
    region: str
    parameters: Any
    resource: str
    time: float
    """Sandbox time, seconds since the epoch."""
    request_id: str
    user_agent: str
    status: int
    effect: bool
    response_lost: bool = False
    error: str = ""


def redact(value: Any, key: str = "") -> Any:
    """``value`` without secrets and without bulk: safe to keep, small enough to read."""
    name = key.lower()
    if isinstance(value, dict):
        return {k: redact(v, str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact(v) for v in value]
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    if isinstance(value, str):
        if name not in NOT_SECRET and any(w in name for w in SECRET_WORDS) and not name.endswith(("arn", "name")):
            return "<secret>"
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}… ({len(value)} characters)"
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)


@dataclass
class Ledger:
    """All entries in order, and how often each read was made."""

    entries: list[Entry] = field(default_factory=list)
    reads: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _next: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def record(
        self,
        *,
        api: str,
        service: str,
        operation: str,
        parameters: Any,
        resource: str,
        time: float,
        request_id: str,
        status: int,
        effect: bool,
        region: str = "",
        user_agent: str = "",
        response_lost: bool = False,
        error: str = "",
    ) -> Entry:
        """Add a mutating call."""
        safe = redact(parameters)
        with self._lock:
            entry = Entry(
                self._next,
                api,
                service,
                operation,
                region,
                safe,
                resource,
                time,
                request_id,
                user_agent,
                status,
                effect,
                response_lost,
                error,
            )
            self._next += 1
            self.entries.append(entry)
            if len(self.entries) > KEEP:
                del self.entries[: KEEP // 10]
            return entry

    def count_read(self, api: str, service: str, operation: str) -> None:
        with self._lock:
            self.reads[(api, service, operation)] += 1

    def query(
        self,
        service: str | None = None,
        operation: str | None = None,
        since: int | None = None,
        effects_only: bool = False,
        api: str | None = None,
    ) -> list[dict[str, Any]]:
        """Entries as JSON; ``since`` is the number of the last entry that the caller knows."""
        with self._lock:
            return [
                dict(vars(e))
                for e in self.entries
                if (service is None or e.service == service)
                and (operation is None or e.operation == operation)
                and (api is None or e.api == api)
                and (since is None or e.number > since)
                and (e.effect or not effects_only)
            ]

    def read_counts(self) -> list[dict[str, Any]]:
        with self._lock:
            return [{"api": a, "service": s, "operation": o, "count": n} for (a, s, o), n in sorted(self.reads.items())]

    def clear(self) -> None:
        with self._lock:
            self.entries, self.reads = [], Counter()

    def dump(self) -> dict[str, Any]:
        with self._lock:
            return {
                "next": self._next,
                "entries": [dict(vars(e)) for e in self.entries],
                "reads": [[*k, n] for k, n in self.reads.items()],
            }

    def load(self, dumped: dict[str, Any]) -> None:
        with self._lock:
            self._next = dumped["next"]
            self.entries = [Entry(**e) for e in dumped["entries"]]
            self.reads = Counter({(a, s, o): n for a, s, o, n in dumped["reads"]})
