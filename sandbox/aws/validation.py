"""Validation of requests against botocore's models, in the words AWS uses.

Services check every constraint that their Smithy model states and report all violations at once, as in "2 validation
errors detected: Value 'a_b' at 'clusterName' failed to satisfy constraint: Member must satisfy regular expression
pattern: ..."; botocore itself checks neither patterns nor enumerations nor maxima.
"""

from __future__ import annotations

import functools
import re
from typing import Any

ERROR_CODES = {
    "sagemaker": "ValidationException",
    "eks": "InvalidParameterException",
    "iam": "ValidationError",
    "service-quotas": "IllegalArgumentException",
    "amp": "ValidationException",
    "fsx": "BadRequest",
    "grafana": "ValidationException",
    "pricing": "InvalidParameterException",
}
"""The services whose requests are validated, and the code that each answers with."""


def violations(shape: Any, value: Any) -> list[str]:
    """Every constraint of ``shape`` that ``value`` breaks."""
    found: list[str] = []
    _check(shape, value, "", found)
    return found


def message(found: list[str]) -> str:
    return f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected: {'; '.join(found)}"


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern, or None where Java's dialect says something that Python's cannot."""
    try:
        return None if "\\p{" in pattern else re.compile(pattern)
    except re.error:
        return None


def _check(shape: Any, value: Any, path: str, found: list[str]) -> None:
    kind = shape.type_name
    if kind == "structure":
        if isinstance(value, dict):
            _check_structure(shape, value, path, found)
    elif kind == "list":
        _check_size(shape, value, path, found, "length")
        for index, item in enumerate(value, start=1):
            _check(shape.member, item, f"{path}.{index}.member", found)
    elif kind == "map":
        _check_size(shape, value, path, found, "length")
        for item in value.values():
            _check(shape.value, item, f"{path}.member", found)
    elif kind == "string":
        _check_string(shape, value, path, found)
    elif kind in ("integer", "long", "float", "double"):
        _check_size(shape, value, path, found, "value")


def _check_structure(shape: Any, value: dict[str, Any], path: str, found: list[str]) -> None:
    for name in shape.required_members:
        if value.get(name) is None:
            found.append(f"Value null at '{_join(path, name)}' failed to satisfy constraint: Member must not be null")
    for name, member in shape.members.items():
        if value.get(name) is not None:
            _check(member, value[name], _join(path, name), found)


def _check_string(shape: Any, value: Any, path: str, found: list[str]) -> None:
    if not isinstance(value, str):
        return
    enum = shape.metadata.get("enum")
    if enum and value not in enum:
        _violated(found, value, path, f"Member must satisfy enum value set: [{', '.join(enum)}]")
    _check_size(shape, value, path, found, "length")
    pattern = shape.metadata.get("pattern")
    if pattern and (compiled := _pattern(pattern)) and not compiled.fullmatch(value):
        _violated(found, value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _check_size(shape: Any, value: Any, path: str, found: list[str], what: str) -> None:
    size = value if what == "value" else len(value)
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        _violated(found, value, path, f"Member must have {what} greater than or equal to {low}")
    if high is not None and size > high:
        _violated(found, value, path, f"Member must have {what} less than or equal to {high}")


def _violated(found: list[str], value: Any, path: str, constraint: str) -> None:
    at = f"Value at '{path}'" if isinstance(value, dict | list) else f"Value '{value}' at '{path}'"
    found.append(f"{at} failed to satisfy constraint: {constraint}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name[0].lower()}{name[1:]}".lstrip(".")
