"""CEL rules of custom resource definitions (``x-kubernetes-validations``).

https://kubernetes.io/docs/reference/using-api/cel/ . Cost limits are absent; of Kubernetes' own libraries only the
functions that are added below exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import cel

from .errors import cause
from .resources import Json
from .schemas import field, item, key_of, list_keys, resolve


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


@lru_cache(maxsize=4096)
def _program(rule: str) -> Any:
    return cel.compile(rule)


def _context(variables: Json) -> Any:
    context = cel.Context()
    for name, value in variables.items():
        context.add_variable(name, value)
    context.add_function("find", _find)
    context.add_function("split", lambda text, separator: text.split(separator))
    context.add_function("isURL", lambda text: re.match(r"[a-zA-Z][\w+.-]*://", text) is not None)
    return context


def path_text(path: tuple[Any, ...]) -> str:
    """``spec.containers[0].name``"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _check(rule: Json, new: Any, old: Any, path: tuple[Any, ...]) -> Json | None:
    transition = re.search(r"\boldSelf\b", rule["rule"]) is not None
    if transition and old is None and not rule.get("optionalOldSelf"):
        return None
    message = rule.get("message") or f"failed rule: {rule['rule']}"
    try:
        variables = {"self": new} if old is None else {"self": new, "oldSelf": old}
        valid = _program(rule["rule"]).execute(_context(variables))
    except Exception as error:
        valid, message = False, f"rule {rule['rule']!r} evaluation error: {error}"
    if valid:
        return None
    shown = "object" if isinstance(new, dict) else json.dumps(new)[:60]
    where = path_text(path) + rule.get("fieldPath", "")
    return cause(rule.get("reason", "FieldValueInvalid"), where, f"Invalid value: {shown}: {message}")


def has_rules(schema: Json) -> bool:
    """Whether any rule is in the schema, so that most kinds need no walk."""
    return '"x-kubernetes-validations"' in json.dumps(schema)


def violations(schema: Json, new: Any, old: Any = None, path: tuple[Any, ...] = ()) -> Iterator[Json]:
    """The rules that an object breaks. Rules about ``oldSelf`` run where the old object has the same member."""
    schema = resolve(schema)
    for rule in schema.get("x-kubernetes-validations", ()):
        if broken := _check(rule, new, old, path):
            yield broken
    if isinstance(new, dict):
        for key, member in new.items():
            if key == "metadata" and not path:
                continue
            before = old.get(key) if isinstance(old, dict) else None
            yield from violations(field(schema, key), member, before, (*path, key))
    elif isinstance(new, list):
        keys = list_keys(schema)
        previous = {key_of(member, keys): member for member in old or []} if keys else {}
        for index, member in enumerate(new):
            before = previous.get(key_of(member, keys)) if keys else None
            yield from violations(item(schema), member, before, (*path, index))
