"""From a log's bytes to lines, each with its position."""

from __future__ import annotations

from collections.abc import AsyncIterator

from contracts.log_lines import LONGEST_LINE, Line, Position, StreamKey, nanoseconds, tidy

MOST_BYTES = 4 * LONGEST_LINE + 64
"""Of a line, before it is decoded: the rest is only counted."""


class Splitter:
    """Bytes in, whole lines out. A line without end takes no more memory than the longest that is kept."""

    def __init__(self) -> None:
        self._begun = bytearray()
        self._dropped = 0

    def feed(self, piece: bytes) -> list[tuple[bytes, int]]:
        """Each line that ``piece`` completes, with the number of bytes that it had beyond the longest."""
        found: list[tuple[bytes, int]] = []
        *whole, rest = piece.split(b"\n")
        for part in whole:
            self._add(part)
            found.append((bytes(self._begun), self._dropped))
            self._begun.clear()
            self._dropped = 0
        self._add(rest)
        return found

    def rest(self) -> list[tuple[bytes, int]]:
        """The last line, where no newline ended it."""
        return [(bytes(self._begun), self._dropped)] if self._begun else []

    def _add(self, part: bytes) -> None:
        room = MOST_BYTES - len(self._begun)
        self._begun += part[:room]
        self._dropped += max(0, len(part) - room)


class Numbering:
    """Gives the lines of one start of a container their positions, in the order of the log.

    Times never go back in it: the two outputs of a container are written side by side, and a line may carry a slightly
    older time than the one before it.
    """

    def __init__(self, stream: StreamKey, restart: int, first: Position | None = None) -> None:
        """``first``: the position that the first line has, where it is known."""
        self._stream, self._restart = stream, restart
        self._at, self._number = (first.at, first.number - 1) if first is not None else (0, -1)

    def line(self, raw: bytes, dropped: int = 0) -> Line:
        """What a line of the API's answer says. One without a time has that of the line before it."""
        head, _, text = raw.partition(b" ")
        at = nanoseconds(head.decode("ascii", errors="replace"))
        if at is None:
            at, text = self._at, raw
        if at > self._at:
            self._at, self._number = at, 0
        else:
            self._number += 1
        said = tidy(text.decode(errors="replace"), dropped)
        return Line(self._stream, Position(self._restart, self._at, self._number), said)


async def lines_of(
    pieces: AsyncIterator[bytes], numbering: Numbering, splitter: Splitter, *, whole: bool
) -> AsyncIterator[list[Line]]:
    """Lines as they come, in handfuls. ``whole``: what comes after the last newline is a line too; otherwise nobody
    knows whether more of it follows."""
    async for piece in pieces:
        if found := [numbering.line(*line) for line in splitter.feed(piece)]:
            yield found
    if whole and (found := [numbering.line(*line) for line in splitter.rest()]):
        yield found
