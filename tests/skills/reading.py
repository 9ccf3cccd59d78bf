"""Skills as files: their frontmatter, their text, and the tools that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from mcp_server.server import definitions
from mcp_server.toolbox import Definition

FOLDER = Path(__file__).parents[2] / "skills"
AGENTS = FOLDER / "agents"
PATHS = sorted(path.parent for path in FOLDER.glob("*/SKILL.md"))
TOOLS: dict[str, Definition] = {definition.name: definition for definition in definitions()}
FAMILIES = frozenset(name.split("_")[0] for name in TOOLS)
ARGUMENTS = frozenset(name for tool in TOOLS.values() for name in tool.tool().parameters["properties"])

_JSON = {"true": True, "false": False, "null": None}
_CODE = re.compile(r"`([^`]+)`")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_CALL = re.compile(rf"({_NAME.pattern})\((.*)\)", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)\)")


class Placeholder(Exception):
    """The value stands for one that only the conversation knows."""


@dataclass(frozen=True)
class Call:
    """A call as a skill shows it. ``arguments``: the values, None for those that are placeholders such as ``TAG``."""

    tool: str
    arguments: dict[str, Any]
    placeholders: frozenset[str]


@dataclass(frozen=True)
class Skill:
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def text(self) -> str:
        return (self.path / "SKILL.md").read_text()

    @cached_property
    def frontmatter(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.text.split("---\n", 2)[1])
        return found

    @cached_property
    def body(self) -> str:
        return self.text.split("---\n", 2)[2]

    @cached_property
    def references(self) -> dict[str, str]:
        """Relative path to text."""
        found = sorted((self.path / "references").glob("*.md")) if (self.path / "references").is_dir() else []
        return {str(path.relative_to(self.path)): path.read_text() for path in found}

    @cached_property
    def links(self) -> list[str]:
        return _LINK.findall(self.body)

    @cached_property
    def code(self) -> list[str]:
        """What is set in backticks, in the skill and its references, each in one line."""
        spans = (span for text in (self.body, *self.references.values()) for span in _CODE.findall(text))
        return [" ".join(span.split()) for span in spans]

    @cached_property
    def calls(self) -> list[Call]:
        return [_call(*found.groups()) for span in self.code if (found := _CALL.fullmatch(span))]

    @cached_property
    def tools(self) -> frozenset[str]:
        """Every tool that is named, with arguments or without."""
        bare = {span for span in self.code if _NAME.fullmatch(span) and span.split("_")[0] in FAMILIES} - ARGUMENTS
        return frozenset(bare | {call.tool for call in self.calls})

    def parameters(self, tool: str) -> frozenset[str]:
        """The arguments of a tool that the skill speaks of, in a call or by themselves."""
        known = set(TOOLS[tool].tool().parameters["properties"])
        in_calls = {name for call in self.calls if call.tool == tool for name in call.arguments}
        return frozenset(in_calls | (known & self._spoken))

    @cached_property
    def _spoken(self) -> set[str]:
        return {
            name for span in self.code if "(" not in span or "=" not in span for name in re.findall(r"[a-z_]+", span)
        }


def _call(tool: str, arguments: str) -> Call:
    """Raises SyntaxError where the arguments are not written as ``name=value``."""
    parsed = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    if parsed.args or any(keyword.arg is None for keyword in parsed.keywords):
        raise SyntaxError(f"{tool}: write every argument as name=value")
    values: dict[str, Any] = {}
    placeholders = set()
    for keyword in parsed.keywords:
        assert keyword.arg is not None
        try:
            values[keyword.arg] = _value(keyword.value)
        except Placeholder:
            values[keyword.arg] = None
            placeholders.add(keyword.arg)
    return Call(tool, values, frozenset(placeholders))


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _JSON:
            return _JSON[name]
        case ast.Name(id=name) if name.isupper():
            raise Placeholder(name)
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _value(value) for key, value in zip(keys, values, strict=True)}
    raise SyntaxError(f"not a value: {ast.unparse(node)}")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise SyntaxError("not a key")


SKILLS = {path.name: Skill(path) for path in PATHS}


def allowed(skill: Skill) -> Iterator[str]:
    """The tools that a skill lets run without asking, by their own names."""
    prefix = "mcp__instantstart__"
    for entry in str(skill.frontmatter["allowed-tools"]).split():
        assert entry.startswith(prefix), entry
        yield entry.removeprefix(prefix)
