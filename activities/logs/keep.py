"""Keeping the logs of a run: every container of its pods is followed from its first line, and written to the bucket.

What a dead worker had not written is read again by the next; what is gone by then is counted as a gap. Where a stream
was read to its end, the index says so.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes.client.exceptions import ApiException
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities import fence
from activities.aws import AwsClients
from activities.context import Threads, in_thread
from activities.kubernetes import KubernetesClients
from activities.logs.api import Connections, log_api
from activities.logs.chunks import Chunks, Folder
from activities.logs.owners import ended
from activities.logs.pods import Container, Pod, Pods
from activities.logs.streams import Stream
from activities.logs.writing import Writer
from activities.polling import HEARTBEAT_SECONDS, WORKER_SHUTDOWN
from activities.settings import Settings
from contracts.log_lines import Position, StreamKey, stamp
from contracts.logs import KEEP_LOGS, KeepLogs, LogsKept
from contracts.words import number_of

UNWRITTEN_SECONDS = (4.0, 30.0)
"""A line is in the bucket so long after it was read: at first soon, for the sake of short runs; later in chunks of a
better size."""
SOONER = 20
"""A log that has been followed for so many seconds more waits a second longer."""
INDEX_SECONDS = 60.0
FINISHED_SECONDS = 30.0
"""Pods that go on so long after their owner has finished are followed no more."""
SELDOM = 4
"""Of so many looks one is taken at an owner whose pods are followed."""
GONE_SECONDS = 120.0
"""How long deleted pods may take to end."""
LAST_WRITE_SECONDS = 8.0
"""What a worker that stops, or a run that is given up, has to write what is gathered."""
WRITERS = 8


class LogKeeping:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._connections, self._settings = aws, Connections(kubernetes), settings
        self._threads = Threads(WRITERS, thread_name_prefix="kept-logs")

    @activity.defn(name=KEEP_LOGS.name)
    async def keep(self, request: KeepLogs) -> LogsKept:
        """Follow and keep, until the owner has finished or is gone and every log is written.

        Raises DENIED, FOREIGN or NOT_FOUND where the bucket cannot be written.
        """
        region = request.scope.region
        chunks = Chunks(self._aws, region, request.bucket, request.prefix)
        # Between its streams it asks for little, and hundreds of runs would keep a connection open for it.
        async with log_api(self._connections, region, request.eks_cluster, idle=0) as api:
            pods = Pods(api, request.namespace, request.selector)
            async with pods.watched():
                return await _Keeping(request, pods, chunks, self._threads, self._settings.poll_seconds).run()


class _Keeping:
    def __init__(self, request: KeepLogs, pods: Pods, chunks: Chunks, threads: Threads, poll_seconds: float) -> None:
        self._request, self._pods, self._chunks = request, pods, chunks
        self._threads = threads
        """The writers': those of waits may all be busy with runs."""
        self._pace = min(1.0, poll_seconds)
        self._poll_seconds = poll_seconds
        self._folders: dict[tuple[str, str], Folder] = {}
        self._writers: dict[StreamKey, Writer] = {}
        self._tasks: dict[StreamKey, asyncio.Task[None]] = {}
        self._before: dict[StreamKey, dict[str, Any]] = {}
        """What the index says of streams whose pods are not there any more."""
        self._begun = time.monotonic()
        self._indexed = 0.0
        self._changed = False
        """The end of a stream is known that the index does not tell yet."""
        self._looked = self._told = 0.0
        self._ending: tuple[float, str] | None = None

    async def run(self) -> LogsKept:
        stopping = asyncio.ensure_future(activity.wait_for_worker_shutdown())
        try:
            self._folders = await in_thread(self._threads, self._chunks.folders)
            await self._remember()
            while not await self._done():
                self._begin()
                await self._write()
                self._beat()
                if stopping.done():
                    await self._write_last()
                    raise ApplicationError(
                        "the worker stops; another one goes on",
                        type=WORKER_SHUTDOWN,
                        next_retry_delay=timedelta(seconds=1),
                        category=ApplicationErrorCategory.BENIGN,
                    )
                await self._pods.change(self._pace)
            await self._stop()
            await asyncio.gather(*(writer.flush() for writer in self._writers.values()))
            await self._write_index(complete=True)
            return self._kept()
        except asyncio.CancelledError:
            await asyncio.shield(self._finish())
            raise
        finally:
            stopping.cancel()
            await self._stop()

    def _begin(self) -> None:
        """Follow every container that is not followed yet; raise what ended one of them."""
        for pod in self._pods.all():
            for container in pod.containers:
                key = StreamKey(pod.name, container.name, pod.uid)
                if key not in self._tasks and not pod.gone:
                    self._before.pop(key, None)
                    earlier = [task for other, task in self._tasks.items() if other[:2] == key[:2]]
                    self._tasks[key] = asyncio.create_task(self._follow(key, pod, container, earlier))
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _follow(self, key: StreamKey, pod: Pod, container: Container, earlier: list[asyncio.Task[None]]) -> None:
        if earlier:
            # Of a pod of the same name, which is gone: what it printed stands before what this one does.
            await asyncio.wait(earlier)
        folder = self._folders.setdefault((key.pod, key.container), Folder(key.pod, key.container))
        writer = Writer(self._chunks, folder, key, self._pods.rank(pod), self._threads)
        position = await writer.resume()
        self._writers[key] = writer
        async for found in Stream(self._pods, pod, container.name, position).follow():
            await writer.add(found)
        await writer.flush()
        writer.ended = self._changed = True

    async def _write(self) -> None:
        """Write what has waited long enough."""
        soon, late = UNWRITTEN_SECONDS
        followed = time.monotonic() - self._begun
        aged = [each for each in self._writers.values() if each.age > min(late, soon + followed / SOONER)]
        await asyncio.gather(*(writer.flush() for writer in aged))
        if self._changed or (time.monotonic() - self._indexed > INDEX_SECONDS and self._writers):
            await self._write_index()

    async def _finish(self) -> None:
        await fence.finish()
        await self._write_last()

    async def _write_last(self) -> None:
        """As much as there is time for."""
        writing = [asyncio.create_task(writer.flush()) for writer in self._writers.values()]
        if writing:
            _, late = await asyncio.wait(writing, timeout=LAST_WRITE_SECONDS)
            for task in late:
                task.cancel()

    async def _done(self) -> bool:
        now = time.monotonic()
        if self._ending is None and self._due(now):
            self._looked = now
            try:
                how = await ended(self._pods.api, self._request.namespace, [self._request.owner])
            except (ApiException, ConnectionError):
                how = None
            if how is not None:
                await self._pods.refresh()
                self._ending = (now, how)
                return False
        if self._ending is None:
            return False
        since, how = self._ending
        if now - since > (GONE_SECONDS if how == "gone" else FINISHED_SECONDS):
            return True
        return all(task.done() or self._never(key) for key, task in self._tasks.items())

    def _due(self, now: float) -> bool:
        """Whether to look at the owner: seldom, while a log is followed that ends with its pod."""
        following = any(not task.done() for task in self._tasks.values())
        pace = self._poll_seconds * (SELDOM if following else 1)
        return not self._looked or now - self._looked > pace

    def _never(self, key: StreamKey) -> bool:
        """Whether a container has not started, and will not: its pod's owner has finished."""
        pod = self._pods.get(key.uid)
        container = pod.container(key.container) if pod is not None else None
        return container is None or not container.started

    async def _stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _remember(self) -> None:
        """What was kept before: a log whose pod is gone, and that was not read to its end, has lost what came then."""
        index = await in_thread(self._threads, self._chunks.index)
        rows = {StreamKey(row["pod"], row["container"], row["uid"]): row for row in index.get("streams", ())}
        newest = [
            in_thread(self._threads, self._chunks.told, folder.pod, folder.container, folder.newest)
            for folder in self._folders.values()
        ]
        for folder, told in zip(self._folders.values(), await asyncio.gather(*newest), strict=True):
            if told is not None:
                # The chunks are written before the index.
                key = StreamKey(folder.pod, folder.container, told.uid)
                size = told.size + folder.sizes[folder.newest]
                ended = key in rows and rows[key]["ended"]
                rows[key] = _row(key, told.rank, told.lines, size, told.gaps, ended, told.last)
        there = {pod.uid for pod in self._pods.all() if not pod.gone}
        for key, row in rows.items():
            if key.uid not in there and not row["ended"]:
                row = {**row, "ended": True, "gaps": row["gaps"] + 1}
            self._before[key] = row

    def _rows(self) -> list[dict[str, Any]]:
        rows = [
            _row(key, writer.rank, writer.lines, writer.size, writer.gaps, writer.ended, writer.position)
            for key, writer in self._writers.items()
        ]
        return sorted([*self._before.values(), *rows], key=lambda row: (row["rank"], row["pod"], row["container"]))

    async def _write_index(self, complete: bool = False) -> None:
        self._indexed, self._changed = time.monotonic(), False
        index = {"written_at": datetime.now(UTC).isoformat(), "complete": complete, "streams": self._rows()}
        await in_thread(self._threads, self._chunks.write_index, index)

    def _kept(self) -> LogsKept:
        rows = self._rows()
        return LogsKept(
            prefix=self._request.prefix,
            pods=len({row["uid"] for row in rows}),
            lines=sum(row["lines"] for row in rows),
            size=sum(row["size"] for row in rows),
            gaps=sum(row["gaps"] for row in rows),
        )

    def _beat(self) -> None:
        """Tell that it lives, as rarely as other waits do: a worker keeps the logs of hundreds of runs."""
        if time.monotonic() - self._told >= HEARTBEAT_SECONDS:
            self._told = time.monotonic()
            activity.heartbeat(self._live())

    def _live(self) -> dict[str, Any]:
        """What the stage shows meanwhile."""
        following = sum(not task.done() for task in self._tasks.values())
        kept = sum(writer.lines for writer in self._writers.values())
        waiting = sum(writer.gathered for writer in self._writers.values())
        return {
            "detail": f"{number_of(following, 'log')} followed, {number_of(kept, 'line')} kept, {waiting} about to be"
        }


def _row(
    key: StreamKey, rank: int, lines: int, size: int, gaps: int, ended: bool, last: Position | None
) -> dict[str, Any]:
    """What the index says of a stream."""
    told = {"rank": rank, "lines": lines, "size": size, "gaps": gaps, "ended": ended}
    return {**key._asdict(), **told, "last": stamp(last.at) if last is not None else None}
