"""What setup says of each part of a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Found(StrEnum):
    """How a part of a namespace is."""

    THERE = "there"
    MADE = "made"
    MISSING = "missing"
    """It was only looked for, or cannot be made from here."""
    DIFFERS = "differs"


@dataclass(frozen=True)
class Finding:
    """One part, and what a person does about it where it is not as it must be."""

    part: str
    found: Found
    detail: str = ""
    remedy: str = ""

    @property
    def good(self) -> bool:
        return self.found in (Found.THERE, Found.MADE)

    def __str__(self) -> str:
        words = f"{self.found.value:8}{self.part}" + (f": {self.detail}" if self.detail else "")
        return f"{words}\n        {self.remedy}" if self.remedy else words
