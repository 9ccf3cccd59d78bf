"""Namespaces: their furniture, and their end. https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sandbox.kubernetes.objects import clone, dig, set_condition
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import NAMESPACES, Controller, Key, is_deleted


class NamespaceController(Controller):
    """Empties a namespace that is being deleted, and then lets it go."""

    name = "namespace"

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == NAMESPACES:
            if change.type != DELETED and is_deleted(change.new):
                yield "", change.new["metadata"]["name"]
            return
        namespace = change.new["metadata"].get("namespace")
        if namespace is None or (change.type != DELETED and not is_deleted(change.new)):
            return
        found = self.store.get(self.kind("namespaces"), None, namespace)
        account = change.storage_key == ("", "serviceaccounts") and change.new["metadata"]["name"] == "default"
        if found is not None and (is_deleted(found) or account):
            yield "", namespace

    def reconcile(self, key: Key) -> None:
        kind = self.kind("namespaces")
        namespace = self.find(kind, key)
        if namespace is None:
            return
        if not is_deleted(namespace):
            self.registry.furnish_namespace(key[1])
            return
        for storage_key, obj in self.store.in_namespace(key[1]):
            if not is_deleted(obj):
                self.registry.delete(self.store.type_of(storage_key), obj, {"propagationPolicy": "Background"})
        left = self.store.in_namespace(key[1])
        if left:
            self._report(namespace, left)
        elif dig(namespace, "spec.finalizers"):
            self.registry.modify(kind, None, key[1], lambda o: o["spec"].pop("finalizers"))

    def _report(self, namespace: Json, left: list[tuple[tuple[str, str], Json]]) -> None:
        status, now = clone(namespace.get("status") or {}), self.registry.timestamp()
        counts = Counter(f"{plural}.{group}" if group else plural for (group, plural), _ in left)
        resources = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(counts.items()))
        set_condition(
            status,
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            f"Some resources are remaining: {resources}",
            now,
        )
        finalizers = Counter(f for _, obj in left for f in obj["metadata"].get("finalizers") or [])
        if finalizers:
            text = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
            set_condition(
                status,
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {text}",
                now,
            )
        self.status(self.kind("namespaces"), namespace, status)
