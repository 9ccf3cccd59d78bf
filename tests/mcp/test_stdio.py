"""The server as a program of its own, as agents on a desktop start it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.api.conftest import Gateway
from tests.mcp.conftest import Begin, answered
from tests.mcp.people import MODES, User

ROOT = Path(__file__).parents[2]
SERVER = [sys.executable, "-P", "-m", "mcp_server"]


def environment(gateway: Gateway, role: str) -> dict[str, str]:
    settings = {"INSTANTSTART_URL": gateway.url, "INSTANTSTART_TOKEN": gateway.tokens[role]}
    return {**os.environ, **settings, "INSTANTSTART_TOOLSETS": "all"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of the agent's user, with packages that are called as ours are."""
    for name in ("client", "contracts", "mcp_server", "telemetry"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('this is somebody else')")
    return tmp_path


@MODES
async def test_a_desktop_agent_starts_it_in_any_folder_and_its_user_is_asked(
    gateway: Gateway, begin: Begin, project: Path, mode: str
) -> None:
    operation = await begin("drain")
    user = User({"choice": "go-on"})
    program = StdioServerParameters(
        command=SERVER[0], args=SERVER[1:], env=environment(gateway, "operator"), cwd=str(project)
    )
    async with Client(stdio_client(program), mode=mode, elicitation_callback=user) as client:
        assert (await answered(client, "access_get_caller"))["name"] == "operator-1"
        await answered(client, "operation_decide", operation=operation)
        ended = await answered(client, "operation_wait", operation=operation, timeout_seconds=30)
    assert ended["operation"]["result"]["answer"] == {"choice": "go-on"}
    assert len(user.asked) == 1


def line(method: str, number: int | None = None, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
    return json.dumps(message).encode() + b"\n"


async def test_it_says_nothing_but_the_protocol_and_ends_with_its_input(gateway: Gateway) -> None:
    marker = "tell-nobody"
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    said = line("initialize", 1, **hello) + line("notifications/initialized")
    calls = [
        ("operation_list", {"cluster": marker}),
        ("operation_decide", {"operation": "create-cluster/none", "answer": {"choice": marker}}),
        ("operation_get", {"wrong": marker}),
        ("training_submit", {"run": "sft", "cluster": "demo", "gpus_per_node": 1, "env": {"API_TOKEN": marker}}),
        ("training_logs", {"run": "sft", "cluster": "demo", "search": marker}),
        ("diagnose_problem", {"kind": "node", "name": marker, "cluster": "demo"}),
    ]
    running = await asyncio.create_subprocess_exec(
        *SERVER,
        cwd=ROOT,
        env=environment(gateway, "viewer"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdin.write(said)
    answers = [await running.stdout.readline()]
    for number, (tool, arguments) in enumerate(calls, start=2):
        running.stdin.write(line("tools/call", number, name=tool, arguments=arguments))
        answers.append(await running.stdout.readline())
    running.stdin.close()
    async with asyncio.timeout(60):
        rest, errors = await running.stdout.read(), await running.stderr.read()
        assert await running.wait() == 0
    assert [json.loads(answer)["id"] for answer in answers] == list(range(1, len(calls) + 2))
    assert all("result" in json.loads(answer) for answer in answers)
    assert rest == b""
    assert [secret for secret in (marker, gateway.tokens["viewer"]) if secret in errors.decode()] == []


@pytest.mark.parametrize(
    "settings", [{"INSTANTSTART_TOOLSETS": "nonsense"}, {"INSTANTSTART_MCP_STATE_KEY": "short-secret"}]
)
async def test_settings_that_do_not_fit_end_it_without_a_word_of_secrets(settings: dict[str, str]) -> None:
    running = await asyncio.create_subprocess_exec(
        *SERVER, cwd=ROOT, env={**os.environ, **settings}, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await running.communicate()
    assert running.returncode == 2
    assert next(iter(settings)).removeprefix("INSTANTSTART_").lower() in errors.decode()
    assert "short-secret" not in errors.decode()
