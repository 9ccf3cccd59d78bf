"""Lists as long as agents can read them: clients cut answers beyond about 25,000 characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field

MOST = 20_000
"""Characters of a list in one answer."""

Entry = TypeVar("Entry", bound=BaseModel)

LeftOut = Annotated[int, Field(description="How many more there are than this answer holds: narrow it down.")]


def that_fit(entries: Sequence[Entry]) -> tuple[list[Entry], int]:
    """The first ``entries`` that one answer holds, and how many are left out."""
    shown, room = list[Entry](), MOST
    for each in entries:
        room -= len(each.model_dump_json())
        if room < 0:
            break
        shown.append(each)
    return shown, len(entries) - len(shown)


def cut(text: str, most: int) -> str:
    """The beginning of ``text``, where it has more than ``most`` characters."""
    return text if len(text) <= most else f"{text[:most]}…"
