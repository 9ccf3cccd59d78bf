"""Words that people read, put together in one way everywhere."""

from __future__ import annotations

from collections.abc import Sequence


def some(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def number_of(number: int, noun: str, several: str | None = None) -> str:
    """``1 node``, ``3 nodes``; ``several`` where an ``s`` does not make the plural."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"
