"""Lines of logs: where one stands, what it says and how grave it is, and how many of them travel.

A line is known by its stream (a container of a pod) and its position in it: the container's restart, its time, and its
number among the lines of that time. Who reads a log anew gives every line the same position, so that reading goes on
behind a position without a line lost or doubled.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import NamedTuple

from contracts.model import Model
from contracts.secret_values import HUGGING_FACE_TOKEN

LONGEST_LINE = 32 * 1024
"""Characters of a line that are shown and kept; a longer one is cut, and says so."""
REDACTED = "[redacted]"
_SECOND = 1_000_000_000
_MOST = 2**53
_LATEST = 2**63 - 1
"""Nanoseconds since 1970 in the year 2262, the last that a kubelet's clock can tell."""


class Level(StrEnum):
    """How grave a line is, as far as its text tells."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Gravity(IntEnum):
    """Levels in their order; what tells none counts as ``info``."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


class Position(NamedTuple):
    """Where a line stands in its stream. Positions of one stream grow."""

    restart: int
    """How often the container had started before."""
    at: int
    """Nanoseconds since 1970."""
    number: int
    """Among the lines of the same time, from 0."""

    def __str__(self) -> str:
        return f"{self.restart}:{self.at}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises ValueError."""
        restart, at, number = text.split(":")
        return cls(int(restart), int(at), int(number))

    def checked(self) -> Position:
        """Itself. Raises ValueError where nothing can stand: what comes from outside may have any numbers."""
        if not (0 <= self.restart <= _MOST and 0 <= self.at <= _LATEST and -1 <= self.number <= _MOST):
            raise ValueError("no position")
        return self


def behind(position: Position, known: Position) -> bool:
    """Whether who has read up to ``known`` has read ``position`` too.

    A kubelet may give the log of a container that has just started again before the pod's status says so. Time, which
    goes on over restarts, tells then.
    """
    return position <= known or (position.restart > known.restart and position.at < known.at)


class StreamKey(NamedTuple):
    """One container of one pod; a pod that was made anew under its old name is another."""

    pod: str
    container: str
    uid: str


class Line(NamedTuple):
    """A line as it travels between worker and gateway."""

    stream: StreamKey
    position: Position
    text: str


class LogLine(Model):
    """A line of a log."""

    at: str
    """When the container's runtime got it, as RFC 3339 with all its decimals."""
    pod: str
    container: str
    rank: int | None = None
    """The pod's place among the pods of its run."""
    restart: int = 0
    """How often the container had started before."""
    level: Level | None = None
    """Null where the text does not tell."""
    text: str


class Positions(dict[StreamKey, Position]):
    """How far somebody has read each stream."""

    def passed(self, line: Line) -> bool:
        known = self.get(line.stream)
        return known is not None and behind(line.position, known)

    def advance(self, lines: Iterable[Line]) -> None:
        for line in lines:
            known = self.get(line.stream)
            if known is None or line.position > known:
                self[line.stream] = line.position

    def sealed(self) -> str:
        """As a text for a URL or an event's id. It tells names of pods and times, and nothing else."""
        rows = [[*stream, *position] for stream, position in sorted(self.items())]
        return base64.urlsafe_b64encode(zlib.compress(_json(rows), 6)).decode().rstrip("=")

    @classmethod
    def opened(cls, text: str) -> Positions:
        """Raises ValueError for a text that is no such thing."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            rows = json.loads(_inflate(raw, 1_000_000))
            return cls(
                (StreamKey(str(pod), str(container), str(uid)), Position(int(restart), int(at), int(number)).checked())
                for pod, container, uid, restart, at, number in rows
            )
        except (binascii.Error, zlib.error, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError("not a position in a log") from error


def pack(lines: Sequence[Line]) -> str:
    """Lines as one text for a heartbeat: compressed, a tenth of their size."""
    streams: dict[StreamKey, int] = {}
    rows = [[streams.setdefault(line.stream, len(streams)), *line.position, line.text] for line in lines]
    return base64.b64encode(zlib.compress(_json([list(streams), rows]), 3)).decode()


def unpack(text: str) -> list[Line]:
    names, rows = json.loads(zlib.decompress(base64.b64decode(text)))
    streams = [StreamKey(*name) for name in names]
    return [Line(streams[stream], Position(restart, at, number), said) for stream, restart, at, number, said in rows]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def _inflate(raw: bytes, maximum: int) -> bytes:
    """What comes from outside may be small and unfold without end."""
    unfolding = zlib.decompressobj()
    found = unfolding.decompress(raw, maximum)
    if unfolding.unconsumed_tail:
        raise ValueError("too long")
    return found


# Times

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$")


def nanoseconds(stamp: str) -> int | None:
    """A kubelet's RFC 3339 time of up to nine decimals; None where it is none."""
    found = _TIME.match(stamp)
    if found is None:
        return None
    day, clock, decimals, zone = found.groups()
    whole = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone == 'Z' else zone}")
    return int(whole.timestamp()) * _SECOND + int((decimals or "0").ljust(9, "0"))


def stamp(at: int) -> str:
    """Nanoseconds since 1970 as RFC 3339, with nine digits as kubelets write them: texts are in the order of times."""
    seconds, rest = divmod(at, _SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def since_text(at: int) -> str:
    """``sinceTime`` for the whole second before ``at``: the API server hands on whole seconds only, and the two outputs
    of a container may be written a little out of order. (kubernetes issue 92389)"""
    return stamp((max(at // _SECOND - 1, 0)) * _SECOND)


# Text

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What terminals act upon, and what turns the direction of text, so that a line shows what it does not say."""
_SECRETS = re.compile(
    HUGGING_FACE_TOKEN.pattern + r"|\bk8s-aws-v1\.[\w-]+"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|sk-[A-Za-z0-9_-]{20,})"
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"
    r"|(?i:(?<=bearer )[\w.~+/=-]{8,})"
    r"|(?i:(?<=x-amz-signature=)[0-9a-f]+|(?<=x-amz-security-token=)[\w%/+=-]+|(?<=x-amz-credential=)[\w%/+=-]+)"
    r"|(?<=://)[^\s/:@]{1,128}:[^\s/@]{1,256}(?=@)"
)
_NAMES = r"(?i:(?P<name>api[_-]?key|token|secret|password|passwd|passphrase|pwd|access[_-]?key|private[_-]?key))"
_VALUE = (
    r"(?!(?i:true|false|none|null|yes|no|on|off|[0-9]{1,6})\b)(?P<value>[^\s\"',;&|<>(){}\[\]/$][^\s\"',;&|<>(){}]{5,})"
)
_ASSIGNED = re.compile(_NAMES + r"[\"']?\s?[=:]\s?[\"']?" + _VALUE)
_OPTION = re.compile(
    r"(?<![\w-])--(?:[A-Za-z0-9_-]{0,40}[_-])?" + _NAMES + r"[\"']?(?:,\s?|\s{1,4})[\"']?(?!-)" + _VALUE
)
_VOCABULARY = re.compile(
    r"(?i:(?:^|[^a-z])(?:pad|eos|bos|unk|sep|cls|mask|stop|start|end|image|video|audio|fim|num|max|min|total|n)[_-]?)$"
)
"""What stands before ``token`` where a piece of text is meant, or a number of them."""
_NUMBER = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?$", re.IGNORECASE)
_PEM = re.compile(r"(?<=PRIVATE KEY-----).*?(?=-----END|$)")
_PEM_LINE = re.compile(
    r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{76}|[A-Za-z0-9+/]{20,76}={1,2})"
)
"""A line of a key's body as PEM files have it: nobody sees of one line alone what stands around it."""
_HINTS = (
    "token",
    "secret",
    "passw",
    "passphrase",
    "pwd",
    "key",
    "hf_",
    "bearer",
    "signature",
    "k8s-aws",
    "akia",
    "asia",
    "gh",
    "sk-",
)
_MORE_HINTS = ("eyj", "xox", "glpat", "x-amz", "@")


def never_shown(text: str) -> str | None:
    """The first character of ``text`` that no line has, as ``U+0000``: what is taken out of lines, and their ends."""
    found = _CONTROL.search(text.replace("\n", "\r"))
    return None if found is None else f"U+{ord(text[found.start()]):04X}"


def tidy(text: str, more: int = 0) -> str:
    """What a terminal would show of a line: of a progress bar its last state, without colours and control characters.
    What looks like a secret is taken out, and what is too long is cut. ``more``: what the line had beyond ``text``."""
    if "\r" in text:
        text = next((piece for piece in reversed(text.split("\r")) if piece.strip()), "")
    if not text.isprintable():
        text = _CONTROL.sub("", _ANSI.sub("", text)) if "\x1b" in text else _CONTROL.sub("", text)
    low = text.lower()
    if any(hint in low for hint in _HINTS) or any(hint in low for hint in _MORE_HINTS):
        text = redact(text)
    elif len(text) < 100 and _PEM_LINE.fullmatch(text.strip()):
        return REDACTED
    if more or len(text) > LONGEST_LINE:
        text = cut(text, max(len(text) - LONGEST_LINE, 0) + more)
    return text


def cut(text: str, more: int) -> str:
    """The beginning of a line that is too long. ``more``: what it has beyond the longest."""
    return f"{text[:LONGEST_LINE]} … [{more} more characters cut]"


def redact(text: str) -> str:
    """``text`` without what looks like a secret: known forms of tokens, keys in URLs and in PEM, and what is given to
    a name or an option that says it."""
    if _PEM_LINE.fullmatch(text.strip()):
        return REDACTED
    text = _PEM.sub(lambda found: REDACTED if found[0].strip() else found[0], _SECRETS.sub(REDACTED, text))
    return _OPTION.sub(_without_value, _ASSIGNED.sub(_without_value, text))


def _without_value(found: re.Match[str]) -> str:
    value = found["value"]
    if found["name"].lower() == "token":
        begin = found.start("name")
        if _NUMBER.match(value) or _VOCABULARY.search(found.string[max(0, begin - 12) : begin]):
            return found[0]
    at = found.start("value") - found.start()
    return found[0][:at] + REDACTED + found[0][at + len(value) :]


_LEVELS = re.compile(
    r"(?P<error>\b(?:ERROR|FATAL|CRITICAL|PANIC|error:|fatal:|panic:)|^E\d{4} |^Traceback |^\w*(?:Error|Exception)\b: "
    r"|\bNCCL (?:error|ERROR)|\bXid\b|\b(?:OutOfMemoryError|Segmentation fault|core dumped)\b"
    r"|\"level\": ?\"(?:error|fatal)\")"
    r"|(?P<warning>\b(?:WARN|WARNING|UserWarning|FutureWarning|DeprecationWarning|warning:)\b|^W\d{4} |NCCL WARN)"
    r"|(?P<debug>\b(?:DEBUG|TRACE)\b)"
    r"|(?P<info>\bINFO\b|^I\d{4} |\"level\": ?\"info\")"
)
_HEAD = 400
"""Characters of a line in which its level is looked for."""


def level_of(text: str) -> Level | None:
    """How grave a line says that it is: the first word for it near its beginning."""
    found = _LEVELS.search(text, 0, _HEAD)
    return None if found is None or found.lastgroup is None else Level(found.lastgroup)


def gravity(level: Level | None) -> Gravity:
    return Gravity.INFO if level is None else Gravity[level.name]
