"""Write skills/agents anew from the tools that there are: what only reads runs without asking, and nothing else.

``--check`` writes nothing and fails where a file is not as it would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mcp_server.server import definitions
from mcp_server.toolbox import Definition

FOLDER = Path(__file__).parents[1] / "skills" / "agents"
AGENT = "hypd-inst-agent"
SERVER = "instantstart"
DESCRIPTION = (
    "Operates SageMaker HyperPod clusters on EKS with InstantStart: creates, grows, repairs, inspects and tears them "
    "down, and trains and serves models on them. Use it for anything about HyperPod clusters, their nodes, instance "
    "groups, managed features, training runs and models."
)
HEADERS = {"Authorization": "Bearer ${INSTANTSTART_TOKEN}"}
"""The token comes from the environment of the client, and is in no file."""


def kiro_agent(reading: list[str], prompt: str) -> str:
    """Kiro CLI's ``.kiro/agents/hypd-inst-agent.json``."""
    return _json(
        {
            "name": AGENT,
            "description": DESCRIPTION,
            "prompt": prompt,
            "mcpServers": {SERVER: {"url": "http://127.0.0.1:3099/mcp", "headers": HEADERS}},
            "includeMcpJson": False,
            "tools": ["read", f"@{SERVER}"],
            "allowedTools": [f"@{SERVER}/{name}" for name in reading],
            "resources": ["skill://.kiro/skills/**/SKILL.md"],
        }
    )


def claude_servers() -> str:
    """Claude Code's ``.mcp.json``."""
    server = {"type": "http", "url": "${INSTANTSTART_URL:-http://127.0.0.1:3099}/mcp", "headers": HEADERS}
    return _json({"mcpServers": {SERVER: server}})


def claude_settings(reading: list[str], changing: list[str]) -> str:
    """Claude Code's ``.claude/settings.json``. What changes something is asked for even where other settings allow the
    whole server: ``ask`` goes before ``allow``."""
    rules = {"allow": [_rule(name) for name in reading], "ask": [_rule(name) for name in changing]}
    return _json({"permissions": rules})


def claude_agent(prompt: str) -> str:
    """Claude Code's ``.claude/agents/hypd-inst-agent.md``."""
    head = f"---\nname: {AGENT}\ndescription: >-\n  {DESCRIPTION}\ntools: Read, Skill, {_rule('*')}\n---\n\n"
    return head + prompt


def configurations(tools: list[Definition], prompt: str) -> dict[str, str]:
    """Every file below ``skills/agents`` that is written, by its path there."""
    reading = [tool.name for tool in tools if tool.reads]
    changing = [tool.name for tool in tools if not tool.reads]
    return {
        f"kiro-cli/{AGENT}.json": kiro_agent(reading, prompt),
        "claude-code/mcp.json": claude_servers(),
        "claude-code/settings.json": claude_settings(reading, changing),
        f"claude-code/{AGENT}.md": claude_agent(prompt),
    }


def _rule(tool: str) -> str:
    return f"mcp__{SERVER}__{tool}"


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something differs")
    check = parser.parse_args().check
    stale = []
    for name, text in configurations(definitions(), (FOLDER / "prompt.md").read_text()).items():
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(f"{'differs' if check else 'written'}: skills/agents/{name}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
