"""One reader of a pod's log, or of those of a run's pods, for everybody who watches.

What it reads is in the window of its heartbeat; gateways look at that as often as they like. It reads no faster than
the window can be looked at, so that who looks steadily misses nothing.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from kubernetes.client.exceptions import ApiException
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.kubernetes import KubernetesClients
from activities.logs.api import log_api
from activities.logs.owners import ended, runs_of
from activities.logs.pods import Container, Pod, Pods, chosen, one_pod
from activities.logs.streams import Missing, Read, Stream
from activities.logs.window import PIECE_CHARACTERS, Window
from activities.polling import WORKER_SHUTDOWN
from activities.settings import Settings
from contracts.log_lines import Line, Positions, StreamKey
from contracts.logs import (
    FOLLOW_LOGS,
    WINDOW_BYTES,
    FollowLogs,
    LogsFollowed,
    LogSource,
    LogStream,
    WindowTold,
    position_of,
)

TELLING_SECONDS = 0.2
"""Between two heartbeats with new lines, and what lines of several pods wait to be put in order."""
ENDED_SECONDS = 5.0
"""How long the last lines are told, so that every gateway sees them."""
WAITING_READS = 200
"""Handfuls of lines that wait to be told: then the containers' connections wait, and nothing grows."""
FINISHED_SECONDS = 15.0


class LogFollowing:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=FOLLOW_LOGS.name)
    async def follow(self, request: FollowLogs) -> LogsFollowed:
        """Read on until all is read that will ever come, or nobody watches (cancelled).

        Raises NOT_FOUND for a pod or container that is not there.
        """
        source = request.source
        async with log_api(self._kubernetes, source.region, source.eks_cluster) as api:
            by_name = None if source.selector else source.pod
            pods = Pods(api, source.namespace, source.selector, by_name)
            if by_name is not None:
                chosen(await one_pod(pods, by_name), source.container, every=False)
            if source.run is not None and source.run not in await runs_of(api, source.namespace, source.owners):
                return LogsFollowed(reason="ended")  # another run has taken its place, or none
            async with pods.watched():
                reader = _Reader(source, pods, self._settings.poll_seconds)
                return LogsFollowed(reason=await reader.run(request))


class _Reader:
    def __init__(self, source: LogSource, pods: Pods, poll_seconds: float) -> None:
        self._source, self._pods, self._poll_seconds = source, pods, poll_seconds
        self._reads: asyncio.Queue[Read] = asyncio.Queue(WAITING_READS)
        self._tasks: dict[StreamKey, asyncio.Task[None]] = {}
        self._window = Window("", Positions())
        self._shown: list[LogStream] = []
        self._looked = 0.0
        self._finished: tuple[float, str] | None = None

    async def run(self, request: FollowLogs) -> str:
        stopping = asyncio.ensure_future(activity.wait_for_worker_shutdown())
        try:
            await self._resume(request)
            self._tell()
            while True:
                self._begin()
                await self._take()
                shown = self._streams()
                if self._window.fresh or shown != self._shown:
                    self._shown = shown
                    self._tell()
                if stopping.done():
                    raise ApplicationError(
                        "the worker stops; another one goes on",
                        type=WORKER_SHUTDOWN,
                        next_retry_delay=timedelta(seconds=1),
                        category=ApplicationErrorCategory.BENIGN,
                    )
                if (reason := await self._over()) is not None:
                    self._tell(reason)
                    await asyncio.sleep(ENDED_SECONDS)
                    return reason
        finally:
            stopping.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _resume(self, request: FollowLogs) -> None:
        info = activity.info()
        told = next((each for each in info.heartbeat_details if isinstance(each, dict) and "reader" in each), None)
        if told is not None:
            self._window = Window.resumed(WindowTold.model_validate(told))
            return
        positions = position_of(request.position)
        if request.position is None:
            for pod, container in self._wanted():
                stream = Stream(self._pods, pod, container.name)
                positions.advance(await stream.last(pod, container, 1))
        self._window = Window(f"{info.workflow_run_id}/{info.attempt}", positions)

    def _wanted(self) -> list[tuple[Pod, Container]]:
        every = bool(self._source.selector)
        return [
            (pod, container)
            for pod in self._pods.all()
            if not pod.gone and self._source.pod in (None, pod.name)
            for container in chosen(pod, self._source.container, every=every)
        ]

    def _begin(self) -> None:
        for pod, container in self._wanted():
            key = StreamKey(pod.name, container.name, pod.uid)
            if key not in self._tasks:
                stream = Stream(self._pods, pod, container.name, self._window.positions.get(key))
                self._tasks[key] = asyncio.create_task(self._read(stream))
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _read(self, stream: Stream) -> None:
        async for found in stream.follow():
            if found:
                await self._reads.put(found)

    async def _take(self) -> None:
        """What comes until the next heartbeat is due, in the order of its times."""
        until = time.monotonic() + TELLING_SECONDS
        lines: list[Line] = []
        characters = 0
        while (left := until - time.monotonic()) > 0:
            if self._window.fresh >= WINDOW_BYTES // 2:
                await asyncio.sleep(left)
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    found = await self._reads.get()
                if isinstance(found, Missing):
                    self._window.miss(found.gap())
                    continue
                lines += found
                characters += sum(len(line.text) for line in found)
                if characters > PIECE_CHARACTERS:
                    self._window.add(_ordered(lines))
                    lines, characters = [], 0
        self._window.add(_ordered(lines))

    def _streams(self) -> list[LogStream]:
        shown = []
        for key in self._tasks:
            pod = self._pods.get(key.uid)
            container = pod.container(key.container) if pod is not None else None
            if pod is not None and container is not None:
                shown.append(self._pods.stream(pod, container))
        return sorted(shown, key=lambda each: (each.rank or 0, each.pod, each.container))

    def _tell(self, over: str | None = None) -> None:
        activity.heartbeat(self._window.told(self._shown, over).model_dump(mode="json"))

    async def _over(self) -> str | None:
        """Why nothing comes any more; None while something may."""
        done = all(task.done() for task in self._tasks.values()) and self._reads.empty()
        if not self._source.owners:
            if not done or not self._tasks:
                return None
            states: set[Any] = {each.state for each in self._streams()}
            return "gone" if "gone" in states else "ended"
        now = time.monotonic()
        if self._finished is None and (not self._looked or now - self._looked > self._poll_seconds):
            self._looked = now
            with suppress(ApiException, ConnectionError):
                how = await ended(self._pods.api, self._source.namespace, self._source.owners)
                if how is not None:
                    await self._pods.refresh()
                    self._finished = (now, how)
        if self._finished is None:
            return None
        since, how = self._finished
        over = done or now - since > FINISHED_SECONDS
        return ("gone" if how == "gone" else "ended") if over and self._reads.empty() else None


def _ordered(lines: list[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line.position.at)
