"""Schemas: OpenAPI definitions of built-in kinds and structural schemas of custom ones; walking, pruning, defaults.

Definitions keep Kubernetes' extensions (list types and merge keys), which drive strategic merge and server-side apply.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from .objects import clone
from .resources import Json, ResourceType, built_in_types

DATA = Path(__file__).parent / "data"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

# Members of a list are also told apart by keys that have a default in Kubernetes.
_KEY_DEFAULTS = {"protocol": "TCP"}


@cache
def definitions() -> dict[str, Json]:
    loaded: dict[str, Json] = json.loads(gzip.decompress((DATA / "definitions.json.gz").read_bytes()))
    return loaded


@cache
def definition_names() -> dict[tuple[str, str, str], str]:
    """(group, version, kind) to the name of its definition."""
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, definition in definitions().items()
        for gvk in definition.get("x-kubernetes-group-version-kind", [])
        if not name.endswith(("DeleteOptions", "WatchEvent"))
    }


@cache
def built_ins() -> dict[tuple[str, str, str], ResourceType]:
    """The built-in kinds by (group, version, plural); shared by all clusters."""
    return built_in_types(definition_names())


def resolve(schema: Json | None) -> Json:
    """Follow references."""
    while schema and "$ref" in schema:
        schema = definitions().get(schema["$ref"].rsplit("/", 1)[1], {})
    if schema and "properties" not in schema and len(schema.get("allOf", ())) == 1:
        return resolve(schema["allOf"][0])
    return schema or {}


def field(schema: Json, key: str) -> Json:
    """The schema of a member of an object; empty when it is unknown or free-form."""
    schema = resolve(schema)
    properties = schema.get("properties")
    if properties and key in properties:
        return resolve(properties[key])
    additional = schema.get("additionalProperties")
    return resolve(additional) if isinstance(additional, dict) else {}


def item(schema: Json) -> Json:
    """The schema of a list's members."""
    return resolve(resolve(schema).get("items"))


def list_keys(schema: Json) -> list[str] | None:
    """The keys that identify the members of a list of type map."""
    schema = resolve(schema)
    return schema.get("x-kubernetes-list-map-keys") if schema.get("x-kubernetes-list-type") == "map" else None


def key_of(member: Any, keys: list[str]) -> tuple[tuple[str, Any], ...]:
    if not isinstance(member, dict):
        return (("", member),)
    return tuple((key, member.get(key, _KEY_DEFAULTS.get(key))) for key in sorted(keys))


def prune(schema: Json, value: Any, path: str = "") -> list[str]:
    """Drop, in place, fields that the schema does not know and nulls; the paths of the unknown ones."""
    schema = resolve(schema)
    unknown: list[str] = []
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        preserve = schema.get("x-kubernetes-preserve-unknown-fields")
        if not properties and (preserve or not isinstance(additional, dict)):
            return unknown
        embedded = schema.get("x-kubernetes-embedded-resource")
        for key in list(value):
            member = value[key]
            if embedded and key in ("apiVersion", "kind", "metadata"):
                continue
            if key in properties:
                child = resolve(properties[key])
            elif isinstance(additional, dict):
                child = resolve(additional)
            elif preserve:
                continue
            else:
                unknown.append(f"{path}.{key}" if path else key)
                del value[key]
                continue
            if member is None and not child.get("nullable"):
                del value[key]
            elif isinstance(member, dict | list):
                unknown += prune(child, member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        members = schema.get("items")
        if members:
            for index, member in enumerate(value):
                if isinstance(member, dict | list):
                    unknown += prune(members, member, f"{path}[{index}]")
    return unknown


def apply_defaults(schema: Json, value: Any) -> None:
    """Fill in, in place, the defaults of a structural schema."""
    schema = resolve(schema)
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for key, child in properties.items():
            if key not in value and "default" in child:
                value[key] = clone(child["default"])
            if isinstance(value.get(key), dict | list):
                apply_defaults(child, value[key])
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            for key, member in value.items():
                if key not in properties:
                    apply_defaults(additional, member)
    elif isinstance(value, list) and "items" in schema:
        for member in value:
            apply_defaults(schema["items"], member)
