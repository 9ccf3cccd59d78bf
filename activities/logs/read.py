"""A page of logs. Its text is told in the heartbeat: no history has that, and it is forgotten with the activity."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from temporalio import activity

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.logs.api import Connections, log_api
from activities.logs.asked import must_have, must_have_rank
from activities.logs.chunks import Chunks, Folder, newest_run
from activities.logs.losses import Counted, counted
from activities.logs.owners import Owner, owners_of
from activities.logs.parts import AT_ONCE, Part, merged
from activities.logs.pods import Pods, chosen, one_pod
from contracts.log_lines import Line, Positions, gravity, level_of, pack
from contracts.logs import (
    MOST_LINES,
    MOST_STREAMS,
    PAGE_BYTES,
    READ_LOGS,
    KeptPlace,
    LogSearch,
    LogSource,
    LogsRead,
    LogStream,
    PageTold,
    ReadLogs,
    position_of,
)

TAKING_SECONDS = 10.0
"""How long a page is held for whoever asked for it."""
TELLING_SECONDS = 0.5
SCANNED_CHARACTERS = 32 * 1024 * 1024
SCANNED_SECONDS = 8.0
"""A page is told with what was found until then."""
PAGE_CHARACTERS = 2 * 1024 * 1024
MOST_LOOKED_THROUGH = 100_000
"""Lines that the newest ones with a text are looked for among: of hundreds of logs, the last of each."""


@dataclass
class Scan:
    """Lines that are wanted, of those that were looked at."""

    wanted: LogSearch
    positions: Positions
    lines: list[Line] = field(default_factory=list)
    characters: int = 0
    scanned: int = 0

    def __post_init__(self) -> None:
        self._matcher = self.wanted.matcher()
        self._least = None if self.wanted.level is None else gravity(self.wanted.level)

    def take(self, line: Line) -> None:
        self.scanned += len(line.text) + 32
        if self.fits(line):
            self.lines.append(line)
            self.characters += len(line.text) + 32

    def fits(self, line: Line) -> bool:
        if self._least is not None and gravity(level_of(line.text)) < self._least:
            return False
        return self._matcher is None or self._matcher(line.text)


@dataclass(frozen=True)
class _Kept:
    """What is in the bucket of a run's logs."""

    chunks: Chunks
    folders: list[Folder]
    counted: Counted


class LogReading:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._connections = aws, Connections(kubernetes)

    @activity.defn(name=READ_LOGS.name)
    async def read(self, request: ReadLogs) -> LogsRead:
        """Read a page, tell it, and hold it until it was taken.

        Raises NOT_FOUND for a pod, container or rank that is not there, and of which nothing is kept; of a run only
        where it has others.
        """
        page, lines = await self.page(request)
        told = page.model_dump(mode="json")
        until = time.monotonic() + TAKING_SECONDS
        with suppress(asyncio.CancelledError):
            while time.monotonic() < until:
                # Only who heartbeats hears that the page was taken.
                activity.heartbeat(told)
                await asyncio.sleep(TELLING_SECONDS)
        return LogsRead(lines=lines)

    async def page(self, request: ReadLogs) -> tuple[PageTold, int]:
        source = request.source
        positions = position_of(request.position)
        async with log_api(self._connections, source.region, source.eks_cluster) as api:
            pods = Pods(api, source.namespace, source.selector)
            parts = await self._parts(pods, request, positions)
            scan = Scan(request.wanted, Positions(positions))
            if request.tail is not None and request.position is None:
                end = await _newest(parts, scan, request.tail)
            else:
                end = await _onward(parts, scan, request.lines)
        streams = [part.shown() for part in parts]
        page = told(scan, positions, end, streams)
        reached = position_of(page.position)
        gaps = [gap for part in parts for gap in part.gaps_between(positions, reached, page.end)]
        return page.model_copy(update={"gaps": gaps}), len(scan.lines)

    async def _parts(self, pods: Pods, request: ReadLogs, positions: Positions) -> list[Part]:
        source = request.source
        since = 0 if request.since is None else int(request.since.timestamp() * 1_000_000_000)
        parts: dict[tuple[str, str], Part] = {}
        run, owners = source.run, list[Owner]()
        if source.selector:
            owners = await owners_of(pods.api, source.namespace, source.owners)
            live = {owner.run for owner in owners if owner.run is not None}
            run = source.run or next(iter(live), None)
            if not live or run in live:
                await pods.refresh()
            found = [pod for pod in pods.all() if not pod.gone]
        else:
            pods = Pods(pods.api, source.namespace, {}, source.pod)
            found = [await one_pod(pods, source.pod or "")]
        kept = await self._kept(source, run)
        if source.selector:
            there = {(pod.name, each.name) for pod in found for each in pod.containers}
            must_have(source, there | {(each.pod, each.container) for each in (kept.folders if kept else ())})
        for pod in found:
            if source.pod in (None, pod.name):
                for container in chosen(pod, source.container, every=bool(source.selector)):
                    part = Part(pods, (pod, container), None, positions, since, request.previous)
                    parts[pod.name, container.name] = part
        if kept is not None:
            for folder in kept.folders:
                if source.pod in (None, folder.pod) and source.container in (None, folder.container):
                    place = (folder.pod, folder.container)
                    part = parts.setdefault(place, Part(pods, None, None, positions, since, request.previous))
                    part.kept, part.counted = (kept.chunks, folder), kept.counted
        limit = asyncio.Semaphore(AT_ONCE)

        async def look(part: Part) -> None:
            async with limit:
                await part.look()

        await asyncio.gather(*(look(part) for part in parts.values()))
        wanted = request.wanted.rank
        must_have_rank(wanted, (part.rank for part in parts.values()), owners)
        found_parts = [part for part in parts.values() if wanted is None or part.rank == wanted]
        return sorted(found_parts, key=lambda part: (part.rank, part.name))[:MOST_STREAMS]

    async def _kept(self, source: LogSource, run: str | None) -> _Kept | None:
        if source.kept is None:
            return None
        chunks = await asyncio.to_thread(self._chunks, source.region, source.kept, run)
        if chunks is None:
            return None
        folders, index = await asyncio.gather(asyncio.to_thread(chunks.folders), asyncio.to_thread(chunks.index))
        return _Kept(chunks, list(folders.values()), counted(index))

    def _chunks(self, region: str, place: KeptPlace, run: str | None) -> Chunks | None:
        run = run or newest_run(self._aws, region, place.bucket, place.prefix)
        return None if run is None else Chunks(self._aws, region, place.bucket, f"{place.prefix}/{run}")


async def _newest(parts: list[Part], scan: Scan, tail: int) -> bool:
    """The newest lines that fit; where not all do, looked for among the last :data:`MOST_LINES` of each log, and
    :data:`MOST_LOOKED_THROUGH` of all."""
    some = scan.wanted.search is not None or scan.wanted.level is not None
    reach = min(MOST_LINES, MOST_LOOKED_THROUGH // max(len(parts), 1)) if some else max(tail, 1)
    limit = asyncio.Semaphore(AT_ONCE)

    async def last(part: Part) -> list[Line]:
        async with limit:
            return await part.last(reach)

    found: list[tuple[int, int, int, Line]] = []
    for number, lines in enumerate(await asyncio.gather(*(last(part) for part in parts))):
        scan.positions.advance(lines)
        fitting = [line for line in lines if scan.fits(line)][-tail:] if tail else []
        rank = parts[number].rank
        found += [(line.position.at, rank, place, line) for place, line in enumerate(fitting)]
    found.sort(key=lambda each: each[:3])
    scan.lines = [line for *_, line in found[-tail:]] if tail else []
    return True


async def _onward(parts: list[Part], scan: Scan, most: int) -> bool:
    """Lines behind the position, from the oldest on. Whether all that there are were looked at."""
    until = float("inf")
    async with aclosing(merged(parts)) as lines:
        async for line in lines:
            # The time counts from the first line on: opening hundreds of logs may take longer than reading a page.
            until = min(until, time.monotonic() + SCANNED_SECONDS)
            scan.take(line)
            scan.positions.advance((line,))
            full = len(scan.lines) >= most or scan.characters > PAGE_CHARACTERS
            if full or scan.scanned > SCANNED_CHARACTERS or time.monotonic() > until:
                return False
    return True


def told(scan: Scan, begun: Positions, end: bool, streams: list[LogStream]) -> PageTold:
    """The page as it travels. Where it is too large for that, only its beginning does."""
    lines, positions = scan.lines, scan.positions
    packed = pack(lines)
    while len(packed) > PAGE_BYTES and len(lines) > 1:
        lines = lines[: len(lines) // 2]
        packed, end, positions = pack(lines), False, Positions(begun)
        positions.advance(lines)
    return PageTold(lines=packed, position=positions.sealed(), end=end, streams=streams)
