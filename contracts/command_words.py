"""The words of a command line, as a POSIX shell tells them apart.

(POSIX.1-2024, Shell Command Language, 2.2 Quoting and 2.3 Token Recognition)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

OPERATORS = "&|;<>()"
BLANK = " \t\n\r"
NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
AFTER_DOLLAR = NAME + "0123456789({@*#?$!-"


@dataclass
class Word:
    """A word, and what of the shell stands unquoted in it."""

    text: str = ""
    shell: list[str] = field(default_factory=list)
    operator: bool = False
    """It consists of operators alone: a shell would part commands here."""
    after_line_break: bool = False


class Unfinished(ValueError):
    """A quotation or an escape has no end."""


def words_of(text: str, parted: bool) -> Iterator[Word]:
    """Words of a text; ``parted``: operators part them, as for a shell. Raises :class:`Unfinished`."""
    position, length = 0, len(text)
    broken = False
    seen = False
    while position < length:
        if text[position] in BLANK:
            broken = broken or (text[position] == "\n" and seen)
            position += 1
        elif end := _continuation(text, position):
            position = end
        else:
            word, position = _operator(text, position, parted) or _word(text, position, parted)
            if parted and word.text.isdigit() and text[position : position + 1] in ("<", ">"):
                continue
            word.after_line_break = broken
            broken, seen = False, True
            yield word


def _operator(text: str, position: int, parted: bool) -> tuple[Word, int] | None:
    """A run of operators: one that stands by itself, unless operators part words."""
    end = position
    while end < len(text) and text[end] in OPERATORS:
        end += 1
    if end == position or (end < len(text) and text[end] not in BLANK and not parted):
        return None
    found = text[position:end]
    return Word(found, [found], operator=True), end


def _word(text: str, position: int, parted: bool) -> tuple[Word, int]:
    word, start = Word(), position
    while position < len(text) and text[position] not in BLANK:
        character = text[position]
        if parted and character in OPERATORS:
            break
        if character == "'":
            end = text.find("'", position + 1)
            if end < 0:
                raise Unfinished(f"the single quotation mark at character {position + 1} has no other")
            word.text += text[position + 1 : end]
            position = end + 1
        elif character == '"':
            position = _double(text, position, word)
        elif character == "\\":
            if end := _continuation(text, position):
                position = end
                continue
            if position + 1 >= len(text):
                raise Unfinished("the text ends with a backslash")
            word.text += text[position + 1]
            position += 2
        else:
            if special := _special(text, position, position == start):
                word.shell.append(special)
            word.text += character
            position += 1
    return word, position


def _double(text: str, position: int, word: Word) -> int:
    """Read what is in double quotes; returns where it goes on."""
    start = position
    position += 1
    while position < len(text):
        character = text[position]
        if character == '"':
            return position + 1
        if character == "\\" and position + 1 < len(text):
            if end := _continuation(text, position):
                position = end
                continue
            following = text[position + 1]
            word.text += following if following in '$`"\\' else character + following
            position += 2
            continue
        if character == "`" or (character == "$" and text[position + 1 : position + 2] in tuple(AFTER_DOLLAR)):
            word.shell.append(_special(text, position, False) or character)
        word.text += character
        position += 1
    raise Unfinished(f"the double quotation mark at character {start + 1} has no other")


def _continuation(text: str, position: int) -> int:
    """Where it goes on behind a backslash at the end of a line (Windows' ends too); 0 where there is none."""
    for end in ("\\\n", "\\\r\n"):
        if text.startswith(end, position):
            return position + len(end)
    return 0


def _special(text: str, position: int, first: bool) -> str | None:
    """What an unquoted character begins for a shell, as it is shown; None for a plain one."""
    character, following = text[position], text[position + 1 : position + 2]
    if character in OPERATORS or character in "*?[`":
        return character
    if character == "$" and following and following in AFTER_DOLLAR + "'\"":
        return "$(" if following == "(" else "$"
    if first and character in "#~":
        return character
    return None


def assigns(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals and name and name[0] in NAME and all(each in NAME + "0123456789" for each in name))
