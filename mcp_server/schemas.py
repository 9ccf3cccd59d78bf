"""Schemas as short as they can be: clients put them before the model, tool by tool."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_NAMED = frozenset({"properties", "$defs", "patternProperties"})
"""Keywords whose members are names, not keywords."""


def without(schema: Any, keywords: Collection[str]) -> Any:
    """A JSON Schema without the annotations ``keywords``; what it accepts stays the same."""
    if isinstance(schema, list):
        return [without(each, keywords) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: {name: without(each, keywords) for name, each in value.items()}
        if keyword in _NAMED and isinstance(value, dict)
        else value
        if keyword in ("default", "enum", "const", "examples")
        else without(value, keywords)
        for keyword, value in schema.items()
        if keyword not in keywords
    }
