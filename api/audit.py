"""The audit trail: one JSON line for each request that changes something, each decision, and each denial.

Lines go to ``audit-<offset>.jsonl``; the offset is the number of bytes in all files before. So a position in the trail
is one number, which stays valid when a file is full and the next begins.
"""

from __future__ import annotations

import os
from pathlib import Path

from contracts.access import AuditEntry

_BLOCK = 64 * 1024


class AuditLog:
    """An append-only trail in ``folder``; the oldest of more than ``keep`` files of about ``file_bytes`` is deleted."""

    def __init__(self, folder: Path, file_bytes: int, keep: int) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._keep = keep

    def append(self, entry: AuditEntry) -> None:
        """Write an entry. Raises OSError when it cannot be written."""
        line = entry.model_dump_json().encode() + b"\n"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One write to a file opened for appending is not interleaved with another process's.
        descriptor = os.open(self._current(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def newest(self, limit: int, before: int | None = None) -> tuple[list[AuditEntry], int | None]:
        """Up to ``limit`` entries that end before the position ``before``, the newest first, and where to go on;
        None where nothing older is left."""
        lines: list[bytes] = []
        position = before
        for base, path in reversed(self._files()):
            size = path.stat().st_size
            end = size if position is None else min(position - base, size)
            if end <= 0:
                continue
            found, start = _last_lines(path, end, limit - len(lines))
            lines += found
            position = base + start
            if len(lines) == limit:
                break
        files = self._files()
        more = bool(lines) and position is not None and bool(files) and position > files[0][0]
        return [AuditEntry.model_validate_json(line) for line in lines], position if more else None

    def _files(self) -> list[tuple[int, Path]]:
        return sorted((int(path.stem.removeprefix("audit-")), path) for path in self._folder.glob("audit-*.jsonl"))

    def _current(self) -> Path:
        files = self._files()
        if not files:
            return self._path(0)
        base, path = files[-1]
        size = path.stat().st_size
        if size < self._file_bytes:
            return path
        for _, old in files[: max(0, len(files) + 1 - self._keep)]:
            old.unlink(missing_ok=True)
        return self._path(base + size)

    def _path(self, base: int) -> Path:
        return self._folder / f"audit-{base:015d}.jsonl"


def _last_lines(path: Path, end: int, limit: int) -> tuple[list[bytes], int]:
    """The last ``limit`` lines before ``end``, the last first, and where the first of them begins."""
    start, data = end, b""
    with path.open("rb") as stream:
        while start > 0 and data.count(b"\n") <= limit:
            step = min(_BLOCK, start)
            start -= step
            stream.seek(start)
            data = stream.read(step) + data
    lines = data.splitlines(keepends=True)
    taken = lines[-limit:] if len(lines) > limit else lines
    return list(reversed(taken)), end - sum(map(len, taken))
