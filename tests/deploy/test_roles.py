"""What docker-compose.yml starts really starts: its commands with their environments, and works together."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from cli.stack.environment import temporal_binary
from tests.deploy.roles import PATIENCE, Roles

pytestmark = pytest.mark.real_server


@pytest_asyncio.fixture(scope="module")
async def roles(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Roles]:
    """Temporal as it comes, without a namespace of ours, and nothing started yet."""
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=temporal_binary()) as server:
        made = Roles(tmp_path_factory.mktemp("roles"), server.client.service_client.config.target_host)
        try:
            yield made
        finally:
            made.end()


def test_a_host_comes_up_as_it_is_written_and_serves_a_caller(roles: Roles) -> None:
    setup = roles.run("setup")
    assert setup.returncode == 0, setup.stdout + setup.stderr
    assert "namespace instantstart" in setup.stdout
    assert roles.run("setup").returncode == 0, "it can be repeated"

    for name in ("sandbox", "worker", "gateway"):
        roles.start(name)

    with httpx.Client(base_url=roles.gateway, timeout=60) as http:
        deadline = time.monotonic() + PATIENCE
        while (ready := http.get("/ready")).status_code != 200:
            assert time.monotonic() < deadline, ready.text + roles.log("worker")
            time.sleep(0.2)
        assert http.get("/api/v1/options").status_code == 401

        added = roles.run("gateway", "python", "-m", "api.tokens", "add", "ada", "admin")
        assert added.returncode == 0, added.stderr
        http.headers["Authorization"] = f"Bearer {added.stdout.strip()}"
        link = roles.run(
            "gateway", "env", f"INSTANTSTART_TOKEN={added.stdout.strip()}", "python", "-m", "cli", "console"
        )
        assert f"{roles.gateway}/signin?ticket=" in link.stdout, link.stderr
        options = http.get("/api/v1/options")
        assert options.status_code == 200, options.text
        assert options.json()["region"] == "us-west-2"
        assert http.get("/").status_code in (200, 303, 307), "the console is on the same port"

    for name in ("gateway", "worker"):
        metrics = httpx.get(f"http://127.0.0.1:{roles.metrics[name]}/metrics", timeout=60)
        assert metrics.status_code == 200
    assert roles.stop("gateway") == -signal.SIGTERM, "uvicorn ends by the signal that it has obeyed"
    assert "Application shutdown complete" in roles.log("gateway")
    assert roles.stop("worker") == 0, roles.log("worker")
    assert roles.stop("sandbox") == 0, roles.log("sandbox")
