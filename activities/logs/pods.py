"""The pods whose logs are read: found by a list, and kept up to date by a watch.

A pod that is gone stays known with the state that it had: who reads its log learns so that nothing comes any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from kubernetes.client.exceptions import ApiException

from activities.errors import clean, fail
from activities.logs.api import LogApi
from contracts.logs import MOST_STREAMS, LogStream
from contracts.problem import ProblemCode

log = logging.getLogger(__name__)

AGAIN_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Pauses before what failed is asked again."""
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
RAY_NODE_TYPE = "ray.io/node-type"


@dataclass(frozen=True)
class Container:
    name: str
    restarts: int
    running: bool
    started: bool
    """It has run, so that there is a log."""
    detail: str | None
    """What it waits for, or how it ended."""


@dataclass(frozen=True)
class Pod:
    name: str
    uid: str
    created: str
    labels: dict[str, str]
    phase: str
    containers: tuple[Container, ...]
    """Those that initialize it first."""
    main: str
    gone: bool = False

    @property
    def over(self) -> bool:
        """No container of it starts again."""
        return self.gone or self.phase in ("Succeeded", "Failed")

    def container(self, name: str) -> Container | None:
        return next((each for each in self.containers if each.name == name), None)


def pod_of(found: dict[str, Any]) -> Pod:
    """A pod's state from the API's JSON."""
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    known = {
        each["name"]: each for kind in ("initContainerStatuses", "containerStatuses") for each in status.get(kind) or ()
    }
    names = [each["name"] for kind in ("initContainers", "containers") for each in spec.get(kind) or ()]
    annotations = meta.get("annotations") or {}
    mains = [each["name"] for each in spec.get("containers") or ()]
    wanted = annotations.get(DEFAULT_CONTAINER)
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        created=str(meta.get("creationTimestamp") or ""),
        labels=meta.get("labels") or {},
        phase=str(status.get("phase") or "Pending"),
        containers=tuple(_container(name, known.get(name) or {}) for name in names),
        main=str(wanted if wanted in mains else (mains or [""])[0]),
    )


def _container(name: str, status: dict[str, Any]) -> Container:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    running, ended, waiting = state.get("running"), state.get("terminated"), state.get("waiting") or {}
    detail = None
    if ended:
        detail = f"{ended.get('reason') or 'ended'}, exit code {ended.get('exitCode')}"
    elif not running:
        reason, message = waiting.get("reason") or "waits for its node", waiting.get("message")
        detail = clean(f"{reason}: {message}" if message else reason, 200)
    return Container(
        name=name,
        restarts=int(status.get("restartCount") or 0),
        running=running is not None,
        started=running is not None or ended is not None or last.get("terminated") is not None,
        detail=detail,
    )


class Pods:
    """What is known of the pods of a namespace that a selector, or a name, finds."""

    def __init__(self, api: LogApi, namespace: str, selector: dict[str, str], name: str | None = None) -> None:
        self.api, self.namespace = api, namespace
        self._path = f"/api/v1/namespaces/{quote(namespace)}/pods"
        self._query = {"fieldSelector": f"metadata.name={name}"} if name else {}
        if selector:
            self._query["labelSelector"] = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        self._known: dict[str, Pod] = {}
        self._ranks: dict[str, int] = {}
        self._news = asyncio.Event()

    async def refresh(self) -> str:
        """Read them all. The version from which on they can be watched. Raises as the API does."""
        found, version, mark = dict[str, Pod](), "", ""
        while True:
            page = await self.api.get(self._path, **self._query, limit="500", **({"continue": mark} if mark else {}))
            if page is None:
                break
            for item in page.get("items") or ():
                pod = pod_of(item)
                found[pod.uid] = pod
            version, mark = page["metadata"].get("resourceVersion") or "", page["metadata"].get("continue") or ""
            if not mark:
                break
        for uid, pod in self._known.items():
            if uid not in found:
                found[uid] = replace(pod, gone=True)
        self._set(found)
        return version

    async def read(self, name: str) -> Any:
        """A pod as it is now; None where there is none."""
        return await self.api.get(f"{self._path}/{quote(name)}")

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Pods]:
        """Known, and kept up to date inside the block."""
        version = await self.refresh()
        watching = asyncio.create_task(self._watch(version))
        try:
            yield self
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    def all(self) -> list[Pod]:
        """Also those that are gone; the oldest first."""
        return sorted(self._known.values(), key=lambda pod: (pod.created, pod.name))

    def get(self, uid: str) -> Pod | None:
        return self._known.get(uid)

    def rank(self, pod: Pod) -> int:
        return self._ranks.get(pod.uid, 0)

    async def change(self, seconds: float | None = None) -> None:
        """Until a pod changes, or for ``seconds``."""
        news = self._news
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    def stream(self, pod: Pod, container: Container) -> LogStream:
        """How a container is shown."""
        if pod.gone:
            state = "gone"
        elif container.running:
            state = "running"
        else:
            state = "ended" if pod.over else "waiting"
        return LogStream(
            pod=pod.name,
            container=container.name,
            uid=pod.uid,
            rank=self.rank(pod),
            state=state,
            detail=container.detail,
            restarts=container.restarts,
        )

    def _set(self, known: dict[str, Pod]) -> None:
        if len(known) > MOST_STREAMS:
            # Of pods that were made anew again and again only the newest are remembered.
            gone = [pod.uid for pod in sorted(known.values(), key=lambda pod: pod.created) if pod.gone]
            for uid in gone[: len(known) - MOST_STREAMS]:
                del known[uid]
        self._known, self._ranks = known, ranks(list(known.values()))
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _watch(self, version: str) -> None:
        failures = 0
        while True:
            try:
                if failures or not version:
                    version = await self.refresh()
                async for kind, found in self.api.watch(self._path, version, **self._query):
                    failures = 0
                    version = found["metadata"].get("resourceVersion") or version
                    if kind in ("ADDED", "MODIFIED", "DELETED"):
                        pod = replace(pod_of(found), gone=kind == "DELETED")
                        self._set({**self._known, pod.uid: pod})
            except (ApiException, ConnectionError) as error:
                log.info("the watch of pods is cut: %s", clean(str(error), 200))
                await asyncio.sleep(AGAIN_SECONDS[min(failures, len(AGAIN_SECONDS) - 1)])
                failures += 1


def ranks(pods: list[Pod]) -> dict[str, int]:
    """The rank of each pod by its uid: where every name ends in a number of its own, as those of replicas, that is it;
    otherwise Ray's head is 0, and pods count in the order in which they were made. A pod that was made anew has the
    rank of the one before it."""
    found: dict[str, int] = {}
    numbers = {pod.name: pod.name.rpartition("-")[2] for pod in pods}
    replicas = all(number.isdecimal() and len(number) < 6 for number in numbers.values())
    if replicas and len({int(number) for number in numbers.values()}) == len(numbers):
        return {pod.uid: int(numbers[pod.name]) for pod in pods}
    names: dict[str, int] = {}
    for pod in sorted(pods, key=lambda pod: (pod.labels.get(RAY_NODE_TYPE) != "head", pod.created, pod.name)):
        found[pod.uid] = names.setdefault(pod.name, len(names))
    return found


async def one_pod(pods: Pods, name: str) -> Pod:
    """The pod of a name, as it is now. Raises NOT_FOUND."""
    await pods.refresh()
    found = next((pod for pod in reversed(pods.all()) if pod.name == name and not pod.gone), None)
    if found is None:
        fail(
            ProblemCode.NOT_FOUND,
            f"There is no pod {pods.namespace}/{name}",
            "A training run's log outlives its pods where the run keeps it: GET …/training-runs/NAME/logs.",
        )
    return found


def chosen(pod: Pod, container: str | None, *, every: bool) -> list[Container]:
    """The containers of a pod that are meant. Raises NOT_FOUND for one that the pod does not have."""
    if container is None:
        return [each for each in pod.containers if every or each.name == pod.main]
    found = pod.container(container)
    if found is not None:
        return [found]
    if every:
        return []
    names = ", ".join(each.name for each in pod.containers)
    fail(ProblemCode.NOT_FOUND, f"Pod {pod.name} has no container {container}", f"It has: {names}.")
