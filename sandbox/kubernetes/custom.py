"""Custom resource definitions become served kinds.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import hashlib
import json

from .objects import clone, dig
from .resources import Json, ResourceType
from .schemas import OBJECT_META, OPEN
from .store import Store

_schemas: dict[str, Json] = {}
"""Schemas by their digest, so that clusters with the same definition share one (and its validator)."""


def _schema(version: Json) -> tuple[str, Json]:
    raw = dig(version, "schema.openAPIV3Schema", OPEN)
    key = "custom:" + hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()
    if key not in _schemas:
        schema = clone(raw)
        schema.setdefault("properties", {}).update(
            metadata={"$ref": f"#/$defs/{OBJECT_META}"}, apiVersion={"type": "string"}, kind={"type": "string"}
        )
        _schemas[key] = schema
    return key, _schemas[key]


def types_of(definition: Json) -> list[ResourceType]:
    """The kinds of a definition's served versions."""
    spec = definition["spec"]
    names = spec["names"]
    types = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        key, schema = _schema(version)
        subresources = version.get("subresources") or {}
        types.append(
            ResourceType(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                subresources=tuple(name for name in ("status", "scale") if name in subresources),
                singular=names.get("singular") or names["kind"].lower(),
                list_kind=names.get("listKind") or f"{names['kind']}List",
                categories=tuple(names.get("categories") or ()),
                schema=schema,
                schema_key=key,
                definition=".".join([*reversed(spec["group"].split(".")), version["name"], names["kind"]]),
                custom=True,
                columns=tuple(version.get("additionalPrinterColumns") or ()),
                selectable_fields=tuple(f["jsonPath"] for f in version.get("selectableFields") or ()),
                scale_paths=subresources.get("scale") or {},
            )
        )
    return types


def serve(store: Store, definition: Json) -> None:
    """Serve what a definition says, and no longer what an earlier state of it said."""
    withdraw(store, definition)
    for kind in types_of(definition):
        store.custom_types[kind.group, kind.version, kind.plural] = kind


def withdraw(store: Store, definition: Json) -> None:
    group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
    for key in [k for k in store.custom_types if (k[0], k[2]) == (group, plural)]:
        del store.custom_types[key]
    store.types_revision += 1


def established_status(definition: Json, now: str) -> Json:
    """The status that the apiextensions controllers write."""
    spec = definition["spec"]
    names = dict(spec["names"])
    reasons = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    return {
        "acceptedNames": names,
        "storedVersions": [version["name"] for version in spec["versions"] if version.get("storage")],
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
            for kind, reason, message in reasons
        ],
    }
