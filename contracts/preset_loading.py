"""How a preset is loaded: arithmetic on documents, the same in every face. What is given wins over what was saved."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from pydantic_core import PydanticCustomError

from contracts.plain_yaml import read_yaml
from contracts.recipes.configs import read_config

_REFERENCE = re.compile(r"([^@\s]+)(?:@(\d{1,9}))?")


def reference(text: str) -> tuple[str, int | None]:
    """``NAME`` or ``NAME@VERSION``. Raises ValueError for anything else."""
    found = _REFERENCE.fullmatch(text)
    if found is None or (found[2] is not None and int(found[2]) < 1):
        raise ValueError(f"{text!r} is no preset; write NAME or NAME@VERSION")
    return found[1], int(found[2]) if found[2] else None


def setting(text: str) -> tuple[list[str], Any]:
    """``path=value`` as a path and a value: ``nodes=4``, ``recipe.config.learning_rate=1e-5``.

    A value is read as YAML, so that numbers, switches, lists and ``null`` are what they look like; a part of the path
    that has dots in it is written in double quotes. Raises ValueError where there is no ``=`` or no path.
    """
    path, equals, raw = _parted(text)
    if not equals or not path or not all(path):
        raise ValueError(f"{text!r} sets nothing; write path=value, e.g. nodes=4")
    try:
        value = read_yaml(raw) if raw else ""
        # What JSON has no word for, dates above all, is the text that it was written as.
        json.dumps(value, allow_nan=False)
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        value = raw
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        value = float(value)
    return path, value


def _parted(text: str) -> tuple[list[str], str, str]:
    """The parts of a path, the sign behind it, and what follows."""
    parts: list[str] = []
    part, quoted = "", False
    for index, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == "=" and not quoted:
            return [*parts, part], "=", text[index + 1 :]
        elif character == "." and not quoted:
            parts.append(part)
            part = ""
        else:
            part += character
    return [], "", ""


def assigned(document: Any, path: list[str], value: Any) -> Any:
    """The document with ``value`` at ``path``; objects that are missing are made. A list's items go by their position,
    and the text of a YAML or JSON file (a recipe's ``config``) is opened.

    Raises ValueError where the path leads through something that has no members.
    """
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(document, str):
        document = _opened(document)
    if isinstance(document, list):
        if not head.isdigit() or int(head) > len(document):
            raise ValueError(f"{head!r} is no position in a list of {len(document)}")
        position = int(head)
        item = document[position] if position < len(document) else None
        return [*document[:position], assigned(item, rest, value), *document[position + 1 :]]
    if document is not None and not isinstance(document, dict):
        raise ValueError(f"{head!r} cannot be set: what is there is {document!r}")
    return {**(document or {}), head: assigned((document or {}).get(head), rest, value)}


def _opened(text: str) -> Any:
    try:
        found = read_config(text)
    except PydanticCustomError:
        return text
    return found if isinstance(found, dict) else text


def loaded(saved: dict[str, Any], given: dict[str, Any], settings: list[tuple[list[str], Any]] | None = None) -> Any:
    """The body of a run: a preset, over it what is given (JSON merge patch, RFC 7396), over that the settings.

    Another kind of recipe takes the place of the saved one, of whose options nothing would be left to mean.
    """
    body = merged(saved, given)
    for path, value in settings or []:
        body = assigned(body, path, value)
    return body


def merged(saved: Any, given: Any) -> Any:
    """JSON merge patch, but that a discriminated object of another kind is not merged with the saved one."""
    if not isinstance(given, dict):
        return given
    base = saved if isinstance(saved, dict) else {}
    if "kind" in base and given.get("kind", base["kind"]) != base["kind"]:
        base = {}
    body = dict(base)
    for key, value in given.items():
        if value is None:
            body.pop(key, None)
        else:
            body[key] = merged(base.get(key), value)
    return body
