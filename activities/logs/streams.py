"""The log of one container from a position on: as far as there is one now, or for as long as its pod lives.

A container that starts again begins a new log, and Kubernetes keeps that of the start before. A connection that is cut,
by a restart of the API server, an expired token or silence, is made again: positions tell what was read, and whether
something is missing between.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass

from kubernetes.client.exceptions import ApiException

from activities.errors import clean
from activities.logs.api import LogRequest
from activities.logs.pods import AGAIN_SECONDS, Container, Pod, Pods, pod_of
from activities.logs.splitting import Numbering, Splitter, lines_of
from contracts.log_lines import Line, Position, StreamKey, behind
from contracts.logs import LogGap

log = logging.getLogger(__name__)

LAGGING_SECONDS = 1.0
"""What a pod's status may lag behind the end of its container's log."""


@dataclass(frozen=True)
class Missing:
    """Lines behind ``after`` are gone."""

    stream: StreamKey
    after: Position | None
    why: str

    def gap(self) -> LogGap:
        """It, as readers are told of it."""
        return LogGap.behind(self.stream, self.after, self.why)


Read = list[Line] | Missing


class Stream:
    """Reads one container of one pod. ``position`` is that of the last line that was given out; None: none was."""

    def __init__(self, pods: Pods, pod: Pod, container: str, position: Position | None = None) -> None:
        self._pods, self._name, self._container = pods, pod.name, container
        self.key = StreamKey(pod.name, container, pod.uid)
        self.position = position
        self._whole = False
        """The last reading ended where the log did: before the first, nobody knows what there is."""
        self._begun: list[Line] = []
        """What followed the last newline then: the beginning of a line, or a last one without a newline."""

    def _now(self) -> tuple[Pod | None, Container | None]:
        pod = self._pods.get(self.key.uid)
        return pod, pod.container(self._container) if pod is not None else None

    # As far as it goes

    async def rest(self, pod: Pod, container: Container, *, previous: bool = False) -> AsyncGenerator[Read, None]:
        """What is there now. ``previous``: only the log of the container's start before the last."""
        if not container.started or pod.gone:
            return
        if previous or self._behind(container.restarts):
            async for found in self._earlier(container.restarts):
                yield found
        if not previous:
            async for found in self._read(container.restarts):
                yield found

    async def last(self, pod: Pod, container: Container, lines: int, *, previous: bool = False) -> list[Line]:
        """The newest lines that are there, of the last start; numbered as if all had been read."""
        if not container.started or pod.gone or lines == 0:
            return []
        restart = container.restarts - previous
        tail = LogRequest(self._pods.namespace, self._name, self._container, previous=previous, tail=lines)
        first: Line | None = None
        try:
            async with self._pods.api.log(tail) as pieces:
                async for found in lines_of(pieces, Numbering(self.key, restart), Splitter(), whole=True):
                    first = found[0]
                    break
        except ApiException as error:
            if _no_log(error):
                return []
            raise
        if first is None:
            return []
        # Which number the first has among the lines of its time, only those before it tell.
        self.position = Position(restart, first.position.at, -1)
        kept: list[Line] = []
        async for read in self._read(restart, previous=previous):
            if not isinstance(read, Missing):
                kept = (kept + read)[-lines:]
        return kept

    # For as long as it lives

    async def follow(self) -> AsyncIterator[Read]:
        """Lines as they are written, until the pod is over or gone. Waits for a container that has not started."""
        failures = 0
        while True:
            pod, container = self._now()
            if pod is None or container is None:
                return
            if not container.started:
                if pod.over:
                    return
                await self._pods.change()
                continue
            try:
                if self._behind(container.restarts):
                    async for found in self._earlier(container.restarts):
                        yield found
                ending = pod.over or not container.running
                async for found in self._read(container.restarts, follow=not ending, sure=True):
                    failures = 0
                    yield found
                if ending and await self._settled(pod, container):
                    return
                if not ending:
                    # It ended, or the connection did: the status will tell.
                    await self._pods.change(LAGGING_SECONDS if self._whole else AGAIN_SECONDS[0])
            except (ApiException, ConnectionError) as error:
                if isinstance(error, ApiException) and error.status == 404:
                    yield self._vanished()
                    return
                log.info("%s/%s: the log is cut: %s", self._name, self._container, clean(str(error), 200))
                self._whole = False
                await self._pods.change(AGAIN_SECONDS[min(failures, len(AGAIN_SECONDS) - 1)])
                failures += 1

    async def _settled(self, pod: Pod, container: Container) -> bool:
        """Whether nothing comes any more, now that a container's log was read to its end."""
        if pod.over:
            return True
        now, again = self._now()
        while now is pod and again is container:
            await self._pods.change()
            now, again = self._now()
        return False

    def _vanished(self) -> Read:
        """The end of a pod that was deleted before a last look at its log."""
        if not self._whole:
            return Missing(self.key, self.position, "the pod vanished while its log could not be read")
        self.position = self._begun[-1].position if self._begun else self.position
        return self._begun

    def _behind(self, restarts: int) -> bool:
        return restarts > 0 and (self.position is None or self.position.restart < restarts)

    async def _earlier(self, restarts: int) -> AsyncIterator[Read]:
        """What is left of the starts before the ``restarts``-th, of which Kubernetes keeps the last."""
        known = -1 if self.position is None else self.position.restart
        if known < restarts - 1 and restarts > 1:
            yield Missing(self.key, self.position, "the container started more than once before its log could be read")
        async for found in self._read(restarts - 1, previous=True):
            yield found

    async def _read(
        self, restart: int, *, previous: bool = False, follow: bool = False, sure: bool = False
    ) -> AsyncIterator[Read]:
        """The log of one start, behind the position. ``sure``: look whether it is still that start of that pod.

        Raises ApiException and ConnectionError; a log that is not there (any more) has no lines.
        """
        begun = self.position if self.position is not None and self.position.restart == restart else None
        asked = LogRequest(
            self._pods.namespace,
            self._name,
            self._container,
            previous=previous,
            follow=follow,
            since=begun.at if begun is not None else None,
        )
        met = begun is None or begun.number < 0
        numbering, splitter = Numbering(self.key, restart), Splitter()
        try:
            async with self._pods.api.log(asked) as pieces:
                if sure and not await self._still(restart):
                    return
                self._whole = False
                async for found in lines_of(pieces, numbering, splitter, whole=not follow):
                    if not met and begun is not None:
                        met = any(line.position == begun for line in found)
                        if not met and found[-1].position > begun:
                            met = True
                            yield Missing(self.key, begun, "its node has begun another file for the log meanwhile")
                    if fresh := self._fresh(found):
                        self.position = fresh[-1].position
                        yield fresh
        except ApiException as error:
            if not _no_log(error):
                raise
        self._whole, self._begun = True, [numbering.line(*line) for line in splitter.rest()] if follow else []

    async def _still(self, restart: int) -> bool:
        """Whether the log that was opened is that of the pod that is meant, in the same start of its container: under
        its name another may have been made. Raises ApiException 404 where one was."""
        found = await self._pods.read(self._name)
        if found is None:
            # It was there when its log was opened, and no other has followed: what is open ends with its last line.
            return True
        pod = pod_of(found)
        if pod.uid != self.key.uid:
            raise ApiException(status=404, reason="gone")
        container = pod.container(self._container)
        if container is not None and container.restarts == restart:
            return True
        await self._pods.change(LAGGING_SECONDS)
        return False

    def _fresh(self, lines: Iterable[Line]) -> list[Line]:
        known = self.position
        return [line for line in lines if known is None or not behind(line.position, known)]


def _no_log(error: ApiException) -> bool:
    """Whether the API says that a container has no such log: it has not started, or was not started before."""
    return bool(error.status == 400)
