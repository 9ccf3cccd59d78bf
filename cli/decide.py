"""Answers to decisions: from the command line, from a person at a terminal, or the decision's own default."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from cli.errors import CliError, Exit, say
from cli.view import compact

Answer = dict[str, Any]
Decision = dict[str, Any]

FEW = 12


def is_interactive() -> bool:
    """Whether a person can be asked: they type into stdin and read stderr."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def parse_answer(assignments: Iterable[str], text: str | None, option: str = "--answer") -> Answer | None:
    """An object from ``--answer field=value`` (a dot leads into an object) or ``--json``; None where neither was given.

    A value that is JSON is taken as such, anything else as text.
    """
    pairs = list(assignments)
    if text is not None:
        if pairs:
            raise click.UsageError(f"give {option} or --json, not both")
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise click.UsageError(f"--json is not JSON: {error}") from None
        if not isinstance(answer, dict):
            raise click.UsageError("--json takes an object")
        return answer
    answer = {}
    for pair in pairs:
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise click.UsageError(f"{option} takes FIELD=VALUE, not {pair!r}")
        place = answer
        *parents, last = path.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise click.UsageError(f"{option} {path}: {parent} has a value of its own")
        place[last] = _value(value)
    return answer if pairs else None


def default_answer(decision: Decision) -> Answer:
    """The decision's own default. Raises CliError (exit 4) where a person must choose."""
    default = decision.get("default")
    if not isinstance(default, dict):
        raise CliError(
            f"the decision {decision.get('id')} has no default and nobody can be asked",
            exit=Exit.NEEDS_ATTENTION,
            remedy="Answer it with `instantstart operation decide`.",
        )
    return default


def ask(decision: Decision) -> Answer:
    """Ask at the terminal: a choice for each field with options, then the plain fields that are required or have a
    default."""
    say(f"\n{decision['question']}")
    schema = decision.get("schema") or {}
    properties: dict[str, Any] = schema.get("properties") or {}
    options: dict[str, list[Any]] = decision.get("options") or {}
    default = decision["default"] if isinstance(decision.get("default"), dict) else {}
    required = set(schema.get("required") or ())
    answer: Answer = {}
    fields = [
        *(name for name in properties if name in options),
        *(name for name in options if name not in properties and name != "combinations"),
    ]
    for field in fields:
        values = _fitting(field, options, answer)
        if values and field in properties:
            answer[field] = _choose(field, values, default.get(field))
        elif values:
            say(f"\n{field}:\n" + "\n".join(f"   {compact(value)}" for value in values))
    for field, rule in properties.items():
        if field in answer or rule.get("type") not in ("integer", "number", "string", "boolean"):
            continue
        shown = default.get(field, rule.get("default"))
        if field not in required and (shown is None or (default and field not in default)):
            continue
        answer[field] = _value_of(rule, click.prompt(field, default=shown, err=True))
    for field, value in default.items():
        answer.setdefault(field, value)
    return answer


def _fitting(field: str, options: dict[str, list[Any]], answer: Answer) -> list[Any]:
    """The values of a field that go together with the answers so far, where the decision says what goes together."""
    told = [each for each in options.get("combinations") or [] if isinstance(each, dict) and field in each]
    given = {name: value for name, value in answer.items() if any(name in each for each in told)}
    if not told or not given:
        return options[field]
    possible = [each[field] for each in told if all(each.get(name) == value for name, value in given.items())]
    return [value for value in options[field] if value in possible] or options[field]


def _choose(field: str, values: Sequence[Any], default: Any) -> Any:
    """One of ``values``, by number or by its text."""
    say(f"\n{field}:")
    say(
        in_columns(
            [
                f"{number:3}) {compact(value)}{' (default)' if value == default else ''}"
                for number, value in enumerate(values, 1)
            ]
        )
    )
    preset = values.index(default) + 1 if default in values else (1 if len(values) == 1 else None)
    while True:
        typed = str(click.prompt("choose", default=preset, err=True)).strip()
        if typed.isdigit() and 1 <= int(typed) <= len(values):
            return values[int(typed) - 1]
        for value in values:
            if typed == compact(value):
                return value
        say(f"Type a number from 1 to {len(values)}.")


def in_columns(entries: Sequence[str]) -> str:
    """Many entries side by side, downwards first, as far as the terminal is wide; few as they are."""
    widest = max(map(len, entries)) + 2
    width = shutil.get_terminal_size((100, 24)).columns
    number = max(1, min(4, width // widest)) if len(entries) > FEW else 1
    height = math.ceil(len(entries) / number)
    rows = (entries[row::height] for row in range(height))
    return "\n".join("".join(entry.ljust(widest) for entry in row).rstrip() for row in rows)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _value_of(rule: dict[str, Any], typed: Any) -> Any:
    """What was typed, as the schema wants it; the gateway refuses what does not fit."""
    return typed if rule.get("type") == "string" else _value(str(typed))
