"""What every controller is: it hears of changes, names what they concern, and brings that into order.

https://kubernetes.io/docs/concepts/architecture/controller/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from sandbox.kubernetes.objects import clone, dig, is_true, owner_reference
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import Change, StorageKey

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

Key = tuple[str, ...]

PODS, NODES, NAMESPACES = ("", "pods"), ("", "nodes"), ("", "namespaces")


class Controller:
    """Reconciling is level-triggered: it looks at what is, not at what changed, and may run at any time."""

    name: ClassVar[str]
    watches: ClassVar[tuple[StorageKey, ...]] = ()
    """The kinds whose changes it hears; empty for all."""
    calls_cloud: ClassVar[bool] = False
    """Whether it asks AWS. Such a controller is not run under the store's lock, and takes it where it needs it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self.registry = cluster.registry

    def keys(self, change: Change) -> Iterable[Key]:
        """What a change concerns; by default the object itself, while it exists."""
        if change.type != "DELETED":
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        raise NotImplementedError

    def later(self, seconds: float, key: Key) -> None:
        """Reconcile a key again in so many sandbox seconds."""
        self.cluster.controllers.enqueue_after(seconds, self.name, key)

    def kind(self, plural: str, group: str = "", version: str = "v1") -> ResourceType:
        return self.registry.type(plural, group, version)

    def find(self, kind: ResourceType, key: Key) -> Json | None:
        return self.store.get(kind, key[0], key[1])

    def status(self, kind: ResourceType, obj: Json, status: Json) -> None:
        """Write a status if it differs from the one that is there."""
        if obj.get("status") != status:
            meta = obj["metadata"]
            self.registry.modify(kind, meta.get("namespace"), meta["name"], lambda o: o.update(status=status), "status")

    def owned(self, owner: Json, kind: str) -> list[Json]:
        """What an object controls, oldest first."""
        uid = owner["metadata"]["uid"]
        found = [
            dependent
            for dependent in self.store.dependents(uid)
            if dependent["kind"] == kind
            and any(r["uid"] == uid and r.get("controller") for r in dependent["metadata"]["ownerReferences"])
        ]
        return sorted(found, key=lambda o: (o["metadata"]["creationTimestamp"], o["metadata"]["name"]))

    def make_pod(self, owner: Json, template: Json, name: str | None = None, labels: Json | None = None) -> Json:
        """A pod from a template, controlled by its owner."""
        meta = dig(template, "metadata", {})
        pod: Json = {
            "metadata": {
                "labels": {**(meta.get("labels") or {}), **(labels or {})},
                "annotations": dict(meta.get("annotations") or {}),
                "ownerReferences": [owner_reference(owner)],
            },
            "spec": clone(template["spec"]),
        }
        for container in [*dig(pod, "spec.initContainers", []), *dig(pod, "spec.containers", [])]:
            # A custom resource's template may hold numbers; a pod holds quantities.
            for amounts in (container.get("resources") or {}).values():
                if isinstance(amounts, dict):
                    amounts.update({name: str(amount) for name, amount in amounts.items()})
        if not pod["metadata"]["annotations"]:
            del pod["metadata"]["annotations"]
        if name is None:
            pod["metadata"]["generateName"] = owner["metadata"]["name"] + "-"
        else:
            pod["metadata"]["name"] = name
        return pod


def object_key(obj: Json) -> Key:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


def controller_of(obj: Json, kind: str) -> Key | None:
    """The key of the object of that kind that controls this one."""
    for reference in obj["metadata"].get("ownerReferences") or []:
        if reference.get("controller") and reference["kind"] == kind:
            return obj["metadata"].get("namespace") or "", reference["name"]
    return None


def is_active(pod: Json) -> bool:
    """Neither finished nor on its way out."""
    return dig(pod, "status.phase") not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Json) -> bool:
    return is_active(pod) and is_true(pod, "Ready")


def is_deleted(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
