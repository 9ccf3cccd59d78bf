"""A whole stack with all tools, and clients of its MCP server for people and agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.durability.runs import POLL, SPEED, entries, last_entry, raise_quotas
from tests.local_stack import LocalStack, local_stack

LIMIT = 600.0
"""Seconds that a creation may take beside all others."""
ROLES = {"bot": "agent", "reader": "agent", "olga": "operator"}
"""Who has a token: agents, and a person."""


class World:
    """The stack as those see it who talk about it."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self._tokens: dict[str, str] = {}
        for name, role in ROLES.items():
            answer = stack.gateway.post("/tokens", json={"name": name, "role": role}).raise_for_status()
            self._tokens[name] = answer.json()["token"]

    @asynccontextmanager
    async def connected(self, name: str) -> AsyncIterator[Client]:
        """A new MCP client over streamable HTTP, with the token of ``name``."""
        headers = {"Authorization": f"Bearer {self._tokens[name]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120) as http,
            Client(streamable_http_client(f"{self.stack.settings.gateway_url}/mcp", http_client=http)) as client,
        ):
            yield client

    async def until(self, operation: str, *phases: str) -> dict[str, Any]:
        """Wait until the operation is in one of these phases."""
        return await asyncio.to_thread(self.stack.until, operation, lambda found: found["phase"] in phases, LIMIT)

    async def listed(self, *tags: str) -> None:
        """Wait until the list of clusters shows these: it lags a moment behind."""
        while not set(tags) <= {each["tag"] for each in self.stack.gateway.get("/clusters").json()["clusters"]}:
            await asyncio.sleep(0.2)

    def last_entry(self) -> int:
        return last_entry(self.stack)

    def effects_on(self, tag: str, since: int) -> list[str]:
        """What was changed since then, in AWS and Kubernetes: of this cluster, or by nobody's operation."""
        caused = entries(self.stack, tag, since)
        caused += [row for row in entries(self.stack, None, since) if _by_no_operation(row)]
        return [f"{row['service']} {row['operation']}" for row in caused]

    def audited(self, name: str) -> list[dict[str, Any]]:
        """What the audit trail holds of somebody."""
        trail = self.stack.gateway.get("/audit", params={"page_size": 200}).raise_for_status().json()["entries"]
        return [entry for entry in trail if entry["by"] == name]

    def started_by(self, name: str) -> list[str]:
        """The operations that somebody has asked for."""
        query: dict[str, str | int] = {"started_by": name, "page_size": 200}
        listed = self.stack.gateway.get("/operations", params=query).raise_for_status().json()["operations"]
        return [each["id"] for each in listed]

    def make_fail(self, cluster: str, node: str) -> None:
        """Break a node's GPU."""
        wish = {"fail_node": {"cluster": f"hp-cluster-{cluster}", "node": node}}
        self.stack.sandbox.post("/hyperpod", json=wish).raise_for_status()


def _by_no_operation(row: dict[str, Any]) -> bool:
    return bool(row["api"] == "aws" and " op/" not in row["user_agent"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    env = {"INSTANTSTART_POLL_SECONDS": POLL, "INSTANTSTART_TOOLSETS": "all"}
    with local_stack(tmp_path_factory.mktemp("skills"), SPEED, env) as stack:
        raise_quotas(stack)
        yield World(stack)
