"""Garbage collection along ownerReferences: https://kubernetes.io/docs/concepts/architecture/garbage-collection/"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.registry import FOREGROUND, ORPHAN
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import ADDED, DELETED, Change

from .base import Controller, Key, is_deleted


class GarbageCollector(Controller):
    name = "garbage"

    def keys(self, change: Change) -> Iterable[Key]:
        meta = change.new["metadata"]
        references = meta.get("ownerReferences") or []
        if change.type == DELETED:
            if self.store.dependents(meta["uid"]):
                yield ("owner", meta["uid"])
            for reference in references:
                yield ("owner", reference["uid"])
        elif is_deleted(change.new) and {FOREGROUND, ORPHAN} & set(meta.get("finalizers") or []):
            yield ("owner", meta["uid"])
        if change.type == ADDED and references:
            yield ("dependent", meta["uid"])

    def reconcile(self, key: Key) -> None:
        role, uid = key
        if role == "dependent":
            dependent = self.store.by_uid(uid)
            if dependent is not None and not is_deleted(dependent) and self._abandoned(dependent):
                self._delete(dependent)
            return
        owner = self.store.by_uid(uid)
        if owner is None:
            for dependent in self.store.dependents(uid):
                if self._abandoned(dependent) and not is_deleted(dependent):
                    self._delete(dependent)
        elif is_deleted(owner):
            self._release(owner)

    def _abandoned(self, obj: Json) -> bool:
        references = obj["metadata"].get("ownerReferences") or []
        return bool(references) and all(self.store.by_uid(reference["uid"]) is None for reference in references)

    def _delete(self, obj: Json, policy: str = "Background") -> None:
        storage_key = self.store.location(obj["metadata"]["uid"])
        if storage_key is not None:
            self.registry.delete(self.store.type_of(storage_key), obj, {"propagationPolicy": policy})

    def _release(self, owner: Json) -> None:
        """An owner that waits for its dependents: they go first, or they are let go."""
        uid, finalizers = owner["metadata"]["uid"], owner["metadata"].get("finalizers") or []
        if ORPHAN in finalizers:
            for dependent in self.store.dependents(uid):
                self._disown(dependent, uid)
            self._drop_finalizer(owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for dependent in self.store.dependents(uid):
                others = [r for r in dependent["metadata"]["ownerReferences"] if r["uid"] != uid]
                if any(self.store.by_uid(reference["uid"]) for reference in others):
                    self._disown(dependent, uid)
                elif not is_deleted(dependent):
                    self._delete(dependent, "Foreground")
            blocking = [
                dependent
                for dependent in self.store.dependents(uid)
                if any(
                    r["uid"] == uid and r.get("blockOwnerDeletion", False)
                    for r in dependent["metadata"]["ownerReferences"]
                )
            ]
            if not blocking:
                self._drop_finalizer(owner, FOREGROUND)

    def _disown(self, dependent: Json, uid: str) -> None:
        def mutate(obj: Json) -> None:
            meta = obj["metadata"]
            meta["ownerReferences"] = [r for r in meta["ownerReferences"] if r["uid"] != uid]
            if not meta["ownerReferences"]:
                del meta["ownerReferences"]

        meta = dependent["metadata"]
        storage_key = self.store.location(meta["uid"])
        if storage_key is not None:
            self.registry.modify(self.store.type_of(storage_key), meta.get("namespace"), meta["name"], mutate)

    def _drop_finalizer(self, obj: Json, finalizer: str) -> None:
        meta = obj["metadata"]
        storage_key = self.store.location(meta["uid"])
        if storage_key is not None:
            self.registry.modify(
                self.store.type_of(storage_key),
                meta.get("namespace"),
                meta["name"],
                lambda o: o["metadata"]["finalizers"].remove(finalizer),
            )
