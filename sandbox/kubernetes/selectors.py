"""Label and field selectors: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ApiError
from .objects import dig, json_path
from .resources import FIELD_SELECTORS, Json, ResourceType

Predicate = Callable[[Json], bool]

_SET_BASED = re.compile(r"(\S+)\s+(in|notin)\s*\((.*)\)")
_EQUALITY = re.compile(r"([^=!\s]+)\s*(!=|==|=)\s*(\S*)")
_EXISTENCE = re.compile(r"(!?)\s*([\w./-]+)")


@dataclass(frozen=True)
class Requirement:
    """``values`` None asks only for existence."""

    key: str
    values: frozenset[str] | None
    negated: bool = False

    def matches(self, value: str | None) -> bool:
        found = value is not None if self.values is None else value in self.values
        return found != self.negated


def parse(text: str | None) -> list[Requirement]:
    requirements = []
    for part in re.split(r",(?![^(]*\))", text) if text else []:
        part = part.strip()
        if match := _SET_BASED.fullmatch(part):
            values = frozenset(value.strip() for value in match[3].split(","))
            requirements.append(Requirement(match[1], values, match[2] == "notin"))
        elif match := _EQUALITY.fullmatch(part):
            requirements.append(Requirement(match[1], frozenset([match[3]]), match[2] == "!="))
        elif match := _EXISTENCE.fullmatch(part):
            requirements.append(Requirement(match[2], None, bool(match[1])))
        else:
            raise ApiError(400, f"unable to parse requirement: found {part!r}")
    return requirements


def from_label_selector(selector: Json | None) -> list[Requirement]:
    """A LabelSelector object as requirements."""
    selector = selector or {}
    requirements = [Requirement(k, frozenset([v])) for k, v in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        operator = expression.get("operator")
        values = None if operator in ("Exists", "DoesNotExist") else frozenset(expression.get("values") or [])
        requirements.append(Requirement(expression["key"], values, operator in ("NotIn", "DoesNotExist")))
    return requirements


def matches_labels(requirements: list[Requirement], labels: Mapping[str, str] | None) -> bool:
    labels = labels or {}
    return all(requirement.matches(labels.get(requirement.key)) for requirement in requirements)


def to_text(selector: Json | None) -> str:
    """A LabelSelector object in the form of a query parameter."""
    parts = []
    for requirement in from_label_selector(selector):
        if requirement.values is None:
            parts.append(("!" if requirement.negated else "") + requirement.key)
        elif len(requirement.values) == 1:
            (value,) = requirement.values
            parts.append(f"{requirement.key}{'!=' if requirement.negated else '='}{value}")
        else:
            operator = "notin" if requirement.negated else "in"
            parts.append(f"{requirement.key} {operator} ({','.join(sorted(requirement.values))})")
    return ",".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def predicate(kind: ResourceType, label_selector: str | None, field_selector: str | None) -> Predicate | None:
    """What a list or watch request asks for, or None for everything."""
    labels, fields = parse(label_selector), parse(field_selector)
    supported = FIELD_SELECTORS.get((kind.group, kind.plural), ())
    for requirement in fields:
        key = requirement.key
        if key in ("metadata.name", "metadata.namespace") or f".{key}" in kind.selectable_fields:
            continue
        if kind.custom or key not in supported:
            raise ApiError(
                400,
                f'Unable to find "{kind.group_version}, Resource={kind.plural}" that match label selector '
                f'"{label_selector or ""}", field selector "{field_selector}": field label not supported: {key}',
            )
    if not labels and not fields:
        return None

    def field_of(obj: Json, key: str) -> str:
        if kind.group == "events.k8s.io":
            # Objects are kept in the form of the core API.
            key = key.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent")
        if kind.plural == "events" and key == "source":
            return _text(dig(obj, "source.component") or obj.get("reportingComponent"))
        return _text(json_path(obj, f".{key}") if kind.custom else dig(obj, key))

    def test(obj: Json) -> bool:
        return matches_labels(labels, obj["metadata"].get("labels")) and all(
            requirement.matches(field_of(obj, requirement.key)) for requirement in fields
        )

    return test
