"""Operators in brief: what a custom resource's status becomes, and when.

A rule says how many sandbox seconds after an object's creation (or its last change of spec) the status gets a form.
Others add theirs with :func:`rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sandbox.kubernetes.objects import clone, dig, parse_time, set_condition
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, is_deleted

StatusOf = Callable[[Json, str], Json]
"""(object, now) to the fields that its status gets."""


@dataclass(frozen=True)
class Rule:
    after: float
    status: StatusOf


RULES: dict[tuple[str, str], list[Rule]] = {}
"""By (group, plural); in order of time."""


def rule(group: str, plural: str, after: float) -> Callable[[StatusOf], StatusOf]:
    """Register a rule for a kind."""

    def register(status: StatusOf) -> StatusOf:
        rules = RULES.setdefault((group, plural), [])
        rules.append(Rule(after, status))
        rules.sort(key=lambda r: r.after)
        return status

    return register


def ready(reason: str, message: str, kind: str = "Ready", **fields: object) -> StatusOf:
    """A status with one true condition."""

    def status(obj: Json, now: str) -> Json:
        wanted: Json = {"conditions": clone(dig(obj, "status.conditions", [])), **fields}
        set_condition(
            wanted, kind, "True", reason, message, now, observedGeneration=obj["metadata"].get("generation", 1)
        )
        return wanted

    return status


for _group, _plural, _after, _status in (
    ("cert-manager.io", "issuers", 3.0, ready("KeyPairVerified", "Signing CA verified")),
    ("cert-manager.io", "clusterissuers", 3.0, ready("KeyPairVerified", "Signing CA verified")),
    ("cert-manager.io", "certificates", 8.0, ready("Ready", "Certificate is up to date and has not expired")),
):
    rule(_group, _plural, _after)(_status)


class PhaseController(Controller):
    name = "phases"

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key in RULES and change.type != DELETED:
            changed = change.old is None or change.old["metadata"].get("generation") != change.new["metadata"].get(
                "generation"
            )
            if changed:
                meta = change.new["metadata"]
                yield (*change.storage_key, meta.get("namespace") or "", meta["name"])

    def reconcile(self, key: Key) -> None:
        group, plural, namespace, name = key
        kind = next((k for k in self.store.types() if (k.group, k.plural) == (group, plural)), None)
        obj = self.store.get(kind, namespace, name) if kind else None
        if kind is None or obj is None or is_deleted(obj):
            return
        age = self.registry.now() - parse_time(obj["metadata"]["creationTimestamp"])
        for index, step in enumerate(RULES[group, plural]):
            if age < step.after:
                self.later(step.after - age, key)
                return
            done = dig(obj, "metadata.annotations", {}).get("sandbox/phase")
            if done is None or int(done) < index:
                self._advance(obj, key, step, index)
                obj = self.store.get(kind, namespace, name) or obj

    def _advance(self, obj: Json, key: Key, step: Rule, index: int) -> None:
        group, plural, namespace, name = key
        kind = next(k for k in self.store.types() if (k.group, k.plural) == (group, plural))
        fields = step.status(obj, self.registry.timestamp())

        def mutate(new: Json) -> None:
            new["status"] = {**(new.get("status") or {}), **fields}
            new["metadata"].setdefault("annotations", {})["sandbox/phase"] = str(index)

        self.registry.modify(kind, namespace, name, mutate)
