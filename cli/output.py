"""Data on stdout: as a table, JSON or YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

Render = Callable[[Any], Iterable[str]]


def emit(format: str, data: Any, table: Render) -> None:
    """Print ``data``; ``table`` turns it into lines for people."""
    if format == "json":
        text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    elif format == "yaml":
        import yaml

        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True).rstrip("\n")
    else:
        text = "\n".join(table(data))
    if text:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def columns(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Rows under headers, aligned; the last column is as wide as it needs to be."""
    table = [tuple(headers), *(tuple("-" if cell in (None, "") else str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headers))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def pairs(items: Iterable[tuple[str, Any]]) -> list[str]:
    """Labelled values, one a line; those without a value are left out."""
    shown = [(label, str(value)) for label, value in items if value not in (None, "", [])]
    width = max((len(label) for label, _ in shown), default=0)
    return [f"{label.ljust(width)}  {value}" for label, value in shown]


def age(moment: str | None, now: datetime | None = None) -> str:
    """How long ago an ISO time was, in its largest unit or two: ``40s``, ``12m``, ``3h05m``, ``2d``."""
    if not moment:
        return "-"
    return duration(((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds())


def duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d"


def size(count: int) -> str:
    """A number of bytes in the largest unit that it fills: ``512 B``, ``1.5 GiB``."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def harmless(text: str) -> str:
    """``text`` with its lines and tabs; whatever else a terminal would act on is written as an escape."""
    return "".join(each if each in "\n\t" else plain(each) for each in text)


def plain(text: str) -> str:
    """``text`` in one line; what a terminal would act on or not show is written as an escape."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
