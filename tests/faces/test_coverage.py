"""Whatever the gateway can do has a place in each face, and tools say truly what they call."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts import endpoints
from contracts.endpoints import ENDPOINTS, Endpoint
from mcp_server.server import definitions
from mcp_server.toolbox import Definition

UI = Path(__file__).parents[2] / "ui"

NOT_IN_THE_CONSOLE = {
    "create_ticket": "one-time links are printed by `instantstart console`, for a browser that is not signed in",
}
"""Routes that no page calls, and why."""


def _named(tree: ast.AST) -> Iterator[Endpoint[object]]:
    """The endpoints that code names: faces write them as ``endpoints.X``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "endpoints":
            found = getattr(endpoints, node.attr)
            if isinstance(found, Endpoint):
                yield found


def test_every_route_has_a_place_in_the_console() -> None:
    called = {endpoint.name for path in UI.rglob("*.py") for endpoint in _named(ast.parse(path.read_text()))}
    assert set(ENDPOINTS) - called == set(NOT_IN_THE_CONSOLE)


@pytest.mark.parametrize("definition", definitions(), ids=lambda each: each.name)
def test_a_tool_calls_only_the_routes_that_it_declares(definition: Definition) -> None:
    module = inspect.getmodule(definition.function)
    assert module is not None
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    called, todo = set(), [definition.name]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for statement in [*functions[name].body, *functions[name].args.defaults]:
            called |= {endpoint.name for endpoint in _named(statement)}
            todo += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    assert called <= {endpoint.name for endpoint in definition.endpoints}
