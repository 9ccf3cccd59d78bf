"""A watcher and a feed that is quicker than it: every line comes once, whatever falls out meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api import log_feed, log_watch
from api.log_feed import Feed
from api.log_watch import Begun, LogHub, Watch
from contracts.log_lines import Line, Position, Positions, StreamKey
from contracts.logs import LogGap, LogSearch, LogSource, PageTold, ReadLogs

STREAM = StreamKey("solo", "pytorch", "u")
SOURCE = LogSource(cluster="c", region="r", eks_cluster="c", namespace="default", pod="solo")
LOG = [Line(STREAM, Position(0, 1000 + number, 0), f"line {number}") for number in range(400)]


class Hub(LogHub):
    """One feed, whatever is asked for."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(cast(Any, None))
        self.feed = feed

    @asynccontextmanager
    async def watch(self, source: LogSource, positions: Positions, fresh: bool) -> AsyncIterator[Feed]:
        yield self.feed


def at(number: int) -> Positions:
    return Positions({STREAM: LOG[number].position})


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """It keeps about two batches of ten lines."""
    monkeypatch.setattr(log_feed, "KEPT_CHARACTERS", 1500)
    temporal = SimpleNamespace(client=SimpleNamespace(get_workflow_handle=lambda _: None))
    return Feed(cast(Any, temporal), "log/c/default/solo/", SOURCE, Positions(), True)


def pages(monkeypatch: pytest.MonkeyPatch, news: Iterator[Any]) -> None:
    """Pages of ten lines; while one is read, the next of ``news`` happens."""

    async def read_page(_: Any, question: ReadLogs) -> tuple[list[Line], PageTold]:
        known = Positions.opened(question.position or "")
        found = [line for line in LOG if not known.passed(line)][:10]
        known.advance(found)
        next(news, None)
        return found, PageTold(lines="", position=known.sealed(), end=found[-1:] == LOG[-1:])

    monkeypatch.setattr(log_watch, "read_page", read_page)


async def seen(feed: Feed, begun: Positions) -> tuple[list[str], list[str]]:
    """The lines and the reasons of gaps of a watcher that begins behind ``begun``."""
    told = PageTold(lines="", position=begun.sealed(), end=True)
    watch = Watch(Hub(feed), SOURCE, LogSearch(), None, Begun(begun, [], told))
    texts: list[str] = []
    gaps: list[str] = []
    async with asyncio.timeout(30):
        async for event in watch.events():
            if isinstance(event, bytes):
                assert event.startswith(b"id: ")
                texts += [line["text"] for line in json.loads(event.split(b"data: ")[1])["lines"]]
            elif event.event == "gap":
                gaps.append(json.loads(str(event.data))["why"])
    return texts, gaps


async def test_what_falls_out_of_the_feed_while_a_watcher_catches_up_is_read_too(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def news() -> Iterator[None]:
        end = 60
        while end < len(LOG):
            # With the page that goes as far as the feed does.
            if feed.fell[STREAM].at <= 1000 + (read := next(reads)):
                feed._add(LOG[end : end + 10])
                feed._add(LOG[end + 10 : end + 20])
                feed._add(LOG[end + 20 : end + 30])
                feed._add(LOG[end + 30 : end + 40])
                end += 40
            assert read < end
            yield
        feed.ended = "ended"
        yield

    reads = iter(range(15, 1000, 10))
    for start in range(0, 60, 10):
        feed._add(LOG[start : start + 10])
    monkeypatch.setattr(log_watch, "MOST_PAGES", 50)
    pages(monkeypatch, news())
    assert await seen(feed, at(5)) == ([line.text for line in LOG[6:]], [])


async def test_who_comes_after_lines_were_left_out_of_the_feed_reads_them_in_pages(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed._add(LOG[:10])
    feed._miss(LogGap(pod="solo", container="pytorch", why="more was written than can be watched live"))
    feed.positions[STREAM] = feed.jumped[STREAM] = LOG[389].position
    feed._add(LOG[390:])
    feed.ended = "ended"
    pages(monkeypatch, iter(()))
    monkeypatch.setattr(log_watch, "MOST_PAGES", 50)
    assert await seen(feed, at(5)) == ([line.text for line in LOG[6:]], [])
    monkeypatch.setattr(log_watch, "MOST_PAGES", 3)
    texts, gaps = await seen(feed, at(5))
    assert texts == [line.text for line in [*LOG[6:36], *LOG[390:]]]
    assert gaps == ["more was written than can be sent"]
