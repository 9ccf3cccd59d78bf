"""Logs of containers: read in pages, followed live, and kept in the cluster's bucket after their pods are gone.

No text of a log enters the history of a workflow: it travels in the heartbeat details of a pending activity, which
Temporal overwrites with the next and forgets with the activity.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import Field, model_validator

from contracts.activity import Wait
from contracts.log_lines import Level, LogLine, Position, Positions, StreamKey, never_shown, stamp
from contracts.log_search import Matcher, violation
from contracts.model import Model, fault
from contracts.network import Scope

LONGEST_FOLLOW = timedelta(hours=1)
"""A reader that is still wanted then is begun anew, where it stopped."""
LONGEST_READ = timedelta(seconds=40)
MOST_LINES = 5000
"""On a page."""
MOST_STREAMS = 400
"""Containers whose logs are merged."""
WINDOW_BYTES = 192 * 1024
"""Of lines, compressed, in the heartbeat of a reader."""
PAGE_BYTES = 512 * 1024
"""Of lines, compressed, on a page."""


class OwnerRef(Model):
    """The object that pods work for. When it has finished or is gone, no more of them come."""

    api_version: str
    """``sagemaker.amazonaws.com/v1``"""
    plural: str
    """``hyperpodpytorchjobs``"""
    name: str


class KeepLogs(Model):
    """Follow every container of the pods that ``selector`` finds, and keep what they print."""

    scope: Scope
    eks_cluster: str
    namespace: str
    selector: dict[str, str] = Field(min_length=1)
    owner: OwnerRef
    prefix: str
    """Of keys in the bucket, without a slash at its end; the logs lie below ``<prefix>/logs/``."""
    bucket: str


class LogsKept(Model):
    """What was kept."""

    prefix: str
    pods: int = 0
    lines: int = 0
    size: int = 0
    """Bytes in the bucket, compressed."""
    gaps: int = 0
    """Places at which lines were gone before they could be read: a container that started twice meanwhile, a log that
    its node has rotated away, a pod that vanished while no worker ran."""


LOGS_FOLDER = "/logs/"
"""Behind the prefix of a place: what is kept of its logs."""


class KeptPlace(Model):
    """Where logs were kept."""

    bucket: str
    prefix: str
    """``training/<namespace>/<name>``: the folders of its runs lie below it."""


class LogSource(Model):
    """Whose logs: a pod's, or of all pods that a selector finds and what was kept of them."""

    cluster: str
    region: str
    eks_cluster: str
    namespace: str
    pod: str | None = None
    """Only this one."""
    selector: dict[str, str] = Field(default_factory=dict)
    """Empty: ``pod`` alone says which."""
    container: str | None = None
    """Null: a pod's main container; with a selector all of them."""
    owners: list[OwnerRef] = Field(default_factory=list)
    """One of these is what the pods work for. Empty: the pods of now are all."""
    run: str | None = None
    """The run of the operation that made an owner. Null: that of an owner that is there, else the newest of which
    something is kept."""
    kept: KeptPlace | None = None
    """Null: nothing is kept of these."""


class LogSearch(Model):
    """Which lines are wanted."""

    search: str | None = Field(None, min_length=1, max_length=500)
    """A text, or with ``regex`` an expression. The case of letters does not matter."""
    regex: bool = False
    level: Level | None = None
    """This grave or graver."""
    rank: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _searchable(self) -> LogSearch:
        if self.search is not None and (character := never_shown(self.search)) is not None:
            told = f"has the control character {character}, which no line has as it is read: search without it"
            raise fault("/search", told)
        if self.search is not None and self.regex and (why := violation(self.search)) is not None:
            raise fault("/search", why)
        return self

    @property
    def everything(self) -> bool:
        return self.search is None and self.level is None and self.rank is None

    def matcher(self) -> Matcher | None:
        """What finds the text in a line; null where none is looked for."""
        return None if self.search is None else Matcher(self.search, regex=self.regex)


class LogStream(Model):
    """A container whose log is read."""

    pod: str
    container: str
    uid: str
    rank: int | None = None
    state: str
    """``waiting``, ``running``, ``ended``, ``gone`` or ``kept``."""
    detail: str | None = None
    """What a waiting container waits for, or how one ended."""
    restarts: int = 0


class LogGap(Model):
    """Lines that were there and cannot be read any more."""

    pod: str
    container: str
    after: str | None = None
    """The time of the last line before it."""
    why: str

    @classmethod
    def behind(cls, stream: StreamKey, after: Position | None, why: str) -> LogGap:
        """Lines of ``stream`` behind ``after``; null: from its beginning on."""
        at = stamp(after.at) if after is not None else None
        return cls(pod=stream.pod, container=stream.container, after=at, why=why)


class ReadLogs(Model):
    """A page of logs."""

    source: LogSource
    position: str | None = None
    """Where the page before ended (:meth:`contracts.log_lines.Positions.sealed`)."""
    tail: int | None = Field(None, ge=0, le=MOST_LINES)
    """The newest lines instead of the first."""
    since: datetime | None = None
    previous: bool = False
    """Of the container's start before its last one."""
    wanted: LogSearch = LogSearch()
    lines: int = Field(1000, ge=1, le=MOST_LINES)


class LogsRead(Model):
    """What a reading came to; the lines themselves were told in its heartbeat."""

    lines: int = 0


class PageTold(Model):
    """A page, as the heartbeat of its activity."""

    lines: str
    """Packed (:func:`contracts.log_lines.pack`)."""
    position: str
    """Where to read on."""
    end: bool
    """Nothing more was there."""
    streams: list[LogStream] = Field(default_factory=list)
    gaps: list[LogGap] = Field(default_factory=list)


class LogPage(Model):
    """Lines in the order in which they were written."""

    lines: list[LogLine] = Field(default_factory=list)
    cursor: str
    """Give it as ``cursor`` to read on, or as ``Last-Event-ID`` to follow from here."""
    end: bool
    """False: there is more to read behind ``cursor`` now, also where this page has few lines or none."""
    streams: list[LogStream] = Field(default_factory=list)
    gaps: list[LogGap] = Field(default_factory=list)
    read_at: datetime


class FollowLogs(Model):
    """Read on behind ``position`` for as long as somebody watches."""

    source: LogSource
    position: str | None = None
    """Null: from now on."""


class LogsFollowed(Model):
    """Why a reader has ended."""

    reason: str
    """``left`` (nobody watches), ``ended`` (all containers have), ``gone`` (the pod is) or ``full`` (begin anew)."""


class WindowTold(Model):
    """The newest lines of a reader, as its heartbeat: pieces in order, of which the oldest fall out."""

    reader: str
    """Another attempt counts its pieces anew."""
    first: int
    """The number of the first piece that is still here."""
    pieces: list[str] = Field(default_factory=list)
    """Each packed (:func:`contracts.log_lines.pack`)."""
    before: str = ""
    """What has fallen out, or was not read: positions, sealed. Who has read that far misses nothing."""
    streams: list[LogStream] = Field(default_factory=list)
    gaps: list[LogGap] = Field(default_factory=list)
    """The latest, at most twenty."""
    ended: str | None = None
    """Why the reader is about to end; no more lines come."""


KEEP_LOGS = Wait("logs.keep", KeepLogs, LogsKept, limit=timedelta(days=30))
READ_LOGS = Wait("logs.read", ReadLogs, LogsRead, limit=LONGEST_READ)
FOLLOW_LOGS = Wait("logs.follow", FollowLogs, LogsFollowed, limit=LONGEST_FOLLOW)


class Watching(NamedTuple):
    """The workflow that reads for watchers, as the gateway calls it."""

    signal: str = "watch"
    seconds: float = 20.0
    """A watcher says so often that it is still there."""
    patience: float = 50.0
    """Without hearing of one for so long, the reader ends."""


WATCHING = Watching()


def position_of(text: str | None) -> Positions:
    """Nothing read, where there is none. Raises ValueError."""
    return Positions() if not text else Positions.opened(text)
