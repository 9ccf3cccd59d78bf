"""Watches: the changes of a kind from a revision on, as lines of JSON.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from .errors import ApiError, expired
from .objects import dig
from .replies import Stream, encode, list_form, object_form, wants_table
from .requests import Call
from .resources import Json, ResourceType
from .selectors import Predicate
from .store import ADDED, DELETED, MODIFIED, Change, Store, Subscription

BOOKMARK_SECONDS = 15.0
DEFAULT_SECONDS = 1800.0
MAX_BACKLOG = 20_000
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchDropped(Exception):
    """The connection breaks, as it does when a load balancer or an API server goes."""


class _Feed:
    """The changes that a watch has still to send, filled by writers in any thread."""

    def __init__(self, store: Store, kind: ResourceType) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._subscription = Subscription(kind.storage_key, self._changed)
        self.pending: deque[Change] = deque()
        self.dropped = False

    def open(self, since: int) -> None:
        """Start with what happened after ``since``. Called under the store's lock."""
        self.pending.extend(self._store.since(self._subscription.storage_key, since))
        self._store.subscribe(self._subscription)

    def close(self) -> None:
        self._store.unsubscribe(self._subscription)

    def _changed(self, change: Change | None) -> None:
        if change is None or len(self.pending) > MAX_BACKLOG:
            self.dropped = True
        else:
            self.pending.append(change)
        self._loop.call_soon_threadsafe(self._wake.set)

    async def wait(self, seconds: float) -> bool:
        """Wait for a change; False when the time is over."""
        if not self.pending and not self.dropped:
            try:
                await asyncio.wait_for(self._wake.wait(), max(seconds, 0))
            except TimeoutError:
                return False
        self._wake.clear()
        return True


@dataclass(frozen=True)
class _Scope:
    """What a watch shows."""

    namespace: str | None
    predicate: Predicate | None

    def includes(self, obj: Json | None) -> bool:
        return (
            obj is not None
            and (self.namespace is None or obj["metadata"].get("namespace") == self.namespace)
            and (self.predicate is None or self.predicate(obj))
        )

    def event_type(self, change: Change) -> str | None:
        """An object that comes into the selection is ADDED to it, one that leaves it DELETED."""
        now, before = self.includes(change.new), self.includes(change.old)
        if change.type == DELETED:
            return DELETED if now or before else None
        if change.type == MODIFIED and now != before:
            return ADDED if now else DELETED
        return change.type if now else None


def watch(
    call: Call, store: Store, kind: ResourceType, namespace: str | None, predicate: Predicate | None, now: float
) -> Stream:
    """Called under the store's lock, in the event loop."""
    scope = _Scope(namespace, predicate)
    asked = call.query.get("resourceVersion", "")
    initial = call.query.get("sendInitialEvents")
    from_start = initial == "true" or (asked in ("", "0") and initial != "false")
    revision = store.revision if asked in ("", "0") or initial == "true" else _revision(asked)
    bookmarks = call.flag("allowWatchBookmarks")
    if revision > store.revision:
        raise too_large(revision, store.revision)

    def line(kind_of_event: str, obj: Json) -> bytes:
        return encode({"type": kind_of_event, "object": obj}) + b"\n"

    def shown(obj: Json) -> Json:
        return object_form(call, kind, obj, now)

    def bookmark(at: int, **meta: object) -> bytes:
        marker: Json = {
            "kind": kind.kind,
            "apiVersion": kind.group_version,
            "metadata": {"resourceVersion": str(at), "creationTimestamp": None, **meta},
        }
        if wants_table(call):
            marker = list_form(call, kind, [], marker["metadata"], now)
        return line("BOOKMARK", marker)

    if revision < store.floor and not from_start:
        gone = expired(f"too old resource version: {revision} ({store.floor})")

        async def refuse() -> AsyncIterator[bytes]:
            yield line("ERROR", gone.status())

        return Stream(refuse)

    feed = _Feed(store, kind)
    existing = [obj for obj in store.objects(kind).values() if scope.includes(obj)] if from_start else []
    feed.open(revision)
    timeout = float(call.query.get("timeoutSeconds") or DEFAULT_SECONDS)

    async def stream() -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end, sent = loop.time() + timeout, revision
        try:
            if existing:
                yield b"".join(line(ADDED, shown(obj)) for obj in existing)
            if initial == "true":
                yield bookmark(revision, annotations={INITIAL_EVENTS_END: "true"})
            while (left := end - loop.time()) > 0:
                if await feed.wait(min(left, BOOKMARK_SECONDS) if bookmarks else left):
                    if feed.dropped:
                        raise WatchDropped
                    lines = []
                    while feed.pending:
                        change = feed.pending.popleft()
                        sent = change.revision
                        if event_type := scope.event_type(change):
                            lines.append(line(event_type, shown(_at(change))))
                    if lines:
                        yield b"".join(lines)
                elif bookmarks and loop.time() < end:
                    # Nothing of this kind is pending, so everything up to the store's revision has been seen.
                    with store.lock:
                        sent = sent if feed.pending else store.revision
                    yield bookmark(sent)
        finally:
            feed.close()

    return Stream(stream)


def _at(change: Change) -> Json:
    """The object at the change's revision: an object that only leaves a selection carries that revision too."""
    if dig(change.new, "metadata.resourceVersion") == str(change.revision):
        return change.new
    return {**change.new, "metadata": {**change.new["metadata"], "resourceVersion": str(change.revision)}}


def _revision(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ApiError(400, f"Invalid value: {text!r}: strconv.ParseUint: invalid syntax") from error


def too_large(asked: int, current: int) -> ApiError:
    """A resource version from the future, for instance of another cluster."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(
        504,
        f"Too large resource version: {asked}, current: {current}",
        "Timeout",
        {"causes": causes, "retryAfterSeconds": 1},
    )
