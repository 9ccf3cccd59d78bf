"""Watching logs: server-sent events from one feed for each log, however many watch it at this gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from sse_starlette import ServerSentEvent

from api.log_feed import MOST_PAGES, ROWS, Batch, Feed, Wanted, covers, events_of
from api.log_pages import ranks_of, read_page
from api.problems import ProblemError
from api.temporal import Temporal
from contracts.log_lines import Line, Positions, StreamKey
from contracts.logs import MOST_LINES, LogGap, LogSearch, LogSource, LogStream, PageTold, ReadLogs
from contracts.model import fingerprint

RETRY_MILLISECONDS = 1000
Event = ServerSentEvent | bytes


class LogHub:
    """All feeds of this gateway."""

    def __init__(self, temporal: Temporal) -> None:
        self.temporal = temporal
        self._feeds: dict[str, Feed] = {}
        self._closing = False

    @asynccontextmanager
    async def watch(self, source: LogSource, positions: Positions, fresh: bool) -> AsyncIterator[Feed]:
        """The feed of a log, together with everybody who watches it already; begun behind ``positions`` if nobody
        does. Those must come from a worker: all who watch share the feed, and see nothing from before them."""
        name = reader_id(source)
        feed = self._feeds.get(name)
        if feed is None or feed.closed:
            feed = Feed(self.temporal, name, source, Positions(positions), fresh)
            if self._closing:
                feed.closed = True
            else:
                self._feeds[name] = feed
                feed.start()
        feed.watchers += 1
        try:
            yield feed
        finally:
            feed.watchers -= 1
            if feed.watchers == 0:
                if self._feeds.get(name) is feed:
                    del self._feeds[name]
                await feed.close()

    def running(self, source: LogSource) -> Feed | None:
        """The feed of a log that somebody watches."""
        feed = self._feeds.get(reader_id(source))
        return None if feed is None or feed.closed else feed

    async def close(self) -> None:
        """End every stream: the gateway is about to stop, and whoever watches connects to another."""
        self._closing = True
        for feed in list(self._feeds.values()):
            await feed.close()


def reader_id(source: LogSource) -> str:
    """The workflow that reads a log: one, whichever gateways ask for it."""
    if source.selector:
        what = f"run/{'/'.join(sorted(source.selector.values()))}"
        if source.run or source.container:
            what += f"/{fingerprint(source)[:8]}"
    else:
        what = f"{source.pod}/{source.container or ''}"
    return f"log/{source.cluster}/{source.namespace}/{what}"


@dataclass
class Begun:
    """A watch after its first page: what that had, and how far it went."""

    positions: Positions
    lines: Sequence[Line]
    told: PageTold | None


async def begin(hub: LogHub, question: ReadLogs, resumed: Positions | None) -> Begun:
    """The newest lines (or those since a time), unless the watcher has seen some already. Raises ProblemError."""
    if resumed is not None:
        return Begun(resumed, [], None)
    feed = hub.running(question.source)
    whole = question.wanted.everything and not (question.source.selector and question.source.pod)
    if feed is not None and question.tail is not None and whole:
        # Others watch: what came last is here already.
        lines = feed.newest(question.tail)
        if lines is not None:
            position = feed.positions.sealed()
            told = PageTold(lines="", position=position, end=True, streams=feed.streams)
            return Begun(Positions(feed.positions), lines, told)
    lines, told = await read_page(hub.temporal, question)
    return Begun(Positions.opened(told.position), lines, told)


class Watch:
    """One watcher of one log."""

    def __init__(self, hub: LogHub, source: LogSource, wanted: LogSearch, pod: str | None, begun: Begun) -> None:
        self._hub, self._source, self._search = hub, source, wanted
        self._wanted = Wanted(wanted.matcher(), wanted.level, wanted.rank, pod)
        self._seen, self._begun = begun.positions, begun
        self._streams: list[LogStream] | None = None
        self._gap = 0

    async def events(self) -> AsyncIterator[Event]:
        """``lines``, ``pods`` and ``gap`` as they come; ``end`` or ``problem`` last. The id of an event is where to go
        on behind it."""
        yield ServerSentEvent(comment="watching", retry=RETRY_MILLISECONDS)
        if self._begun.told is not None:
            for event in self._page(self._begun.lines, self._begun.told):
                yield event
        fresh = self._begun.told is not None
        start = self._seen if fresh or self._hub.running(self._source) is not None else await self._newest()
        async with self._hub.watch(self._source, start, fresh) as feed:
            number = -1
            if fresh:
                self._pass_over_gone(feed)
            while True:
                # While that is read and sent, more may fall out of the feed.
                while number < feed.first and not covers(self._seen, feed.missing(joining=number < 0)):
                    async for event in self._catch_up(feed, joining=number < 0):
                        yield event
                if number < 0:
                    self._gap = feed.gaps[-1][0] + 1 if feed.gaps else 0
                number = max(number, feed.first)
                for event in self._news(feed):
                    yield event
                while number >= feed.first and (batch := feed.batch(number)) is not None:
                    for event in self._lines(batch):
                        yield event
                    number += 1
                if number < feed.first:
                    continue
                if feed.problem is not None:
                    yield ServerSentEvent(feed.problem.model_dump_json(exclude_none=True), event="problem")
                    return
                if feed.ended is not None:
                    yield self._end(feed)
                    return
                if feed.closed:  # the gateway stops: the watcher connects again
                    return
                if feed.batch(number) is None and not self._has_news(feed):
                    await feed.news()

    async def _newest(self) -> Positions:
        """Where the logs end now, for a feed that others may share: what a watcher says that it has seen is not to be
        relied on for them. Raises ProblemError where nobody reads."""
        try:
            _, told = await read_page(self._hub.temporal, ReadLogs(source=self._source, tail=0))
        except ProblemError as error:
            if error.body.status == 503:
                raise
            return Positions()  # the reader says what is wrong
        return Positions.opened(told.position)

    def _pass_over_gone(self, feed: Feed) -> None:
        """Pods that were gone when this watcher came have printed nothing since."""
        for each in feed.streams:
            key = StreamKey(each.pod, each.container, each.uid)
            if each.state == "gone" and key not in self._seen and key in feed.positions:
                self._seen[key] = feed.positions[key]

    def _has_news(self, feed: Feed) -> bool:
        return bool(feed.streams and feed.streams is not self._streams) or bool(
            feed.gaps and feed.gaps[-1][0] >= self._gap
        )

    def _news(self, feed: Feed) -> list[Event]:
        events: list[Event] = []
        if feed.streams is not self._streams and feed.streams:
            self._streams = feed.streams
            events.append(self._pods(feed.streams))
        for number, gap in feed.gaps:
            if number >= self._gap:
                self._gap = number + 1
                events.append(_gap(gap))
        return events

    def _lines(self, batch: Batch) -> list[Event]:
        if not (self._wanted.everything and batch.unseen(self._seen)):
            events = self._some(batch, self._wanted.numbers(batch, self._seen), self._seen)
            batch.pass_over(self._seen)
            return events
        events = []
        for event, positions in batch.whole:
            for stream, position in positions.items():
                if stream not in self._seen or self._seen[stream] < position:
                    self._seen[stream] = position
            events.append(_marked(event, self._seen))
        return events

    def _some(self, batch: Batch, numbers: list[int], seen: Positions, whole: Positions | None = None) -> list[Event]:
        """Events with some lines of a batch. The id of each is the place behind its own last line, that of the last
        the place behind the batch, or ``whole``."""
        positions = Positions(seen)
        events: list[Event] = []
        done = 0
        for place, event in enumerate(events_of([batch.rows[number] for number in numbers]), 1):
            end = numbers[place * ROWS - 1] + 1 if place * ROWS < len(numbers) else len(batch.lines)
            positions.advance(batch.lines[done:end])
            done = end
            events.append(_marked(event, whole if whole is not None and end == len(batch.lines) else positions))
        return events

    def _page(self, lines: Sequence[Line], told: PageTold) -> list[Event]:
        batch = Batch(0, lines, ranks_of(told.streams))
        self._streams = told.streams
        begun = Positions(self._seen)
        for stream, first in batch.firsts.items():
            begun[stream] = first._replace(number=first.number - 1)
        events: list[Event] = [self._pods(told.streams, begun), *(_gap(gap) for gap in told.gaps)]
        return events + self._some(batch, self._wanted.numbers(batch, Positions()), begun, self._seen)

    async def _catch_up(self, feed: Feed, *, joining: bool) -> AsyncIterator[Event]:
        """What the feed does not have (any more), read in pages; what cannot be read any more is told as a gap."""
        for _ in range(MOST_PAGES):
            question = ReadLogs(source=self._source, position=self._seen.sealed(), lines=MOST_LINES)
            try:
                lines, told = await read_page(self._hub.temporal, question)
            except ProblemError as error:
                if error.body.status == 503:
                    raise
                break
            batch = Batch(0, lines, ranks_of(told.streams))
            seen = Positions(self._seen)
            self._seen.update(Positions.opened(told.position))
            missing = feed.missing(joining=joining)
            for event in self._some(batch, self._wanted.numbers(batch, seen), seen, self._seen):
                yield event
            if covers(self._seen, missing):
                return  # of what this watcher saw fall out; the caller looks again
            if told.end:
                break
        gaps = []
        for stream, position in feed.missing(joining=joining).items():
            known = self._seen.get(stream)
            if known is None or known < position:
                self._seen[stream] = position
                if known is None and joining and self._begun.told is not None:
                    continue  # it was gone already when this watcher came
                why = "these lines cannot be read any more" if known is None else "more was written than can be sent"
                gaps.append(_gap(LogGap(pod=stream.pod, container=stream.container, why=why)))
        for gap in gaps:
            yield gap

    def _pods(self, streams: list[LogStream], positions: Positions | None = None) -> Event:
        rows = [each.model_dump(mode="json", exclude_none=True) for each in streams]
        sealed = (self._seen if positions is None else positions).sealed()
        return ServerSentEvent(json.dumps({"pods": rows}, separators=(",", ":")), event="pods", id=sealed)

    def _end(self, feed: Feed) -> Event:
        told = {"reason": feed.ended, "kept": self._source.kept is not None}
        return ServerSentEvent(json.dumps(told), event="end", id=self._seen.sealed())


def _marked(event: bytes, positions: Positions) -> Event:
    """An event of which the id is the place to go on from behind it."""
    return f"id: {positions.sealed()}\n".encode() + event


def _gap(gap: LogGap) -> Event:
    return ServerSentEvent(gap.model_dump_json(exclude_none=True), event="gap")


async def guarded_events(watch: Watch) -> AsyncIterator[Event]:
    """A watch whose reading may fail half-way: the stream ends then, and the watcher connects again."""
    with suppress(ProblemError):
        async for event in watch.events():
            yield event
