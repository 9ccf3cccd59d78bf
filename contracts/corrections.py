"""Corrections of an operation's spec: merged as people write them, and only where nothing finished depends on them."""

from __future__ import annotations

from typing import Any


def apply_corrections(document: Any, patch: Any) -> Any:
    """Merge a correction: a JSON merge patch (RFC 7396), but lists of named objects merge item by item.

    ``{"instance_groups": [{"name": "workers", "availability_zone": "us-west-2c"}]}`` changes one member of one group.
    An item without a name means the only one there is; an object ``{"0": …}`` instead of a list, items by position.
    """
    if isinstance(patch, list) and isinstance(document, list) and all(isinstance(each, dict) for each in patch):
        return _merge_named(document, patch)
    if isinstance(patch, dict) and isinstance(document, list) and patch.keys() <= set(map(str, range(len(document)))):
        return [apply_corrections(item, patch[str(n)]) if str(n) in patch else item for n, item in enumerate(document)]
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_corrections(merged.get(key), value)
    return merged


def _merge_named(document: list[Any], patch: list[dict[str, Any]]) -> list[Any]:
    merged = [dict(item) if isinstance(item, dict) else item for item in document]
    for change in patch:
        target = next(
            (n for n, item in enumerate(merged) if isinstance(item, dict) and item.get("name") == change.get("name")),
            0 if "name" not in change and len(merged) == 1 else None,
        )
        if target is None:
            merged.append(change)
        else:
            merged[target] = apply_corrections(merged[target], change)
    return merged


def outside(before: Any, after: Any, allowed: set[str], path: str = "") -> str | None:
    """The first path that differs between two documents and does not lie under an allowed one; None if all do."""
    if before == after or any(path == each or path.startswith(f"{each}/") for each in allowed):
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            step = f"{path}/{key}" if path else key
            if wrong := outside(before.get(key), after.get(key), allowed, step):
                return wrong
        return None
    return path
