"""Identity policies and their evaluation.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics.html ; elements:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html . Boundaries, service control policies
and policies of resources are not looked at. What is not known here is refused when a policy is read, never ignored.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

VARIABLE = re.compile(r"\$\{([^}]+)\}")

Values = tuple[str, ...]


class UnknownElement(ValueError):
    """A policy uses what is not evaluated here."""


@dataclass(frozen=True)
class Request:
    """One action on one resource. ``context``: condition keys with their values; a key that is not there is absent."""

    action: str
    """``service:Action``."""
    resource: str
    """An ARN; what does not exist yet has ``*`` for its identifier. ``*`` where an action has no resources."""
    context: Mapping[str, Values] = field(default_factory=dict)


def evaluate(documents: Sequence[Mapping[str, Any]], request: Request) -> bool:
    """Whether the policies together allow the request: something allows it, and nothing denies it."""
    context = {key.lower(): values for key, values in request.context.items()}
    allowed = False
    for document in documents:
        for statement in listed(document["Statement"]):
            if _applies(statement, request, context):
                if statement["Effect"] == "Deny":
                    return False
                allowed = True
    return allowed


def check(document: Any) -> None:
    """Raises UnknownElement for a document that is no identity policy, or asks for what is not evaluated."""
    if not isinstance(document, dict) or "Statement" not in document:
        raise UnknownElement("a policy is an object with a Statement")
    for statement in listed(document["Statement"]):
        known = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}
        if unknown := sorted(set(statement) - known):
            raise UnknownElement(f"statements have no {', '.join(unknown)}")
        if statement.get("Effect") not in ("Allow", "Deny"):
            raise UnknownElement(f"Effect is Allow or Deny, not {statement.get('Effect')!r}")
        if ("Action" in statement) == ("NotAction" in statement):
            raise UnknownElement("a statement has either Action or NotAction")
        if ("Resource" in statement) == ("NotResource" in statement):
            raise UnknownElement("a statement has either Resource or NotResource")
        for operator in statement.get("Condition", {}):
            _operator(operator)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _applies(statement: Mapping[str, Any], request: Request, context: Mapping[str, Values]) -> bool:
    return (
        _either(statement, "Action", lambda pattern: _like(pattern.lower(), request.action.lower()))
        and _either(statement, "Resource", lambda pattern: _arn_like(_filled(pattern, context), request.resource))
        and all(
            _holds(operator, key, listed(wanted), context)
            for operator, tests in statement.get("Condition", {}).items()
            for key, wanted in tests.items()
        )
    )


def _either(statement: Mapping[str, Any], element: str, matches: Callable[[str], bool]) -> bool:
    if element in statement:
        return any(matches(each) for each in listed(statement[element]))
    return not any(matches(each) for each in listed(statement[f"Not{element}"]))


def _holds(operator: str, key: str, wanted: list[Any], context: Mapping[str, Values]) -> bool:
    """One condition. (IAM User Guide: conditions with multiple context keys or values)"""
    name, quantifier, if_exists = _operator(operator)
    values = context.get(key.lower())
    texts = [_filled(_text(each), context) for each in wanted]
    if name == "Null":
        return all((values is None) == (text.lower() == "true") for text in texts)
    if values is None:
        negated = name in _NEGATED
        return if_exists or quantifier == "ForAllValues" or (negated and quantifier is None)
    test = _OPERATORS[name]
    fits = [_fits(name, test, value, texts) for value in values]
    return all(fits) if quantifier == "ForAllValues" else any(fits)


def _fits(name: str, test: Callable[[str, str], bool], value: str, texts: list[str]) -> bool:
    found = any(test(text, value) for text in texts)
    return not found if name in _NEGATED else found


def _operator(written: str) -> tuple[str, str | None, bool]:
    """An operator's name, its quantifier, and whether it holds for keys that are absent."""
    quantifier, _, rest = written.rpartition(":")
    if_exists = rest.endswith("IfExists")
    name = rest.removesuffix("IfExists")
    if quantifier not in ("", "ForAllValues", "ForAnyValue") or (name not in _OPERATORS and name != "Null"):
        raise UnknownElement(f"conditions with {written} are not evaluated")
    return name, quantifier or None, if_exists


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(text: str, context: Mapping[str, Values]) -> str:
    """``text`` with its policy variables. One without a value matches nothing."""

    def value(match: re.Match[str]) -> str:
        if match[1] in ("*", "?", "$"):
            return match[1]
        held = context.get(match[1].lower())
        return held[0] if held is not None and len(held) == 1 else "\0"

    return VARIABLE.sub(value, text) if "${" in text else text


def _arn_like(pattern: str, arn: str) -> bool:
    """Wildcards do not reach beyond the part of an ARN that they are in."""
    if pattern == "*":
        return True
    patterns, parts = pattern.split(":", 5), arn.split(":", 5)
    return len(patterns) == len(parts) and all(_like(p, part) for p, part in zip(patterns, parts, strict=True))


def _like(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


@functools.lru_cache(4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_piece(each) for each in pattern), re.DOTALL)


def _piece(character: str) -> str:
    return {"*": ".*", "?": "."}.get(character, re.escape(character))


def _same(wanted: str, value: str) -> bool:
    return wanted == value


def _same_but_case(wanted: str, value: str) -> bool:
    return wanted.lower() == value.lower()


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": _same,
    "StringNotEquals": _same,
    "StringEqualsIgnoreCase": _same_but_case,
    "StringLike": _like,
    "StringNotLike": _like,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "ArnNotEquals": _arn_like,
    "ArnNotLike": _arn_like,
    "Bool": _same_but_case,
}
_NEGATED = frozenset({"StringNotEquals", "StringNotLike", "ArnNotEquals", "ArnNotLike"})


def actions_of(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every action that the policies name."""
    for document in documents:
        for statement in listed(document["Statement"]):
            yield from listed(statement.get("Action", []))
