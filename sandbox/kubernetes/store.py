"""The objects of one cluster, their history, and who watches them.

Stored objects are never changed in place: a write stores a new object, so a reader needs no copy. Every call holds
:attr:`Store.lock`; a caller that reads and then writes holds it around both.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .resources import Json, ResourceType
from .schemas import built_ins

StorageKey = tuple[str, str]
ObjectKey = tuple[str, str]
"""(namespace or "", name)"""

PODS: StorageKey = ("", "pods")

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


@dataclass(frozen=True)
class Change:
    """One write. ``old`` is the object before it; a deletion's ``new`` is the last state, at its revision."""

    revision: int
    type: str
    storage_key: StorageKey
    new: Json
    old: Json | None


@dataclass(eq=False)
class Subscription:
    """Somebody who wants the changes of one kind, from now on. ``changed`` is called in the writer's thread."""

    storage_key: StorageKey
    changed: Callable[[Change | None], None]
    """Called with None when the subscription was dropped by :meth:`Store.drop_subscriptions`."""


def object_key(obj: Json) -> ObjectKey:
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def _place(pod: Json) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


class Store:
    """All objects of a cluster by kind, with one revision counter."""

    def __init__(self, history: int = 5000) -> None:
        self.lock = threading.RLock()
        self.revision = 1
        self.floor = 1
        """Watches from before this revision are answered 410."""
        self.custom_types: dict[tuple[str, str, str], ResourceType] = {}
        self.types_revision = 0
        """Moves when the set of served kinds does."""
        self._objects: dict[StorageKey, dict[ObjectKey, Json]] = {}
        self._by_uid: dict[str, tuple[StorageKey, ObjectKey]] = {}
        self._dependents: dict[str, set[str]] = {}
        self._on_node: dict[str, dict[ObjectKey, None]] = {}
        self._history: deque[Change] = deque(maxlen=history)
        self._subscriptions: dict[StorageKey, set[Subscription]] = {}
        self.listeners: list[Callable[[Change], None]] = []

    def type(self, group: str, version: str, plural: str) -> ResourceType | None:
        return built_ins().get((group, version, plural)) or self.custom_types.get((group, version, plural))

    def types(self) -> Iterator[ResourceType]:
        yield from built_ins().values()
        yield from list(self.custom_types.values())

    def type_of(self, storage_key: StorageKey) -> ResourceType:
        """Any version of a kind, by where it is stored."""
        return next(kind for kind in self.types() if kind.storage_key == storage_key)

    def objects(self, kind: ResourceType) -> dict[ObjectKey, Json]:
        return self._objects.get(kind.storage_key) or {}

    def objects_of(self, storage_key: StorageKey) -> dict[ObjectKey, Json]:
        """Those of a kind that may not be served."""
        return self._objects.get(storage_key) or {}

    def get(self, kind: ResourceType, namespace: str | None, name: str) -> Json | None:
        return self.objects(kind).get(((namespace or "") if kind.namespaced else "", name))

    def by_uid(self, uid: str) -> Json | None:
        found = self._by_uid.get(uid)
        return self._objects[found[0]][found[1]] if found else None

    def location(self, uid: str) -> StorageKey | None:
        found = self._by_uid.get(uid)
        return found[0] if found else None

    def dependents(self, uid: str) -> list[Json]:
        """The objects whose ownerReferences name this uid."""
        found = (self.by_uid(dependent) for dependent in list(self._dependents.get(uid, ())))
        return [obj for obj in found if obj is not None]

    def pods_on(self, node: str) -> list[Json]:
        """The pods of a node; of the empty name those that are not placed."""
        pods = self._objects.get(PODS) or {}
        return [pods[key] for key in self._on_node.get(node, ())]

    def in_namespace(self, namespace: str) -> list[tuple[StorageKey, Json]]:
        return [
            (storage_key, obj)
            for storage_key, objects in list(self._objects.items())
            for (of_namespace, _), obj in list(objects.items())
            if of_namespace == namespace
        ]

    def count(self) -> int:
        return len(self._by_uid)

    def next_revision(self) -> int:
        self.revision += 1
        return self.revision

    def put(self, kind: ResourceType, obj: Json) -> None:
        """Store a new or changed object under a new revision."""
        key = object_key(obj)
        objects = self._objects.setdefault(kind.storage_key, {})
        old = objects.get(key)
        obj["metadata"]["resourceVersion"] = str(self.next_revision())
        objects[key] = obj
        self._index(kind.storage_key, key, obj, old)
        self._record(Change(self.revision, MODIFIED if old else ADDED, kind.storage_key, obj, old))

    def remove(self, kind: ResourceType, obj: Json) -> Json:
        """Delete; answers with the object's last state, at the revision of its deletion."""
        key = object_key(obj)
        old = self._objects[kind.storage_key].pop(key)
        self._unindex(old)
        if kind.storage_key == PODS:
            self._forget_place(key, old)
        last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.next_revision())}}
        self._record(Change(self.revision, DELETED, kind.storage_key, last, old))
        return last

    def drop_kind(self, storage_key: StorageKey) -> None:
        """Forget a kind that is no longer served."""
        self._objects.pop(storage_key, None)

    def _index(self, storage_key: StorageKey, key: ObjectKey, obj: Json, old: Json | None) -> None:
        uid = obj["metadata"]["uid"]
        self._by_uid[uid] = (storage_key, key)
        if storage_key == PODS and (old is None or _place(old) != _place(obj)):
            if old is not None:
                self._forget_place(key, old)
            self._on_node.setdefault(_place(obj), {})[key] = None
        before = (old["metadata"].get("ownerReferences") if old else None) or []
        after = obj["metadata"].get("ownerReferences") or []
        if before != after:
            for reference in before:
                self._dependents.get(reference["uid"], set()).discard(uid)
            for reference in after:
                self._dependents.setdefault(reference["uid"], set()).add(uid)

    def _forget_place(self, key: ObjectKey, pod: Json) -> None:
        held = self._on_node.get(_place(pod), {})
        held.pop(key, None)
        if not held:
            self._on_node.pop(_place(pod), None)

    def _unindex(self, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        self._by_uid.pop(uid, None)
        for reference in obj["metadata"].get("ownerReferences") or []:
            owned = self._dependents.get(reference["uid"])
            if owned is not None:
                owned.discard(uid)
                if not owned:
                    del self._dependents[reference["uid"]]

    def _record(self, change: Change) -> None:
        if len(self._history) == self._history.maxlen:
            self.floor = self._history[0].revision
        self._history.append(change)
        for subscription in tuple(self._subscriptions.get(change.storage_key, ())):
            subscription.changed(change)
        for listener in self.listeners:
            listener(change)

    def since(self, storage_key: StorageKey, revision: int) -> list[Change]:
        """The changes of a kind after a revision."""
        found = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            if change.storage_key == storage_key:
                found.append(change)
        return found[::-1]

    def subscribe(self, subscription: Subscription) -> None:
        self._subscriptions.setdefault(subscription.storage_key, set()).add(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        with self.lock:
            self._subscriptions.get(subscription.storage_key, set()).discard(subscription)

    def drop_subscriptions(self) -> int:
        """End every watch as a broken connection does; how many there were."""
        with self.lock:
            dropped = [s for subscriptions in self._subscriptions.values() for s in subscriptions]
            self._subscriptions.clear()
        for subscription in dropped:
            subscription.changed(None)
        return len(dropped)

    def compact(self) -> int:
        """Forget the history, as etcd does after five minutes: older watches and continue tokens get 410."""
        with self.lock:
            self._history.clear()
            self.floor = self.next_revision()
            return self.floor

    def dump(self) -> Json:
        with self.lock:
            return {
                "revision": self.revision,
                "objects": [
                    [*storage_key, list(objects.values())] for storage_key, objects in self._objects.items() if objects
                ],
            }

    def load(self, dumped: Json) -> None:
        """Replace everything. Open watches are dropped, older revisions are compacted."""
        with self.lock:
            self._objects, self._by_uid, self._dependents, self._on_node = {}, {}, {}, {}
            self.custom_types = {}
            for group, plural, objects in dumped["objects"]:
                for obj in objects:
                    self._objects.setdefault((group, plural), {})[object_key(obj)] = obj
                    self._index((group, plural), object_key(obj), obj, None)
            self.revision = max(self.revision, dumped["revision"])
            self.types_revision += 1
            self.compact()
            self.drop_subscriptions()
