"""Who may do what by the tools: each is called by everybody, and does what ``docs/roles.md`` says."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp import Client as McpClient
from temporalio.client import Client
from temporalio.worker import Worker

from mcp_server.server import create_server, definitions
from tests.api.conftest import Gateway, start_cluster
from tests.mcp.conftest import EVERY
from tests.mcp.recorder import COMMAND
from tests.mcp.test_http import HEADERS
from tests.mcp.test_requests import CASES
from tests.security.roles import CONTROL_PLANE, HYPERPOD, ended, table

TOOLS = table("Tools")
DEFINITIONS = {each.name: each for each in definitions()}
ROLES = ("viewer", "agent", "operator", "admin")
OPERATION = "create-cluster/nobody"
ARGUMENTS: dict[str, dict[str, Any]] = {
    **{
        f"operation_{word}": {"operation": OPERATION}
        for word in ("retry", "skip", "abort", "reject", "get", "get_spec")
    },
    "operation_decide": {"operation": OPERATION, "answer": {"choice": "wait"}},
    "operation_approve": {"operation": OPERATION, "plan_hash": "0"},
    "operation_wait": {"operation": OPERATION, "timeout_seconds": 0},
    "wait_seconds": {"seconds": 0},
    "cluster_create": {"tag": "tooled"},
    "cluster_create_eks": {"tag": "tooled"},
    "cluster_create_eks_with_cidr": {
        "tag": "tooled",
        "region": "us-west-2",
        "vpcCidr": "10.90.0.0/16",
        "publicSubnet1Cidr": "10.90.0.0/24",
        "publicSubnet2Cidr": "10.90.1.0/24",
        "eksPrivateSubnet1Cidr": "10.90.2.0/24",
        "eksPrivateSubnet2Cidr": "10.90.3.0/24",
        "hyperPodPrivateSubnetCidr": "10.90.16.0/20",
    },
    "cluster_import": {"tag": "tooled", "eks_cluster": "theirs"},
    "karpenter_install": {},
    "drift_adopt": {"differences": ["instance-group/workers/target~0a1b2c3d"]},
    "drift_restore": {"differences": ["instance-group/workers/target~0a1b2c3d"]},
    "inference_deploy_container": {"deployment": "chat", "command": COMMAND, "gpu_count": 1},
    "inference_update_deployment": {"deployment": "chat", "gpu_count": 1},
    "model_pool_assign": {"model_pool": "pool", "assignments": {"chat": 1}},
    "router_create": {"router": "front", "target": {"deployment": "chat"}},
    "inference_scale_deployment": {"deployment": "chat", "replicas": 2},
    "access_revoke_token": {"name": "nobody"},
}
"""Where a case of tests/mcp has none, or is about more than the role."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tag(temporal: Client, worker: Worker) -> str:
    """A cluster that is there."""
    return await start_cluster(temporal, "tools", control_plane=CONTROL_PLANE, hyperpod=HYPERPOD)


def arguments_of(tool: str, tag: str, role: str) -> dict[str, Any]:
    """Arguments that the gateway would take, about the cluster ``tag``.

    A preset belongs to whom saved it, so each role has one of its own.
    """
    given = ARGUMENTS.get(tool)
    if given is None:
        given = next((dict(arguments) for name, arguments, *_ in CASES if name == tool and arguments), {})
    known = _parameters(tool)
    aliases = {"clusterTag", "cluster", "hyperPodTag"}
    given = {name: value for name, value in given.items() if name not in aliases and name != "plan"}
    # What only asks is asked about a cluster that is not there, which is known only to who may ask.
    if tool.startswith("preset_"):
        given["preset"] = f"tool-roles-{role}"
    about = tag if DEFINITIONS[tool].starts else "nobody"
    return {**given, **({"cluster": about} if "cluster" in known else {})}


def _parameters(tool: str) -> dict[str, Any]:
    return dict(DEFINITIONS[tool].tool().parameters.get("properties", {}))


@pytest.mark.parametrize("role", ROLES)
async def test_tools_are_for_those_whom_the_table_names(
    gateway: Gateway, temporal: Client, tag: str, role: str
) -> None:
    face = create_server(gateway.url, gateway.tokens[role], EVERY)
    wrong = []
    async with face.http, McpClient(face) as client:
        for tool, cells in sorted(TOOLS.items()):
            result = await asyncio.wait_for(client.call_tool(tool, arguments_of(tool, tag, role)), 120)
            said = result.structured_content or {}
            denied = bool(result.is_error) and said.get("problem", {}).get("code") in ("denied", "credentials")
            if denied is not (cells[role] == "no"):
                wrong.append((tool, cells[role], said))
            if not result.is_error and "status_tool" in said:
                await ended(temporal, said["operation"])
                if (said["phase"] == "waiting_for_approval") is not (cells[role] == "asks"):
                    wrong.append((tool, cells[role], said))
    assert wrong == []


async def test_nobody_without_a_token_is_answered_by_a_tool(mcp_url: str) -> None:
    async with httpx2.AsyncClient() as http:
        for tool in TOOLS:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
            answer = await http.post(mcp_url, json=call, headers=HEADERS)
            assert answer.status_code == 401, tool
