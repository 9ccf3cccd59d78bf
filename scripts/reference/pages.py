"""What the pages of the reference have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MADE = "`make reference` writes this page from the code.\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; what would end a cell is escaped."""
    lines = [_line(head), _line(["---"] * len(head))]
    return "\n".join([*lines, *(_line([_cell(cell) for cell in row]) for row in rows)]) + "\n"


def paragraphs(text: str) -> str:
    """Text with each paragraph in a line of its own."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n")) + "\n"


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, in one line."""
    line = " ".join(text.split())
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")
