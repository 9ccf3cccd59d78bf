"""Lists as long as agents can read them: clients cut answers beyond about 25,000 characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field

MOST = 20_000
"""Characters of a list in one answer."""

Entry = TypeVar("Entry", bound=BaseModel)

LeftOut = Annotated[int, Field(description="How many more there are than this answer holds: narrow it down.")]


def that_fit(entries: Sequence[Entry], room: int = MOST) -> tuple[list[Entry], int]:
    """The first ``entries`` that ``room`` characters of an answer hold, and how many are left out."""
    shown = list[Entry]()
    for each in entries:
        room -= len(each.model_dump_json())
        if room < 0:
            break
        shown.append(each)
    return shown, len(entries) - len(shown)


def fitted(texts: Sequence[str], room: int) -> tuple[list[str], int]:
    """All ``texts``, the longest of them cut until they have ``room`` characters together; and how many were cut. Each
    keeps as much as an equal part of the room."""
    longest, left = room, room
    for position, length in enumerate(sorted(map(len, texts))):
        if length * (len(texts) - position) > left:
            longest = left // (len(texts) - position)
            break
        left -= length
    return [cut(each, longest) for each in texts], sum(len(each) > longest for each in texts)


def cut(text: str, most: int) -> str:
    """The beginning of ``text``, where it has more than ``most`` characters."""
    return text if len(text) <= most else f"{text[:most]}…"
