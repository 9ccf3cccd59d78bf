"""Small helpers over JSON objects: reading by path, copying, times."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from .resources import Json


def dig(value: Any, path: str, default: Any = None) -> Any:
    """``value["a"]["b"]`` for ``"a.b"``, or ``default`` where a part is missing or null."""
    for key in path.split("."):
        if not isinstance(value, dict):
            return default
        value = value.get(key)
    return default if value is None else value


def clone(value: Any) -> Any:
    """A deep copy of a JSON value, several times as fast as copy.deepcopy."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def rfc3339(timestamp: float) -> str:
    """metav1.Time: whole seconds."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(timestamp: float) -> str:
    """metav1.MicroTime."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def condition(obj: Json, kind: str) -> Json | None:
    """The condition of that type in an object's status."""
    return next((c for c in dig(obj, "status.conditions", []) if c.get("type") == kind), None)


def is_true(obj: Json, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def set_condition(status: Json, kind: str, value: str, reason: str, message: str, now: str, **more: Any) -> None:
    """Add or change a condition; ``lastTransitionTime`` moves only when the status flips."""
    conditions = status.setdefault("conditions", [])
    found = next((c for c in conditions if c.get("type") == kind), None)
    if found is None:
        conditions.append(
            {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now, **more}
        )
        return
    if found.get("status") != value:
        found["lastTransitionTime"] = now
    elif (found.get("reason"), found.get("message")) == (reason, message):
        return
    found.update(status=value, reason=reason, message=message, **more)


_JSONPATH = re.compile(
    r"\[\?\(@\.([\w.]+)\s*==\s*[\"']([^\"']*)[\"']\)\]|\[[\"']([^\"']+)[\"']\]|\[(\d+|\*)\]|\.((?:[\w/-]|\\\.)+)"
)


def json_path(value: Any, path: str) -> Any:
    """The simple JSON path of printer columns and selectable fields; None where it leads nowhere."""
    for filter_path, filter_value, quoted, index, name in _JSONPATH.findall(path):
        try:
            if filter_path:
                value = next(x for x in value if str(dig(x, filter_path)) == filter_value)
            elif index:
                value = value[0 if index == "*" else int(index)]
            else:
                value = value[quoted or name.replace("\\.", ".")]
        except (KeyError, IndexError, TypeError, StopIteration):
            return None
    return value


def owner_reference(owner: Json) -> Json:
    """The reference that a controller puts on what it makes."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


Mutator = Callable[[Json], None]
