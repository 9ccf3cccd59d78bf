"""OpenAPI documents, as complete as kubectl, helm and the dynamic clients need them.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from . import discovery
from .resources import Json, ResourceType
from .schemas import definitions
from .store import Store

_PARAMETERS = (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean"))
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def _published(schema: Any, prefix: str) -> Any:
    """A schema in the dialect of OpenAPI: one type, no null among the types, references under ``prefix``."""
    if isinstance(schema, list):
        return [_published(member, prefix) for member in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            out[key] = prefix + value.rsplit("/", 1)[1]
        elif key == "type" and isinstance(value, list):
            out[key] = next(name for name in value if name != "null")
        else:
            out[key] = _published(value, prefix)
    if "oneOf" in out and "type" not in out:
        # IntOrString and Quantity, which real servers publish as strings.
        del out["oneOf"]
        out["type"] = "string"
    return out


def _references(schema: Any) -> list[str]:
    return re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema))


@lru_cache(maxsize=4)
def _built_in_schemas(prefix: str) -> dict[str, Json]:
    return {name: _published(schema, prefix) for name, schema in definitions().items()}


def _schemas(kinds: list[ResourceType], prefix: str) -> dict[str, Json]:
    found: dict[str, Json] = {}
    todo: list[str] = []
    for kind in kinds:
        if kind.custom:
            gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
            schema = {**kind.schema, "x-kubernetes-group-version-kind": [gvk]}
            found[kind.definition] = _published(schema, prefix)
            todo += _references(kind.schema)
        else:
            todo.append(kind.definition)
    built_in = _built_in_schemas(prefix)
    while todo:
        name = todo.pop()
        if name not in found and name in built_in:
            found[name] = built_in[name]
            todo += _references(definitions()[name])
    return found


def _operations(kind: ResourceType, prefix: str, v2: bool) -> dict[str, Json]:
    """The paths of a kind; kubectl looks for the GVK and for the query parameters that it may use."""
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    reference = {"$ref": prefix + kind.definition}
    if v2:
        parameters = [{"name": n, "in": "query", "type": t, "uniqueItems": True} for n, t in _PARAMETERS]
        response: Json = {"description": "OK", "schema": reference}
    else:
        parameters = [{"name": n, "in": "query", "schema": {"type": t, "uniqueItems": True}} for n, t in _PARAMETERS]
        response = {"description": "OK", "content": {"application/json": {"schema": reference}}}

    def operation(action: str) -> Json:
        return {
            "parameters": parameters,
            "responses": {"200": response},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        }

    patch = operation("patch")
    if v2:
        patch["consumes"] = list(_PATCH_TYPES)
    else:
        patch["requestBody"] = {"content": {media_type: {} for media_type in _PATCH_TYPES}}
    base = kind.path + ("/namespaces/{namespace}" if kind.namespaced else "") + f"/{kind.plural}"
    return {
        base: {"post": operation("post"), "get": operation("list")},
        f"{base}/{{name}}": {
            "get": operation("get"),
            "put": operation("put"),
            "patch": patch,
            "delete": operation("delete"),
        },
    }


def v3_index(store: Store) -> Json:
    paths = {}
    for group, versions in discovery.groups(store).items():
        for version, kinds in versions.items():
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            custom = any(kind.custom for kind in kinds)
            digest = f"{len(kinds)}-{store.types_revision if custom else 0}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def v3(store: Store, group: str, version: str, git_version: str) -> Json:
    prefix = "#/components/schemas/"
    kinds = discovery.groups(store).get(group, {}).get(version, [])
    paths: dict[str, Json] = {}
    for kind in kinds:
        paths |= _operations(kind, prefix, v2=False)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": paths,
        "components": {"schemas": _schemas(kinds, prefix)},
    }


def v2(store: Store, git_version: str) -> Json:
    prefix = "#/definitions/"
    kinds = list(store.types())
    paths: dict[str, Json] = {}
    for kind in kinds:
        paths |= _operations(kind, prefix, v2=True)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": paths,
        "definitions": _schemas(kinds, prefix),
    }
