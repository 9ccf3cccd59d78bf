"""Which AWS operations were called, by whom and on whose behalf: every call, reads too, as counts.

The ledger tells what each change asked for; this tells what a caller must be allowed to do.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from typing import Any

BEHALF = re.compile(r"(?:^|\s)op/([^\s/]+)")
"""The kind of operation in a user agent: ``op/create-cluster/demo``."""

Row = tuple[str, str, str, str, str]


class Calls:
    """Counts by service, operation, region, caller, and kind of operation."""

    def __init__(self) -> None:
        self._counts: Counter[Row] = Counter()
        self._lock = threading.Lock()

    def count(self, service: str, operation: str, region: str, caller: str, user_agent: str = "") -> None:
        """``caller``: the ARN of the role or user that signed."""
        found = BEHALF.search(user_agent)
        with self._lock:
            self._counts[(service, operation, region, caller, found[1] if found else "")] += 1

    def report(self, caller: str | None = None, kind: str | None = None) -> list[dict[str, Any]]:
        """Rows as JSON, only those of a caller or a kind if one is given."""
        names = ("service", "operation", "region", "caller", "kind")
        with self._lock:
            rows = sorted(self._counts.items())
        found = [dict(zip(names, row, strict=True)) | {"count": count} for row, count in rows]
        return [
            each
            for each in found
            if (caller is None or each["caller"] == caller) and (kind is None or each["kind"] == kind)
        ]

    def clear(self) -> None:
        with self._lock:
            self._counts.clear()

    def dump(self) -> bytes:
        with self._lock:
            return json.dumps([[*row, count] for row, count in self._counts.items()]).encode()

    def load(self, dumped: bytes) -> None:
        loaded = {tuple(row): count for *row, count in json.loads(dumped)}
        with self._lock:
            self._counts = Counter(loaded)
