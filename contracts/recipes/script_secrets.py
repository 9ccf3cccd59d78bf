"""Secrets in the text of a Python program: as literals, for a name alone is none, and programs read variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contracts.recipes.secrets import names_secret
from contracts.secret_values import KNOWN, assignments

_SHAPE = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])(?!arn:)(?!.*://)[^\s{}%$/<\[][^\s{}%$<\[]{7,}")
"""What a secret is written as: letters and digits in one word. ``EMPTY`` and ``not-needed`` stand where there is none,
and with ``{}``, ``%`` or ``$`` something else is put in."""
_VARIABLE = re.compile(r"(?=.*_)[A-Z][A-Z0-9_]*")
"""The name of a variable, which is where a secret should be."""
_LOGIN = frozenset({"login"})
_SETTERS = frozenset({"setdefault", "putenv", "setenv", "set", "setattr", "__setitem__"})
_LOGIN_WORDS = frozenset({"key", "token", "api_key", "password"})


def script_secret(text: str) -> tuple[str, int] | None:
    """What the first secret in a program is, and in which line. Raises SyntaxError, ValueError, RecursionError and
    MemoryError for what Python cannot read."""
    found = [(kind, text.count("\n", 0, match.start()) + 1) for kind, seen in KNOWN if (match := seen.search(text))]
    for node in ast.walk(ast.parse(text)):
        found += (
            (f"a value of {name}", value.lineno) for name, value in _given(node) if _is_secret(name, _text(value))
        )
        match node:
            case ast.Call() if _called(node.func) in _LOGIN:
                found += (("what it signs in with", value.lineno) for value in _words(node) if _shaped(_text(value)))
            case ast.Constant(value=str() as said):
                given = (name for name, value in assignments(said) if _is_secret(name, value))
                found += ((f"a value of {name}", node.lineno) for name in given)
    return min(found, key=lambda each: each[1], default=None)


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What a node gives to which name."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((name, value) for target in targets if (name := _name(target)))
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            if name := _name(target):
                yield name, value
        case ast.keyword(arg=str() as name, value=value):
            yield name, value
        case ast.arguments(posonlyargs=first, args=more, defaults=values) if values:
            yield from zip((each.arg for each in [*first, *more][-len(values) :]), values, strict=True)
        case ast.Dict(keys=keys, values=values):
            yield from ((name, value) for key, value in zip(keys, values, strict=True) if key and (name := _text(key)))
        case ast.Call(func=function, args=[*_, key, value]) if _called(function) in _SETTERS:
            if name := _text(key):
                yield name, value


def _words(call: ast.Call) -> Iterator[ast.expr]:
    """What a call is given, by its place or as a key."""
    yield from call.args
    yield from (each.value for each in call.keywords if each.arg in _LOGIN_WORDS)


def _is_secret(name: str, value: str | None) -> bool:
    return value is not None and _shaped(value) and names_secret(name, value)


def _shaped(value: str | None) -> bool:
    return value is not None and _SHAPE.fullmatch(value) is not None and _VARIABLE.fullmatch(value) is None


def _name(target: ast.expr) -> str | None:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=key):
            return _text(key)
    return None


def _text(value: ast.expr) -> str | None:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _called(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None
