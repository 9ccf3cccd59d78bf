"""A definition that is deleted takes its objects along before it goes."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.objects import dig
from sandbox.kubernetes.registry import CRD_FINALIZER
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, is_deleted

DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")


class DefinitionCleanup(Controller):
    name = "definitions"

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == DEFINITIONS:
            if change.type != DELETED and is_deleted(change.new):
                yield "", change.new["metadata"]["name"]
        elif change.type == DELETED and "." in change.storage_key[0]:
            yield "", f"{change.storage_key[1]}.{change.storage_key[0]}"

    def reconcile(self, key: Key) -> None:
        kind = self.kind(DEFINITIONS[1], DEFINITIONS[0])
        definition = self.find(kind, key)
        if definition is None or not is_deleted(definition):
            return
        group, plural = definition["spec"]["group"], dig(definition, "spec.names.plural")
        served = next((k for k in self.store.types() if (k.group, k.plural) == (group, plural)), None)
        if served is not None:
            for obj in list(self.store.objects(served).values()):
                if not is_deleted(obj):
                    self.registry.delete(served, obj, {"propagationPolicy": "Background"})
            if self.store.objects(served):
                return
        if CRD_FINALIZER in (definition["metadata"].get("finalizers") or []):
            self.registry.modify(kind, None, key[1], lambda o: o["metadata"]["finalizers"].remove(CRD_FINALIZER))
