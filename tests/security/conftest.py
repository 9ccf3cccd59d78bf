"""Gateways, tools and processes that are attacked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from tests.api.conftest import Gateway, eventually, make_cluster, name, running_gateway, temporal, worker
from tests.mcp.conftest import mcp_url
from tests.server.conftest import everything

__all__ = ["eventually", "everything", "make_cluster", "mcp_url", "name", "temporal", "worker"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(temporal: Client, worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway that waits for nobody for long: who may ask is judged here, and not what is answered."""
    folder = tmp_path_factory.mktemp("gateway")
    async with running_gateway(folder, temporal, look_up_timeout=0.5, check_timeout=0.3) as running:
        yield running
