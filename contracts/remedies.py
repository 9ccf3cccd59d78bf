"""What to do about each fault that a model finds in its input: said from the rule that was broken."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_MOST_NAMED = 14
"""Members that a remedy lists; a model with more has its description elsewhere."""

_BY_TYPE = {
    "bool_parsing": "Send true or false.",
    "bool_type": "Send true or false.",
    "date_from_datetime_parsing": "Send a date such as 2026-11-30.",
    "datetime_from_date_parsing": "Send a time such as 2026-11-30T06:00:00Z.",
    "datetime_parsing": "Send a time such as 2026-11-30T06:00:00Z.",
    "datetime_type": "Send a time such as 2026-11-30T06:00:00Z.",
    "dict_type": "Send an object.",
    "finite_number": "Send a finite number.",
    "float_parsing": "Send a number.",
    "float_type": "Send a number.",
    "int_from_float": "Send a whole number.",
    "int_parsing": "Send a whole number.",
    "int_parsing_size": "Send a smaller number.",
    "int_type": "Send a whole number, without quotes.",
    "list_type": "Send a list.",
    "model_attributes_type": "Send an object.",
    "model_type": "Send an object.",
    "none_required": "Leave it out, or send null.",
    "string_type": "Send text, in quotes.",
    "timezone_aware": "Send the time with its zone, e.g. with Z at its end.",
}
_BY_LIMIT = {
    "greater_than": "Use more than {gt}.",
    "greater_than_equal": "Use at least {ge}.",
    "less_than": "Use less than {lt}.",
    "less_than_equal": "Use at most {le}.",
    "multiple_of": "Use a multiple of {multiple_of}.",
    "string_too_long": "Use at most {max_length} characters.",
    "string_too_short": "Use at least {min_length} characters.",
    "too_long": "Send at most {max_length}.",
    "too_short": "Send at least {min_length}.",
}
_CHOICES = {"enum": "expected", "literal_error": "expected", "union_tag_invalid": "expected_tags"}


def remedy_of(fault: Mapping[str, Any], model: object = None) -> str | None:
    """What to do about a fault as pydantic names it; None where the rule that it breaks says no more than the fault.

    ``model``: the type that was to be read, which knows members and examples.
    """
    kind, location, context = fault["type"], fault["loc"], fault.get("ctx", {})
    match kind:
        case "missing":
            if asked := _if_missing(model, location):
                return asked
            example = _example(model, location)
            return f"Send {location[-1]}{f', e.g. {example}' if example else ''}." if location else None
        case "union_tag_not_found":
            return f"Send {context['discriminator']}.".replace("'", "")
        case "extra_forbidden":
            return _known(str(location[-1]), _members(model, location[:-1]))
        case "string_pattern_mismatch" | "value_error":
            example = _example(model, location)
            return f"Write it like {example}." if example else None
        case _ if kind in _CHOICES:
            choices = str(context[_CHOICES[kind]]).replace(" or ", ", ").replace("'", "")
            return f"Use {'one of ' if ',' in choices else ''}{choices}."
        case _ if kind in _BY_LIMIT:
            return _BY_LIMIT[kind].format_map(context)
        case _:
            return _BY_TYPE.get(kind)


def without_tags(model: object, location: Iterable[int | str]) -> list[str]:
    """The steps of ``location`` through ``model`` that are fields and positions, without those that are tags of
    unions."""
    kinds, steps = _alternatives(model), []
    for step in location:
        found = [kind.model_fields[step] for kind in kinds if _is_model(kind) and step in kind.model_fields]
        inner = [get_args(kind)[-1] for kind in kinds if get_origin(kind) in (list, tuple, set, frozenset, dict)]
        tagged = [kind for kind in kinds if _is_model(kind) and _has_tag(kind, step)]
        if tagged and not found and not inner:
            kinds = tagged
            continue
        steps.append(str(step))
        annotations = [each.annotation for each in found] or inner
        kinds = [each for annotation in annotations for each in _alternatives(annotation)]
    return steps


def _known(name: str, members: list[str]) -> str:
    close = get_close_matches(name, members, 1)
    if close:
        return f"Did you mean {close[0]}?"
    if not members or len(members) > _MOST_NAMED:
        return "Remove it: there is no such member."
    return f"Remove it; the members are {', '.join(members)}."


def _example(model: object, location: Iterable[int | str]) -> str | None:
    """A value that the field takes, where it has one to show."""
    _, info = _at(model, location)
    return str(info.examples[0]) if info is not None and info.examples else None


def _if_missing(model: object, location: Iterable[int | str]) -> str | None:
    """What a field without a default says itself of its value (``x-if-missing`` of its JSON schema): a choice that is
    a person's, and never guessed."""
    _, info = _at(model, location)
    extra = info.json_schema_extra if info is not None else None
    told = extra.get("x-if-missing") if isinstance(extra, dict) else None
    return str(told) if told else None


def _members(model: object, location: Iterable[int | str]) -> list[str]:
    kinds, _ = _at(model, location)
    return sorted({name for kind in kinds if _is_model(kind) for name in kind.model_fields})


def _at(model: object, location: Iterable[int | str]) -> tuple[list[Any], FieldInfo | None]:
    """The types that a value may have at ``location``, and the field that it is, where it is one."""
    kinds, info = _alternatives(model), None
    for step in location:
        found = [kind.model_fields[step] for kind in kinds if _is_model(kind) and step in kind.model_fields]
        inner = [get_args(kind)[-1] for kind in kinds if get_origin(kind) in (list, tuple, set, frozenset, dict)]
        if found:
            info = found[0]
            kinds = [each for field in found for each in _alternatives(field.annotation)]
        elif inner:
            info = next((each for kind in inner for each in _described(kind)), None)
            kinds = [each for kind in inner for each in _alternatives(kind)]
        else:
            # The tag of a union, which says which of its models was meant.
            kinds = [kind for kind in kinds if _is_model(kind) and _has_tag(kind, step)] or kinds
    return kinds, info


def _alternatives(annotation: object) -> list[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [each for part in get_args(annotation) for each in _alternatives(part)]
    return [annotation]


def _described(annotation: object) -> list[FieldInfo]:
    return [each for each in get_args(annotation)[1:] if isinstance(each, FieldInfo)]


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _has_tag(kind: type[BaseModel], tag: int | str) -> bool:
    return any(field.default == tag for field in kind.model_fields.values())
