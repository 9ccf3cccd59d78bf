"""Disruption budgets say how many pods may go: https://kubernetes.io/docs/tasks/run-application/configure-pdb/"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.eviction import budget_status
from sandbox.kubernetes.objects import clone, dig, set_condition
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, is_deleted, object_key

BUDGETS = ("policy", "poddisruptionbudgets")


class DisruptionController(Controller):
    name = "disruption"
    watches = (BUDGETS, PODS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == BUDGETS:
            if change.type != DELETED:
                yield object_key(change.new)
            return
        namespace = change.new["metadata"]["namespace"]
        yield from [k for k in self.store.objects(self.kind("poddisruptionbudgets", "policy")) if k[0] == namespace]

    def reconcile(self, key: Key) -> None:
        kind = self.kind("poddisruptionbudgets", "policy")
        budget = self.find(kind, key)
        if budget is None or is_deleted(budget):
            return
        counts = budget_status(self.cluster, budget)
        status = {**clone(dig(budget, "status", {})), **counts}
        status["observedGeneration"] = budget["metadata"].get("generation", 1)
        allowed = counts["disruptionsAllowed"] > 0
        set_condition(
            status,
            "DisruptionAllowed",
            "True" if allowed else "False",
            "SufficientPods" if allowed else "InsufficientPods",
            "",
            self.registry.timestamp(),
        )
        self.status(kind, budget, status)
