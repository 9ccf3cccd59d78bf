"""JSON patch, merge patch and strategic merge patch.

https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
"""

from __future__ import annotations

from typing import Any

import jsonpatch

from .errors import ApiError
from .objects import clone
from .resources import Json
from .schemas import field, item


def json_patch(obj: Json, operations: Any) -> Json:
    """RFC 6902"""
    try:
        patched = jsonpatch.apply_patch(clone(obj), operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise ApiError(422, message) from error
    if not isinstance(patched, dict):
        raise ApiError(422, "the patched document is not an object")
    return patched


def merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7396"""
    if not isinstance(patch, dict):
        return clone(patch)
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), change)
    return merged


def _merge_list(current: list[Any], change: list[Any], schema: Json, order: list[Any] | None) -> list[Any]:
    """Merge a list by the merge key of its schema; primitives are united."""
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    merged = list(current)
    if not merge_key:
        merged += [member for member in change if member not in merged]
        rank = {str(value): index for index, value in enumerate(order or [])}
        return sorted(merged, key=lambda m: rank.get(str(m), len(rank))) if rank else merged
    if any(isinstance(member, dict) and member.get("$patch") == "replace" for member in change):
        merged = []
    for member in change:
        directive = member.get("$patch")
        if directive == "replace":
            continue
        index = next((i for i, m in enumerate(merged) if m.get(merge_key) == member.get(merge_key)), None)
        if directive == "delete":
            merged = [m for m in merged if m.get(merge_key) != member.get(merge_key)]
        elif index is None:
            merged.append(strategic_merge_patch({}, member, item(schema)))
        else:
            merged[index] = strategic_merge_patch(merged[index], member, item(schema))
    if order:
        keys = [member.get(merge_key) if isinstance(member, dict) else member for member in order]
        merged.sort(key=lambda m: keys.index(m.get(merge_key)) if m.get(merge_key) in keys else len(keys))
    return merged


def strategic_merge_patch(value: Any, patch: Any, schema: Json) -> Any:
    """Merge by the schema's merge keys, with the ``$patch``, ``$retainKeys`` and ``$setElementOrder`` directives."""
    if not isinstance(patch, dict):
        return clone(patch)
    if patch.get("$patch") == "replace":
        return {key: clone(member) for key, member in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    merged = dict(value) if isinstance(value, dict) else {}
    if "$retainKeys" in patch:
        merged = {key: member for key, member in merged.items() if key in patch["$retainKeys"]}
    for key, change in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            merged[name] = [member for member in merged.get(name) or [] if member not in change]
        if key.startswith("$"):
            continue
        child = field(schema, key)
        if change is None:
            merged.pop(key, None)
        elif isinstance(change, list) and "merge" in child.get("x-kubernetes-patch-strategy", ""):
            current = merged.get(key) if isinstance(merged.get(key), list) else []
            merged[key] = _merge_list(current or [], change, child, patch.get(f"$setElementOrder/{key}"))
        else:
            merged[key] = strategic_merge_patch(merged.get(key), change, child)
    return merged
