"""Agents' configurations let the tools that only read run without asking, and nothing else."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from tests.skills.reading import AGENTS, TOOLS

SCRIPT = Path(__file__).parents[2] / "scripts" / "agent_configurations.py"
KIRO = json.loads((AGENTS / "kiro-cli" / "hypd-inst-agent.json").read_text())
CLAUDE = json.loads((AGENTS / "claude-code" / "settings.json").read_text())["permissions"]
READING = {name for name, tool in TOOLS.items() if (hints := tool.tool().annotations) and hints.read_only_hint}
CHANGING = set(TOOLS) - READING


def test_the_files_are_as_the_tools_of_today_make_them() -> None:
    written = runpy.run_path(str(SCRIPT))["configurations"](list(TOOLS.values()), (AGENTS / "prompt.md").read_text())
    there = {str(path.relative_to(AGENTS)): path.read_text() for path in AGENTS.rglob("*") if path.is_file()}
    assert there.keys() - written.keys() == {"prompt.md"}
    assert {name: there[name] for name in written} == written, f"run {SCRIPT.name}"


def test_kiro_lets_exactly_the_reading_tools_run_without_asking() -> None:
    assert KIRO["name"] == "hypd-inst-agent"
    assert set(KIRO["allowedTools"]) == {f"@instantstart/{name}" for name in READING}
    assert not [entry for entry in KIRO["allowedTools"] if "*" in entry or "?" in entry]
    assert set(KIRO["tools"]) == {"read", "@instantstart"}


def test_claude_lets_exactly_the_reading_tools_run_without_asking_and_asks_for_all_others() -> None:
    assert set(CLAUDE["allow"]) == {f"mcp__instantstart__{name}" for name in READING}
    assert set(CLAUDE["ask"]) == {f"mcp__instantstart__{name}" for name in CHANGING}
    assert {"mcp__instantstart__cluster_delete", "mcp__instantstart__operation_approve"} <= set(CLAUDE["ask"])


def test_claudes_agent_has_no_shell_and_no_editor() -> None:
    head = (AGENTS / "claude-code" / "hypd-inst-agent.md").read_text().split("---\n", 2)[1]
    front = yaml.safe_load(head)
    assert front["name"] == "hypd-inst-agent"
    assert {tool.strip() for tool in front["tools"].split(",")} == {"Read", "Skill", "mcp__instantstart__*"}


@pytest.mark.parametrize("path", [path for path in AGENTS.rglob("*") if path.is_file()], ids=lambda path: path.name)
def test_no_file_holds_a_token(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"is[ks]_[A-Za-z0-9]", text)
    assert all(value == "${INSTANTSTART_TOKEN}" for value in re.findall(r"Bearer ([^\"]+)\"", text))
