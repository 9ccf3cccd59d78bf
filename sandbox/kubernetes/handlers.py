"""The verbs over stored objects: https://kubernetes.io/docs/reference/using-api/api-concepts/#api-verbs"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from . import errors, eventapi, ownership, patches, selectors, watches
from .errors import ApiError
from .objects import clone
from .ownership import Manager
from .replies import Reply, Stream, list_form, object_reply, presented, reply, success
from .requests import Call
from .resources import RETURNS_DELETED_OBJECT, Json, ResourceType
from .schemas import prune
from .store import ObjectKey, object_key

if TYPE_CHECKING:
    from .cluster import Cluster

_ACCEPTED_PATCHES = (
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, "
    "application/apply-patch+yaml"
)


def stored_kind(cluster: Cluster, kind: ResourceType) -> ResourceType:
    """The kind in whose form objects are kept."""
    return cluster.registry.type("events") if kind.group == "events.k8s.io" else kind


def _check_type(kind: ResourceType, body: Json) -> None:
    expected = (kind.group_version, kind.kind)
    given = (body.get("apiVersion", expected[0]), body.get("kind", expected[1]))
    if given[0] != expected[0]:
        raise ApiError(
            400, f"the API version in the data ({given[0]}) does not match the expected API version ({expected[0]})"
        )
    if given[1] != expected[1]:
        raise ApiError(
            400,
            f"{kind.kind} in version {kind.version!r} cannot be handled as a {given[1]}: kind in the data "
            f"({given[1]}) does not match the expected kind ({expected[1]})",
        )


def create(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None) -> Reply:
    body = call.body_object
    _check_type(kind, body)
    if kind.namespaced and namespace is None:
        raise errors.no_such_resource()
    obj = eventapi.to_storage(kind, clone(body))
    created = cluster.registry.create(stored_kind(cluster, kind), namespace, obj, call.write())
    return object_reply(call, kind, created, cluster.now(), 201)


def _selected(
    cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, after: ObjectKey | None = None
) -> Iterator[Json]:
    """What is asked for, in order; with ``after`` what follows that key."""
    test = selectors.predicate(kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))
    stored = cluster.store.objects(kind)
    keys = sorted(
        key for key in stored if (namespace is None or key[0] == namespace) and (after is None or key > after)
    )
    return (stored[key] for key in keys if test is None or test(stored[key]))


def list_objects(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None) -> Reply | Stream:
    store = cluster.store
    if call.flag("watch"):
        test = selectors.predicate(kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))
        return watches.watch(call, store, kind, namespace, test, cluster.now())
    asked = call.query.get("resourceVersion", "")
    if asked.isdigit() and int(asked) > store.revision:
        raise watches.too_large(int(asked), store.revision)
    meta: Json = {"resourceVersion": str(store.revision)}
    after: ObjectKey | None = None
    if token := call.query.get("continue"):
        revision, after = _read_continue(token)
        if revision < store.floor:
            message = "The provided continue parameter is too old to display a consistent list result."
            raise errors.expired(message)
    limit = int(call.query.get("limit") or 0)
    following = _selected(cluster, call, kind, namespace, after)
    objects = list(islice(following, limit or None))
    if limit and (more := next(following, None)) is not None:
        token_text = json.dumps([store.revision, *object_key(objects[-1])])
        meta["continue"] = base64.urlsafe_b64encode(token_text.encode()).decode()
        if not (call.query.get("labelSelector") or call.query.get("fieldSelector")):
            # With selectors it is not told. (Kubernetes API: ListMeta)
            meta["remainingItemCount"] = sum(1 for _ in chain([more], following))
    return reply(list_form(call, kind, objects, meta, cluster.now()))


def _read_continue(token: str) -> tuple[int, tuple[str, str]]:
    try:
        revision, namespace, name = json.loads(base64.urlsafe_b64decode(token))
        return int(revision), (namespace, name)
    except ValueError as error:
        raise ApiError(400, f"continue key is not valid: {error}") from error


def delete_collection(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None) -> Reply:
    options = call.delete_options()
    stored = stored_kind(cluster, kind)
    deleted = [
        cluster.registry.delete(stored, obj, options, call.dry_run)
        for obj in list(_selected(cluster, call, kind, namespace))
    ]
    meta = {"resourceVersion": str(cluster.store.revision)}
    return reply(list_form(call, kind, deleted, meta, cluster.now()))


def get(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply:
    return object_reply(call, kind, cluster.registry.require(kind, namespace, name), cluster.now())


def delete(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply:
    obj = cluster.registry.require(kind, namespace, name)
    options = call.delete_options()
    dry_run = call.dry_run or "All" in (options.get("dryRun") or [])
    deleted = cluster.registry.delete(stored_kind(cluster, kind), obj, options, dry_run)
    remains = cluster.store.get(kind, namespace, name) is not None
    if remains or (kind.plural in RETURNS_DELETED_OBJECT and not kind.custom):
        return object_reply(call, kind, deleted, cluster.now())
    return success({"name": name, "group": kind.group, "kind": kind.plural, "uid": obj["metadata"]["uid"]})


def replace(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str, sub: str) -> Reply:
    body = call.body_object
    _check_type(kind, body)
    old = cluster.registry.require(kind, namespace, name)
    if kind.custom and not (body.get("metadata") or {}).get("resourceVersion"):
        message = "Invalid value: 0: must be specified for an update"
        raise errors.invalid(kind, name, [errors.invalid_value("metadata.resourceVersion", message)])
    new = eventapi.to_storage(kind, clone(body))
    updated = cluster.registry.update(stored_kind(cluster, kind), old, new, call.write(sub))
    return object_reply(call, kind, updated, cluster.now())


def patch(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str, sub: str) -> Reply:
    media_type = call.content_type
    if media_type == "application/apply-patch+yaml":
        return _apply(cluster, call, kind, namespace, name, sub)
    live = presented(kind, cluster.registry.require(kind, namespace, name))
    if media_type == "application/json-patch+json":
        new = patches.json_patch(live, call.body)
    elif media_type == "application/merge-patch+json":
        new = patches.merge_patch(live, call.body_object)
    elif media_type == "application/strategic-merge-patch+json" and not kind.custom:
        new = patches.strategic_merge_patch(live, call.body_object, kind.schema)
    else:
        raise ApiError(
            415,
            "the body of the request was in an unknown format - accepted media types include: " + _ACCEPTED_PATCHES,
        )
    stored = stored_kind(cluster, kind)
    old = cluster.registry.require(stored, namespace, name)
    updated = cluster.registry.update(stored, old, eventapi.to_storage(kind, clone(new)), call.write(sub))
    return object_reply(call, kind, updated, cluster.now())


def _apply(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str, sub: str) -> Reply:
    """Server-side apply: https://kubernetes.io/docs/reference/using-api/server-side-apply/"""
    config = clone(call.body_object)
    manager_name = call.query.get("fieldManager")
    if not manager_name:
        message = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        raise ApiError(400, message)
    meta = config.setdefault("metadata", {})
    if meta.get("managedFields"):
        raise ApiError(400, "metadata.managedFields must be nil")
    meta.pop("creationTimestamp", None)
    if not config.get("kind") or not config.get("apiVersion"):
        raise ApiError(400, "apiVersion and kind must be set in the applied configuration")
    _check_type(kind, config)
    if meta.get("name", name) != name:
        raise ApiError(400, f"metadata.name {meta['name']!r} does not match the name on the URL {name!r}")
    unknown = prune(kind.schema, config)
    if unknown:
        where = f"({namespace}/{name}; {kind.group_version}, Kind={kind.kind})"
        raise ApiError(500, f"failed to create typed patch object {where}: .{unknown[0]}: field not declared in schema")
    live = cluster.store.get(kind, namespace, name)
    identity: Json = {"name": name}
    if kind.namespaced:
        identity["namespace"] = namespace
    base = (
        presented(kind, live)
        if live
        else {
            "apiVersion": kind.group_version,
            "kind": kind.kind,
            "metadata": identity,
        }
    )
    manager = Manager(manager_name, "Apply", sub)
    try:
        new = ownership.apply(base, config, kind.schema, manager, call.flag("force"), cluster.registry.timestamp())
    except ownership.ApplyConflict as conflict:
        raise _apply_conflict(kind, name, conflict) from conflict
    write = call.write(sub, "Apply")
    if live is None:
        if sub:
            raise errors.not_found(kind, name)
        created = cluster.registry.create(kind, namespace, new, write)
        return object_reply(call, kind, created, cluster.now(), 201)
    return object_reply(call, kind, cluster.registry.update(kind, live, new, write), cluster.now())


def _apply_conflict(kind: ResourceType, name: str, conflict: ownership.ApplyConflict) -> ApiError:
    causes = []
    for clash in conflict.clashes:
        using = f" using {kind.group_version}" if clash.owner.operation == "Update" else ""
        where = f' with subresource "{clash.owner.subresource}"' if clash.owner.subresource else ""
        message = f'conflict with "{clash.owner.name}"{where}{using}'
        causes.append(errors.cause("FieldManagerConflict", clash.field, message))
    plural = "s" if len(causes) > 1 else ""
    text = f"Apply failed with {len(causes)} conflict{plural}: " + "\n".join(
        f"{c['message']}: {c['field']}" for c in causes
    )
    return ApiError(409, text, details={"name": name, "group": kind.group, "kind": kind.plural, "causes": causes})
