"""The page on MCP tools lists the tools and argument names that there are."""

from __future__ import annotations

import re
from pathlib import Path

from mcp_server.server import definitions
from mcp_server.toolbox import Definition
from mcp_server.toolsets import Toolset

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()


def _row(tool: Definition) -> str:
    effect = "reads" if tool.reads else "destroys" if tool.destroys else "changes"
    return f"| `{tool.name}` | {tool.toolset.value} | {effect} | {tool.title} |"


def test_the_page_lists_every_tool_as_it_is() -> None:
    rows = [_row(tool) for toolset in Toolset for tool in definitions([toolset])]
    header = "| tool | toolset | effect | what it is |\n| --- | --- | --- | --- |\n"
    assert PAGE.partition(header)[2].partition("\n\n")[0].splitlines() == rows


def test_the_page_says_what_each_toolset_is_for() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \| [a-z]", PAGE, re.MULTILINE) == list(Toolset)


def test_the_page_lists_every_name_that_arguments_have_beside_their_own() -> None:
    rows = PAGE.partition("| argument | here |")[2]
    named = {name for row in rows.splitlines() if row for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == {alias for tool in definitions() for alias in tool.aliases}
