"""Field ownership and server-side apply.

https://kubernetes.io/docs/reference/using-api/server-side-apply/ . A manager owns a set of paths; a path's elements are
fields, keyed list members and set values, written in ``managedFields`` as ``f:``, ``k:`` and ``v:``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from .objects import clone
from .resources import Json
from .schemas import field, item, key_of, list_keys, resolve

Element = tuple[str, Any]
"""``("f", name)``, ``("k", ((key, value), ...))`` or ``("v", scalar)``"""
Path = tuple[Element, ...]

_MISSING = object()
_TYPE_FIELDS = {("f", "apiVersion"), ("f", "kind")}
_METADATA: Path = (("f", "metadata"),)
# Metadata that the server owns and nobody manages.
_SYSTEM_METADATA = {
    *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"),
    *("deletionTimestamp", "selfLink", "generateName", "deletionGracePeriodSeconds"),
}


class Manager(NamedTuple):
    """Who owns: the same name may own by update and by apply, and apart for a subresource."""

    name: str
    operation: str
    subresource: str = ""


class Clash(NamedTuple):
    """A field of an applied configuration that another manager owns with another value."""

    owner: Manager
    path: Path

    @property
    def field(self) -> str:
        text = ""
        for kind, element in self.path:
            if kind == "f":
                text += f".{element}"
            elif kind == "k":
                text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in element) + "]"
            else:
                text += f"[{json.dumps(element)}]"
        return text


class ApplyConflict(Exception):
    def __init__(self, clashes: list[Clash]) -> None:
        super().__init__(f"{len(clashes)} conflicts")
        self.clashes = clashes


def _leaves(schema: Json, value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """What a manager owns by sending this value. Keyed list members count as paths of their own."""
    schema = resolve(schema)
    if isinstance(value, dict) and value and schema.get("x-kubernetes-map-type") != "atomic":
        for key, member in value.items():
            if (not at and ("f", key) in _TYPE_FIELDS) or (at == _METADATA and key in _SYSTEM_METADATA):
                continue
            yield from _leaves(field(schema, key), member, (*at, ("f", key)))
        return
    if isinstance(value, list) and value:
        keys = list_keys(schema)
        if keys:
            members = item(schema)
            for member in value:
                element = (*at, ("k", key_of(member, keys)))
                yield element, None
                for key, inner in member.items():
                    yield from _leaves(field(members, key), inner, (*element, ("f", key)))
            return
        if schema.get("x-kubernetes-list-type") == "set":
            for member in value:
                yield (*at, ("v", member)), member
            return
    if at:
        yield at, value


def _leaf_map(schema: Json, value: Any) -> dict[Path, Any]:
    return dict(_leaves(schema, value))


def _get(value: Any, path: Path) -> Any:
    for kind, element in path:
        if kind == "f":
            value = value.get(element, _MISSING) if isinstance(value, dict) else _MISSING
        elif not isinstance(value, list):
            return _MISSING
        elif kind == "k":
            keys = [key for key, _ in element]
            value = next((member for member in value if key_of(member, keys) == element), _MISSING)
        else:
            value = element if element in value else _MISSING
        if value is _MISSING:
            return _MISSING
    return value


def _remove(value: Any, path: Path) -> None:
    parent = _get(value, path[:-1])
    kind, element = path[-1]
    if isinstance(parent, dict) and kind == "f":
        parent.pop(element, None)
    elif isinstance(parent, list):
        found = _get(value, path)
        if found is not _MISSING:
            parent.remove(found)


def _is_key(path: Path) -> bool:
    """Whether a field is part of what its list member is told apart by: it goes with the member, and not before."""
    return len(path) > 1 and path[-2][0] == "k" and path[-1][1] in dict(path[-2][1])


def _encode_element(kind: str, element: Any) -> str:
    if kind == "f":
        return f"f:{element}"
    if kind == "k":
        return "k:" + json.dumps(dict(element), sort_keys=True, separators=(",", ":"))
    return "v:" + json.dumps(element)


def _encode(paths: set[Path]) -> Json:
    """FieldsV1: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management"""
    root: Json = {}
    for path in sorted(paths, key=repr):
        node = root
        for kind, element in path:
            node = node.setdefault(_encode_element(kind, element), {})
        if path[-1][0] == "k":
            node["."] = {}
    return root


def _decode(node: Json, at: Path = ()) -> Iterator[Path]:
    for key, children in node.items():
        if key == ".":
            yield at
            continue
        kind, _, text = key.partition(":")
        element: Any = text
        if kind == "k":
            element = tuple(sorted(json.loads(text).items()))
        elif kind == "v":
            element = json.loads(text)
        path = (*at, (kind, element))
        if children:
            yield from _decode(children, path)
        else:
            yield path


Owners = dict[Manager, set[Path]]


def _owners(obj: Json | None) -> Owners:
    entries = ((obj or {}).get("metadata") or {}).get("managedFields") or []
    return {
        Manager(e["manager"], e["operation"], e.get("subresource", "")): set(_decode(e.get("fieldsV1") or {}))
        for e in entries
    }


def _write_owners(obj: Json, before: Json | None, owners: Owners, now: str, touched: Manager | None) -> None:
    old = {
        Manager(e["manager"], e["operation"], e.get("subresource", "")): e
        for e in ((before or {}).get("metadata") or {}).get("managedFields") or []
    }
    entries = []
    for manager, paths in owners.items():
        if not paths:
            continue
        known = old.get(manager)
        fields = _encode(paths)
        # Only a change of the set moves the time, so that an apply without effect writes nothing.
        unchanged = known is not None and known.get("fieldsV1") == fields
        time = known["time"] if known and (unchanged or manager != touched) else now
        entry = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": known["apiVersion"] if known and manager != touched else obj["apiVersion"],
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    obj["metadata"]["managedFields"] = entries


def track_update(before: Json | None, after: Json, schema: Json, manager: Manager, now: str) -> None:
    """Ownership after a write that is no apply: the writer takes what it changed; what is gone leaves every set."""
    old_leaves, new_leaves = _leaf_map(schema, before or {}), _leaf_map(schema, after)
    changed = {path for path, value in new_leaves.items() if old_leaves.get(path, _MISSING) != value}
    owners = _owners(before)
    for owner, paths in owners.items():
        kept = {path for path in paths if path in new_leaves}
        owners[owner] = kept if owner == manager else kept - changed
    if changed:
        owners[manager] = owners.get(manager, set()) | changed
    _write_owners(after, before, owners, now, manager if changed else None)


def _merge(schema: Json, live: Any, config: Any) -> Any:
    schema = resolve(schema)
    if isinstance(config, dict) and isinstance(live, dict) and schema.get("x-kubernetes-map-type") != "atomic":
        merged = dict(live)
        for key, member in config.items():
            merged[key] = _merge(field(schema, key), live.get(key), member)
        return merged
    if isinstance(config, list) and isinstance(live, list):
        keys = list_keys(schema)
        if keys:
            out = list(live)
            for member in config:
                index = next((i for i, m in enumerate(out) if key_of(m, keys) == key_of(member, keys)), None)
                if index is None:
                    out.append(clone(member))
                else:
                    out[index] = _merge(item(schema), out[index], member)
            return out
        if schema.get("x-kubernetes-list-type") == "set":
            return live + [member for member in config if member not in live]
    return clone(config)


def apply(live: Json, config: Json, schema: Json, manager: Manager, force: bool, now: str) -> Json:
    """The live object with the configuration applied. Raises :class:`ApplyConflict` unless ``force``."""
    wanted, owners = _leaf_map(schema, config), _owners(live)
    previous = owners.get(manager, set())
    clashes = []
    for path, value in wanted.items():
        if path[-1][0] == "k":
            continue
        for owner, paths in owners.items():
            if owner != manager and path in paths:
                current = _get(live, path)
                if current is not _MISSING and current != value:
                    clashes.append(Clash(owner, path))
    if clashes and not force:
        raise ApplyConflict(clashes)
    applied: Json = clone(_merge(schema, live, config))
    for clash in clashes:
        owners[clash.owner].discard(clash.path)
    others = set().union(*(paths for owner, paths in owners.items() if owner != manager))
    given_up = {path for path in previous if path not in wanted and path not in others}
    gone: list[Path] = []
    for path in sorted(given_up, key=len):
        if _is_key(path) or any(path[: len(each)] == each for each in gone):
            continue
        if path[-1][0] == "k":
            # A list member stays while somebody owns something in it.
            if any(p[: len(path)] == path for p in (*wanted, *others)):
                continue
            gone.append(path)
        _remove(applied, path)
    owners[manager] = set(wanted)
    _write_owners(applied, live, owners, now, manager)
    return applied
