"""The subresource ``log`` of a pod.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod . As
in a real cluster ``sinceTime`` counts in whole seconds (the API server hands it to the kubelet without fractions), the
tail is taken before ``sinceTime`` is looked at, and a stream ends with the run of the container that it follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from .errors import ApiError
from .logs import Line, Log, stamp
from .objects import dig, parse_time
from .replies import Reply, Stream, text
from .requests import Call
from .resources import Json, ResourceType
from .serving import run_name
from .store import Change, Subscription

if TYPE_CHECKING:
    from .cluster import Cluster

BATCH_SECONDS = 0.05
"""Real seconds between two pieces of a stream: what is printed meanwhile is sent together."""
_LONG = 3600.0


def log(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply | Stream:
    """A container's log, or a stream of it."""
    pod = cluster.registry.require(kind, namespace, name)
    container = _container(call, pod)
    query = _Query(cluster, call)
    statuses = {status["name"]: status for status in dig(pod, "status.containerStatuses", [])}
    status: Json = statuses.get(container, {})
    if query.previous:
        return text(query.first(_previous(cluster, pod, container, status).since(0)))
    waits = dig(status, "state.waiting") and not dig(status, "lastState.terminated")
    if not status or waits or dig(pod, "status.phase") == "Pending":
        message = f'container "{container}" in pod "{name}" is waiting to start: {_waits_for(status)}'
        raise ApiError(400, message)
    cluster.training.print_due(pod, container)
    uid = pod["metadata"]["uid"]
    followed = cluster.logs.log(uid, container)
    position = followed.end
    joined = query.first(followed.since(0))
    if not call.flag("follow"):
        return text(joined)

    loop, wake = asyncio.get_running_loop(), asyncio.Event()

    def notify() -> None:
        loop.call_soon_threadsafe(wake.set)

    def pod_changed(change: Change | None) -> None:
        if change is None or change.new["metadata"]["uid"] == uid:
            notify()

    subscription = Subscription(kind.storage_key, pod_changed)
    cluster.logs.follow(uid, notify)
    cluster.store.subscribe(subscription)
    run = run_name(pod, status)

    async def follow() -> AsyncIterator[bytes]:
        nonlocal position
        try:
            if joined:
                yield joined.encode()
            while not query.full:
                wake.clear()
                with cluster.store.lock:
                    live = cluster.store.by_uid(uid)
                    over = live is None or _ended(live, container, run)
                    due = cluster.training.print_due(live, container) if live is not None and not over else None
                    lines = followed.since(position)
                position = max(position, followed.end)
                if piece := query.next(lines):
                    yield piece.encode()
                if over:
                    return
                pause = _LONG if due is None else max((due - cluster.now()) / cluster.clock.speed, BATCH_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LONG if cluster.clock.paused else min(pause, _LONG)):
                        await wake.wait()
        finally:
            cluster.logs.unfollow(uid, notify)
            cluster.store.unsubscribe(subscription)

    return Stream(follow, "text/plain; charset=utf-8")


class _Query:
    """What is asked of a log."""

    def __init__(self, cluster: Cluster, call: Call) -> None:
        self.previous, self._stamps = call.flag("previous"), call.flag("timestamps")
        self._since: float | None = None
        if "sinceSeconds" in call.query and call.query.get("sinceTime"):
            raise ApiError(400, "at most one of sinceTime or sinceSeconds may be specified")
        if "sinceSeconds" in call.query:
            self._since = cluster.now() - _number(call, "sinceSeconds")
        elif call.query.get("sinceTime"):
            self._since = math.floor(parse_time(call.query["sinceTime"]))
        self._tail = _number(call, "tailLines") if "tailLines" in call.query else None
        self._room = _number(call, "limitBytes") if "limitBytes" in call.query else None

    @property
    def full(self) -> bool:
        """Whether as many bytes were sent as were asked for."""
        return self._room == 0

    def first(self, lines: list[Line]) -> str:
        if self._tail is not None:
            lines = lines[-self._tail :] if self._tail else []
        return self.next(lines)

    def next(self, lines: Iterable[Line]) -> str:
        since = self._since
        joined = "".join(
            f"{stamp(at)} {line}\n" if self._stamps else f"{line}\n"
            for at, line in lines
            if since is None or at >= since
        )
        if self._room is None:
            return joined
        sent = joined.encode()[: self._room]
        self._room -= len(sent)
        return sent.decode(errors="ignore")


def _number(call: Call, name: str) -> int:
    try:
        value = int(call.query[name])
    except ValueError:
        value = -1
    if value < 0:
        raise ApiError(400, f"{name}: Invalid value: {call.query[name]!r}: must be greater than or equal to 0")
    return value


def _container(call: Call, pod: Json) -> str:
    names = [c["name"] for c in [*dig(pod, "spec.initContainers", []), *dig(pod, "spec.containers", [])]]
    wanted = call.query.get("container")
    if wanted and wanted not in names:
        raise ApiError(400, f"container {wanted} is not valid for pod {pod['metadata']['name']}")
    annotated = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    main = [c["name"] for c in dig(pod, "spec.containers", [])]
    if not wanted and len(main) > 1 and annotated is None:
        raise ApiError(
            400,
            f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{' '.join(main)}]",
        )
    return wanted or annotated or main[0]


def _ended(pod: Json, container: str, run: str) -> bool:
    """Whether the run of a container that is followed is over."""
    for status in dig(pod, "status.containerStatuses", []):
        if status["name"] == container:
            return run_name(pod, status) != run or not dig(status, "state.running")
    return dig(pod, "status.phase") in ("Succeeded", "Failed")


def _waits_for(status: Json) -> str:
    """Why a container has not started, as the kubelet answers who asks for its log."""
    reason = str(dig(status, "state.waiting.reason", "ContainerCreating"))
    return "trying and failing to pull image" if reason in ("ImagePullBackOff", "ErrImagePull") else reason


def _previous(cluster: Cluster, pod: Json, container: str, status: Json) -> Log:
    """What the container printed in its last run but one; while it waits to start again, in its last."""
    uid = pod["metadata"]["uid"]
    if dig(status, "state.waiting") and dig(status, "lastState.terminated"):
        return cluster.logs.log(uid, container)
    found = cluster.logs.previous(uid, container)
    if found is None:
        raise ApiError(400, f'previous terminated container "{container}" in pod "{pod["metadata"]["name"]}" not found')
    return found
