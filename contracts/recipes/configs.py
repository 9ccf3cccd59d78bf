"""Configurations of frameworks: given as an object, or as the YAML or JSON text that people have in files."""

from __future__ import annotations

import json
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from contracts.plain_yaml import read_yaml
from contracts.requests import Document

LONGEST = 64 * 1024
"""Bytes of a configuration: with the rest of the job it must fit into a ConfigMap of 1 MiB."""
TOO_LONG = "has more than 65,536 characters; keep it in a file on the storage"


def read_config(value: Any) -> Any:
    """An object out of YAML or JSON text; everything else as it is. Raises a pydantic error that says where the text is
    wrong."""
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        raise PydanticCustomError("config", TOO_LONG)
    try:
        read = _parsed(value)
        if not isinstance(read, dict):
            raise PydanticCustomError("config", "is no mapping of options to values, in YAML or JSON")
        # Dates and other things that JSON has no word for become the text that they were written as.
        return json.loads(json.dumps(read, default=str, allow_nan=False))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        shown = " ".join(str(error).split())[:300]
        raise PydanticCustomError("config", "cannot be read as YAML: {why}", {"why": shown}) from None


def read_value(text: str) -> Any:
    """What YAML takes a text for; None where it is none."""
    try:
        return read_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _parsed(text: str) -> Any:
    """JSON is YAML but for some characters, so it is tried first."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return read_yaml(text)


def sized(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration, unless it is too long for a ConfigMap."""
    if len(json.dumps(config, ensure_ascii=False).encode()) > LONGEST:
        raise ValueError(TOO_LONG)
    return config


Config = Annotated[
    Document,
    AfterValidator(sized),
    Field(max_length=500, examples=[{"model_name_or_path": "Qwen/Qwen3-0.6B"}]),
    BeforeValidator(read_config, json_schema_input_type=dict[str, JsonValue] | str),
]
"""Options of a framework. Known ones are checked, others are passed on: frameworks move."""


def number(value: object) -> int | None:
    """A whole number that an option was given, as number or text; None where it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return None


def count(value: object) -> int | None:
    """A number of things that an option was given; None where it is none, or not positive."""
    found = number(value)
    return found if found is not None and found > 0 else None


def is_on(value: object) -> bool:
    """Whether a switch is on, as YAML or as a command line writes it."""
    return value is True or (isinstance(value, str) and value.strip().lower() in ("1", "true", "yes", "on"))


def deep(config: dict[str, Any], path: str) -> Any:
    """The value at a dotted path, whether its parts are written as objects or in one key; None where there is none."""
    if path in config:
        return config[path]
    head, _, rest = path.partition(".")
    while rest:
        inner = config.get(head)
        if isinstance(inner, dict) and (found := deep(inner, rest)) is not None:
            return found
        step, _, rest = rest.partition(".")
        head = f"{head}.{step}"
    return None


def flattened(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted paths to values that are no objects (or empty ones)."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and value:
            found |= flattened(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def flags(config: dict[str, Any]) -> list[str]:
    """Options as the words of a command line, as MS-Swift turns its ``--config`` into them: lists are several words,
    objects JSON. (swift/cli/main.py: prepare_config_args)"""
    words: list[str] = []
    for key, value in config.items():
        words.append(f"--{key}")
        if isinstance(value, list):
            words += [text(each) for each in value]
        else:
            words.append(text(value))
    return words


def text(value: Any) -> str:
    """A value as one word. ``null`` is written as Python does, which is what these command lines read."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
