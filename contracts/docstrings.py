"""What the string under a model's field says of it, read from the source when somebody asks.

Pydantic's ``use_attribute_docstrings`` reads it as each class is made, which was two fifths of the time in which a
worker or a command starts. Only forms and the API's description need it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from pydantic import BaseModel

ATTEMPTS = 5


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """What is said of each field of ``model``, its bases' too; fields that nothing is said of are left out."""
    told: dict[str, str] = {}
    for each in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        told |= _of_module(each.__module__).get(each.__qualname__, {})
    return {name: told[name] for name in model.model_fields if name in told}


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    """By the qualified name of a class what its fields' docstrings say; nothing where there is no source."""
    try:
        source = inspect.getsource(sys.modules[name])
    except (KeyError, OSError, TypeError):
        return {}
    return dict(_classes(_parsed(source), ""))


def _parsed(source: str) -> ast.AST:
    # CPython 3.11 counts the depth of a tree once for all threads, and refuses it where another one parses meanwhile
    # (https://github.com/python/cpython/issues/106905).
    for _ in range(ATTEMPTS - 1):
        with suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)


def _classes(node: ast.AST, within: str) -> Iterator[tuple[str, dict[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield within + child.name, _fields(child)
            yield from _classes(child, f"{within}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child, f"{within}{child.name}.<locals>.")


def _fields(definition: ast.ClassDef) -> dict[str, str]:
    told = {}
    for field, after in zip(definition.body, definition.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            told[field.target.id] = inspect.cleandoc(after.value.value)
    return told
