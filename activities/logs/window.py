"""The newest lines of a reader, as its heartbeat carries them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from contracts.log_lines import Line, Positions, pack, unpack
from contracts.logs import WINDOW_BYTES, LogGap, LogStream, WindowTold

PIECE_CHARACTERS = 256 * 1024
MOST_GAPS = 20


class Window:
    """Pieces of lines; the oldest fall out where all together are too large for a heartbeat."""

    def __init__(self, reader: str, positions: Positions) -> None:
        """``positions``: where reading begins."""
        self.positions = positions
        """How far lines were taken in."""
        self.fresh = 0
        """Bytes that came in since they were last told."""
        self._reader = reader
        self._before = Positions(positions)
        self._pieces: deque[str] = deque()
        self._first = 0
        self._bytes = 0
        self._gaps: deque[LogGap] = deque(maxlen=MOST_GAPS)

    @classmethod
    def resumed(cls, told: WindowTold) -> Window:
        """The window of an attempt before this one, to go on where it stopped."""
        window = cls(told.reader, Positions.opened(told.before) if told.before else Positions())
        window._first = told.first
        window._gaps.extend(told.gaps)
        for piece in told.pieces:
            window._append(piece, unpack(piece))
        window.fresh = 0
        return window

    def add(self, lines: Iterable[Line]) -> None:
        """Take lines in, in order."""
        piece: list[Line] = []
        size = 0
        for line in lines:
            piece.append(line)
            size += len(line.text) + 32
            if size > PIECE_CHARACTERS:
                self._add(piece)
                piece, size = [], 0
        if piece:
            self._add(piece)

    def miss(self, gap: LogGap) -> None:
        self._gaps.append(gap)

    def told(self, streams: list[LogStream], ended: str | None = None) -> WindowTold:
        self.fresh = 0
        return WindowTold(
            reader=self._reader,
            first=self._first,
            pieces=list(self._pieces),
            before=self._before.sealed(),
            streams=streams,
            gaps=list(self._gaps),
            ended=ended,
        )

    def _add(self, lines: list[Line]) -> None:
        packed = pack(lines)
        if len(packed) > WINDOW_BYTES and len(lines) > 1:
            # What does not compress: a piece is never larger than the window.
            half = len(lines) // 2
            self._add(lines[:half])
            self._add(lines[half:])
            return
        self._append(packed, lines)

    def _append(self, packed: str, lines: list[Line]) -> None:
        self.positions.advance(lines)
        self._pieces.append(packed)
        self._bytes += len(packed)
        self.fresh += len(packed)
        while self._bytes > WINDOW_BYTES and len(self._pieces) > 1:
            oldest = self._pieces.popleft()
            self._bytes -= len(oldest)
            self._first += 1
            self._before.advance(unpack(oldest))
