"""What creating, changing and deleting an object means: identity, versions, validation, finalizers, grace.

https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from . import custom, defaulting, errors, kedawebhook, ownership, schemas, services, validation
from .errors import ApiError
from .objects import Mutator, clone, dig, rfc3339
from .ownership import Manager
from .resources import Json, ResourceType
from .store import Store

NAMESPACES = ("", "v1", "namespaces")
EVENT_LIMIT = 2000
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"

_NAME_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_WITHOUT_GENERATION = {
    *("namespaces", "nodes", "services", "persistentvolumes", "persistentvolumeclaims", "serviceaccounts"),
    *("events", "endpoints", "resourcequotas", "leases"),
}
# Set by clients that restore or register, and kept at creation; everybody else's status starts empty.
_STATUS_AT_CREATION = {"nodes", "events", "persistentvolumes", "apiservices"}
_KEPT_METADATA = (
    *("uid", "creationTimestamp", "name", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("generation", "resourceVersion", "generateName"),
)


@dataclass
class Write:
    """How a client writes. Controllers write without a manager: their writes are trusted and not tracked."""

    manager: str | None = None
    operation: str = "Update"
    subresource: str = ""
    dry_run: bool = False
    field_validation: str = "Warn"
    warnings: list[str] = field(default_factory=list)


class Registry:
    """The write semantics over one cluster's store."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self.store = store
        self.now = now

    def timestamp(self) -> str:
        return rfc3339(self.now())

    def type(self, plural: str, group: str = "", version: str = "v1") -> ResourceType:
        found = self.store.type(group, version, plural)
        if found is None:
            raise errors.no_such_resource()
        return found

    def require(self, kind: ResourceType, namespace: str | None, name: str) -> Json:
        found = self.store.get(kind, namespace, name)
        if found is None:
            raise errors.not_found(kind, name)
        return found

    def create(self, kind: ResourceType, namespace: str | None, obj: Json, write: Write | None = None) -> Json:
        """Store a new object. ``obj`` becomes the store's and must not be used afterwards."""
        write = write or Write()
        with self.store.lock:
            meta = self._identify(kind, namespace, obj, write)
            if write.manager is not None:
                validation.drop_unknown_fields(kind, obj, write.field_validation, write.warnings)
                meta = obj["metadata"]
            self._default(kind, obj, None)
            validation.validate(kind, obj)
            self._admit(kind, obj)
            if write.manager and write.operation == "Update":
                meta.pop("managedFields", None)
                manager = Manager(write.manager, "Update", write.subresource)
                ownership.track_update(None, obj, kind.schema, manager, meta["creationTimestamp"])
            if "status" not in obj and not kind.custom:
                defaulting.set_initial_status(kind, obj)
            if write.dry_run:
                return obj
            self.store.put(kind, obj)
            self._written(kind, obj)
            return self.store.get(kind, meta.get("namespace"), meta["name"]) or obj

    def _identify(self, kind: ResourceType, namespace: str | None, obj: Json, write: Write) -> Json:
        """Give a new object its identity, or refuse it."""
        obj.update(apiVersion=kind.group_version, kind=kind.kind)
        meta: Json = obj.setdefault("metadata", {})
        if kind.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                message = "the namespace of the provided object does not match the namespace sent on the request"
                raise ApiError(400, message)
        else:
            meta.pop("namespace", None)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + "".join(random.choices(_NAME_SUFFIX, k=5))
        if not meta.get("name"):
            raise errors.invalid(kind, "", [errors.required("metadata.name", "name or generateName is required")])
        name = meta["name"]
        if kind.namespaced:
            self._check_namespace(kind, namespace or "", name)
        if self.store.get(kind, namespace, name) is not None:
            raise errors.already_exists(kind, name)
        if meta.get("resourceVersion"):
            raise ApiError(400, "resourceVersion should not be set on objects to be created")
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            meta.pop(key, None)
        if "status" in kind.subresources and kind.plural not in _STATUS_AT_CREATION and write.manager is not None:
            obj.pop("status", None)
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=self.timestamp())
        if "spec" in obj and kind.plural not in _WITHOUT_GENERATION:
            meta["generation"] = 1
        if kind.plural == "customresourcedefinitions" and CRD_FINALIZER not in meta.setdefault("finalizers", []):
            meta["finalizers"].append(CRD_FINALIZER)
        return meta

    def _check_namespace(self, kind: ResourceType, namespace: str, name: str) -> None:
        namespaces = self.type("namespaces")
        found = self.store.get(namespaces, None, namespace)
        if found is None:
            raise errors.not_found(namespaces, namespace)
        if found["metadata"].get("deletionTimestamp"):
            causes = [
                errors.cause("NamespaceTerminating", "metadata.namespace", f"namespace {namespace} is being terminated")
            ]
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise errors.forbidden(kind, name, message, causes)

    def _default(self, kind: ResourceType, obj: Json, old: Json | None) -> None:
        if kind.custom:
            schemas.apply_defaults(kind.schema, obj)
        else:
            defaulting.apply(kind, obj, old)

    def _admit(self, kind: ResourceType, obj: Json) -> None:
        """What admission plugins and allocators of a real API server add or refuse at creation."""
        match kind.group, kind.plural:
            case "", "services":
                services.allocate(self.store, kind, obj)
            case "keda.sh", "scaledobjects":
                kedawebhook.judge(self.store, obj)
            case "", "pods":
                account, namespace = obj["spec"]["serviceAccountName"], obj["metadata"]["namespace"]
                if self.store.get(self.type("serviceaccounts"), namespace, account) is None:
                    message = (
                        f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
                    )
                    raise errors.forbidden(kind, obj["metadata"]["name"], message)

    def update(self, kind: ResourceType, old: Json, new: Json, write: Write | None = None) -> Json:
        """Replace the object ``old``, which the caller has read under the lock. Returns ``old`` if nothing changes."""
        write = write or Write()
        with self.store.lock:
            meta, before = new.setdefault("metadata", {}), old["metadata"]
            name = before["name"]
            if meta.get("name", name) != name:
                message = f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
                raise ApiError(400, message)
            if meta.get("resourceVersion") and meta["resourceVersion"] != before["resourceVersion"]:
                raise errors.stale(kind, name)
            if meta.get("uid") and meta["uid"] != before["uid"]:
                raise errors.precondition_failed(kind, name, "UID", meta["uid"], before["uid"])
            new = self._confine(kind, old, new, write.subresource)
            meta = new["metadata"]
            new.update(apiVersion=kind.group_version, kind=kind.kind)
            for key in _KEPT_METADATA:
                if key in before:
                    meta[key] = before[key]
                else:
                    meta.pop(key, None)
            self._check_finalizers(kind, before, meta)
            if write.manager is not None:
                validation.drop_unknown_fields(kind, new, write.field_validation, write.warnings)
                self._default(kind, new, old)
                validation.validate(kind, new, old)
                meta = new["metadata"]
            if write.manager and write.operation == "Update":
                if before.get("managedFields") is not None:
                    meta["managedFields"] = before["managedFields"]
                manager = Manager(write.manager, "Update", write.subresource)
                ownership.track_update(old, new, kind.schema, manager, self.timestamp())
            elif write.operation == "Update" and "managedFields" in before:
                meta["managedFields"] = before["managedFields"]
            if "generation" in before and _desired(old) != _desired(new):
                meta["generation"] = before["generation"] + 1
            if new == {**old, "apiVersion": kind.group_version}:
                return old
            if write.dry_run:
                return new
            if meta.get("deletionTimestamp") and not meta.get("finalizers") and self._gone(kind, new):
                return self.purge(kind, new)
            self.store.put(kind, new)
            self._written(kind, new)
            return self.store.get(kind, meta.get("namespace"), name) or new

    @staticmethod
    def _confine(kind: ResourceType, old: Json, new: Json, subresource: str) -> Json:
        """The status subresource changes only the status, the object itself everything else."""
        if subresource == "status":
            meta = dict(old["metadata"])
            if "managedFields" in new["metadata"]:
                meta["managedFields"] = new["metadata"]["managedFields"]
            if not kind.custom:
                meta["annotations"] = new["metadata"].get("annotations", meta.get("annotations"))
                meta = {key: value for key, value in meta.items() if value is not None}
            confined = {**old, "metadata": meta}
            confined.pop("status", None)
            if new.get("status") is not None:
                confined["status"] = new["status"]
            return confined
        if subresource == "" and "status" in kind.subresources:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        return new

    @staticmethod
    def _check_finalizers(kind: ResourceType, before: Json, meta: Json) -> None:
        added = set(meta.get("finalizers") or []) - set(before.get("finalizers") or [])
        if before.get("deletionTimestamp") and added:
            message = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
            causes = [errors.cause("FieldValueForbidden", "metadata.finalizers", f"{message} {sorted(added)}")]
            raise errors.invalid(kind, before["name"], causes)

    @staticmethod
    def _gone(kind: ResourceType, obj: Json) -> bool:
        """Whether an object that is being deleted and has no finalizers may go; a running pod waits for its kubelet."""
        if kind.plural == "namespaces" and kind.group == "":
            return not dig(obj, "spec.finalizers")
        if kind.plural == "pods" and kind.group == "":
            return not obj["metadata"].get("deletionGracePeriodSeconds")
        return True

    def modify(
        self, kind: ResourceType, namespace: str | None, name: str, mutate: Mutator, subresource: str | None = None
    ) -> Json | None:
        """A controller's read-change-write. None if the object is gone. ``subresource`` None may change everything."""
        with self.store.lock:
            old = self.store.get(kind, namespace, name)
            if old is None:
                return None
            new = clone(old)
            mutate(new)
            return self.update(kind, old, new, Write(subresource="*" if subresource is None else subresource))

    def delete(self, kind: ResourceType, obj: Json, options: Json | None = None, dry_run: bool = False) -> Json:
        """Delete or start to delete. https://kubernetes.io/docs/concepts/architecture/garbage-collection/"""
        options = options or {}
        with self.store.lock:
            meta = obj["metadata"]
            self._check_preconditions(kind, meta, options.get("preconditions") or {})
            if dry_run:
                return obj
            policy = options.get("propagationPolicy")
            if policy is None and options.get("orphanDependents") is not None:
                policy = "Orphan" if options["orphanDependents"] else "Background"
            new: Json = clone(obj)
            new_meta = new["metadata"]
            if not meta.get("deletionTimestamp"):
                finalizers = new_meta.setdefault("finalizers", [])
                if policy == "Foreground" and FOREGROUND not in finalizers:
                    finalizers.append(FOREGROUND)
                elif policy == "Orphan" and ORPHAN not in finalizers:
                    finalizers.append(ORPHAN)
            grace = self._grace(kind, obj, options)
            held = bool(new_meta.get("finalizers")) or (kind.group, kind.plural) == ("", "namespaces") or grace > 0
            if not held:
                return self.purge(kind, new)
            if not new_meta.get("finalizers"):
                new_meta.pop("finalizers", None)
            if meta.get("deletionTimestamp"):
                if grace >= meta.get("deletionGracePeriodSeconds", 0):
                    return obj
            elif "generation" in new_meta:
                new_meta["generation"] += 1
            new_meta.update(deletionTimestamp=rfc3339(self.now() + grace), deletionGracePeriodSeconds=grace)
            if (kind.group, kind.plural) == ("", "namespaces"):
                new.setdefault("status", {})["phase"] = "Terminating"
            self.store.put(kind, new)
            return new

    @staticmethod
    def _check_preconditions(kind: ResourceType, meta: Json, preconditions: Json) -> None:
        for key, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted = preconditions.get(key)
            if wanted and wanted != meta[key]:
                raise errors.precondition_failed(kind, meta["name"], label, wanted, meta[key])

    @staticmethod
    def _grace(kind: ResourceType, obj: Json, options: Json) -> int:
        """Only a pod that a kubelet runs is given time to stop."""
        if (kind.group, kind.plural) != ("", "pods") or not dig(obj, "spec.nodeName"):
            return 0
        if dig(obj, "status.phase") in ("Succeeded", "Failed"):
            return 0
        asked = options.get("gracePeriodSeconds")
        return int(dig(obj, "spec.terminationGracePeriodSeconds", 30) if asked is None else asked)

    def purge(self, kind: ResourceType, obj: Json) -> Json:
        """Remove from the store, whatever holds the object."""
        with self.store.lock:
            if self.store.get(kind, obj["metadata"].get("namespace"), obj["metadata"]["name"]) is None:
                return obj
            last = self.store.remove(kind, obj)
            if kind.plural == "customresourcedefinitions":
                custom.withdraw(self.store, obj)
                self.store.drop_kind((obj["spec"]["group"], obj["spec"]["names"]["plural"]))
            return last

    def _written(self, kind: ResourceType, obj: Json) -> None:
        """What follows a write within the same request."""
        if kind.plural == "customresourcedefinitions" and kind.group == "apiextensions.k8s.io":
            custom.serve(self.store, obj)
            if not dig(obj, "status.conditions"):
                now = self.timestamp()
                self.modify(
                    kind,
                    None,
                    obj["metadata"]["name"],
                    lambda o: o.update(status=custom.established_status(o, now)),
                    "status",
                )
        elif (kind.group, kind.plural) == ("", "namespaces") and not obj["metadata"].get("deletionTimestamp"):
            self.furnish_namespace(obj["metadata"]["name"])

    def furnish_namespace(self, namespace: str) -> None:
        """The service account and the CA that controllers put into every namespace."""
        accounts, maps = self.type("serviceaccounts"), self.type("configmaps")
        if self.store.get(accounts, namespace, "default") is None:
            self.create(accounts, namespace, {"metadata": {"name": "default"}})
        if self.store.get(maps, namespace, "kube-root-ca.crt") is None:
            self.create(
                maps, namespace, {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": self.root_certificate()}}
            )

    root_certificate: Callable[[], str] = staticmethod(lambda: "")

    def event(self, obj: Json, reason: str, message: str, warning: bool = False, component: str = "sandbox") -> None:
        """Record an event about an object; a repetition raises the count."""
        meta, kind, now = obj["metadata"], self.type("events"), self.timestamp()
        namespace = meta.get("namespace") or "default"
        digest = hashlib.sha256(f"{meta['uid']}/{reason}/{message}".encode()).hexdigest()[:16]
        name = f"{meta['name']}.{digest}"
        with self.store.lock:
            where = self.store.get(self.type("namespaces"), None, namespace)
            if where is None or where["metadata"].get("deletionTimestamp"):
                return
            if self.store.get(kind, namespace, name) is not None:
                self.modify(kind, namespace, name, lambda e: e.update(count=e.get("count", 1) + 1, lastTimestamp=now))
                return
            self.create(
                kind,
                namespace,
                {
                    "metadata": {"name": name},
                    "involvedObject": {
                        "apiVersion": obj["apiVersion"],
                        "kind": obj["kind"],
                        "name": meta["name"],
                        "namespace": meta.get("namespace", ""),
                        "uid": meta["uid"],
                        "resourceVersion": meta["resourceVersion"],
                    },
                    "reason": reason,
                    "message": message,
                    "type": "Warning" if warning else "Normal",
                    "count": 1,
                    "firstTimestamp": now,
                    "lastTimestamp": now,
                    "source": {"component": component},
                    "reportingComponent": component,
                    "reportingInstance": "",
                },
            )
            events = self.store.objects(kind)
            if len(events) > EVENT_LIMIT:
                for old in sorted(events.values(), key=lambda e: e.get("lastTimestamp") or "")[: EVENT_LIMIT // 4]:
                    self.store.remove(kind, old)


def _desired(obj: Json) -> Json:
    """What an object asks for: everything but its metadata and status."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion")}
