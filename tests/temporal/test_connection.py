"""Real mutual TLS before a real server: who is right comes in, and who is wrong is told why."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from starlette.testclient import TestClient
from temporalio.testing import WorkflowEnvironment

from api.app import create_app
from api.settings import Settings
from temporal.connection import connect
from temporal.faults import ConnectionFaultError, closed_at_once
from tests.temporal.tls import SERVER_NAME, Authority, Pair, mutual_tls

ROOT = Path(__file__).parents[2]


@dataclass
class Frontend:
    """A Temporal frontend behind mutual TLS, and who may and who may not come in."""

    address: str
    authority: Authority
    strangers: Authority
    welcome: Pair
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self, client: Pair | None, **changes: str) -> dict[str, str]:
        shown = (
            {"TEMPORAL_TLS_CLIENT_CERT_PATH": str(client.certificate), "TEMPORAL_TLS_CLIENT_KEY_PATH": str(client.key)}
            if client is not None
            else {}
        )
        return {
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_NAMESPACE": "default",
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(self.authority.certificate),
            "TEMPORAL_TLS_SERVER_NAME": SERVER_NAME,
            **shown,
            **changes,
        }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def frontend(
    dev_server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Frontend]:
    folder = tmp_path_factory.mktemp("tls")
    authority, strangers = Authority(folder, "authority"), Authority(folder, "strangers")
    target = dev_server.client.service_client.config.target_host
    async with mutual_tls(target, authority.sign(SERVER_NAME), authority) as address:
        yield Frontend(address, authority, strangers, authority.sign("worker"))


def _use(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("TEMPORAL_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def _wrong(frontend: Frontend, case: str) -> tuple[dict[str, str], str]:
    """An environment that does not lead in, and what must be said of it."""
    match case:
        case "a stranger":
            return frontend.environment(frontend.strangers.sign("worker")), "refuses the client certificate"
        case "expired":
            return frontend.environment(
                frontend.authority.sign("late", timedelta(days=-1))
            ), "refuses the client certificate"
        case "no certificate":
            return frontend.environment(None), "refuses the client certificate"
        case "another authority":
            ca = str(frontend.strangers.certificate)
            return frontend.environment(frontend.welcome, TEMPORAL_TLS_SERVER_CA_CERT_PATH=ca), "nobody who is trusted"
        case "another name":
            return frontend.environment(frontend.welcome, TEMPORAL_TLS_SERVER_NAME="other.test"), "for another name"
        case "another's key":
            other = frontend.authority.sign("other")
            return frontend.environment(Pair(frontend.welcome.certificate, other.key)), "cannot be used together"
    raise AssertionError(case)


CASES = ["a stranger", "expired", "no certificate", "another authority", "another name", "another's key"]


@pytest.mark.parametrize(
    "said",
    [
        'code: Unknown, message: "transport error", source: Some(tonic::transport::Error(Transport, hyper::Error(Io)))',
        'code: Cancelled, message: "operation was canceled", source: Some(tonic::transport::Error(Transport, '
        'hyper::Error(Canceled, "connection closed")))',
    ],
)
def test_a_connection_that_is_ended_is_known_at_whichever_moment_it_ends(said: str) -> None:
    error = RuntimeError(f"Failed client connect: `get_system_info` call error after connection: Status {{ {said} }}")
    assert closed_at_once(error, "127.0.0.1:7233") is not None
    assert closed_at_once(RuntimeError("connection refused"), "127.0.0.1:7233") is None


async def test_the_right_certificate_leads_in(frontend: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, frontend.environment(frontend.welcome))
    client = await connect()
    assert (await client.count_workflows("WorkflowId = 'none'")).count == 0


@pytest.mark.parametrize("case", CASES)
async def test_what_waiting_does_not_mend_is_said_and_not_waited_for(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    environment, said = _wrong(frontend, case)
    _use(monkeypatch, environment)
    with pytest.raises(ConnectionFaultError, match=said):
        await asyncio.wait_for(connect(), 60)


@pytest.mark.parametrize("case", CASES)
async def test_the_gateway_says_why_it_is_not_ready(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str
) -> None:
    environment, said = _wrong(frontend, case)
    _use(monkeypatch, environment)

    def ask() -> None:
        with TestClient(create_app(Settings(data_dir=tmp_path)), base_url="http://127.0.0.1:3099") as gateway:
            # A server may end a connection before its reason has arrived: the next one says it.
            while said not in (answer := gateway.get("/ready")).json()["detail"]:
                assert answer.status_code == 503
            assert answer.status_code == 503

    await asyncio.wait_for(asyncio.to_thread(ask), 60)


MEMOS = """
import sys
from temporal.connection import connect
from temporal.running import run_program

async def main():
    client = await connect()
    await client.start_workflow("none", id=sys.argv[1], task_queue="none", memo={"record": "x" * int(sys.argv[2])})
    print("started", flush=True)

run_program(main())
"""


@pytest.mark.parametrize(("kilobytes", "warned"), [(20, False), (200, True)])
def test_a_memo_of_a_records_size_is_no_reason_to_warn_and_a_huge_one_is(
    dev_server: WorkflowEnvironment, kilobytes: int, warned: bool
) -> None:
    target = dev_server.client.service_client.config.target_host
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TEMPORAL_")}
    told = subprocess.run(
        [sys.executable, "-c", MEMOS, f"memo-{kilobytes}", str(kilobytes * 1000)],
        cwd=ROOT,
        env=inherited | {"TEMPORAL_CONFIG_FILE": os.devnull, "TEMPORAL_ADDRESS": target},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "started" in told.stdout, told.stderr
    assert ("TMPRL1103" in told.stdout + told.stderr) is warned


@pytest.mark.parametrize("program", ["worker", "temporal.setup", "worker.deployment status"])
async def test_a_process_that_cannot_come_in_ends_and_says_why(frontend: Frontend, program: str) -> None:
    environment, said = _wrong(frontend, "a stranger")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *program.split()),
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("TEMPORAL_")}, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, told = await asyncio.wait_for(process.communicate(), 120)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 2
    assert said in told.decode()
    assert "Traceback" not in told.decode()


@pytest.mark.parametrize("program", ["worker", "server", "api"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"TEMPORAL_PROFILE": "nowhere"}, "nowhere"),
        ({"INSTANTSTART_CODEC_KEY_FILE": "/nowhere/codec.keys"}, "/nowhere/codec.keys"),
    ],
)
async def test_settings_that_cannot_be_used_end_a_process_before_it_begins(
    program: str, wrong: dict[str, str], said: str, tmp_path: Path
) -> None:
    own = {"TEMPORAL_CONFIG_FILE": str(tmp_path / "none.toml"), "INSTANTSTART_DATA_DIR": str(tmp_path), **wrong}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", program),
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("TEMPORAL_")}, **own},
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 2
    assert said in told.decode()
    assert "Traceback" not in told.decode()


async def test_a_server_that_is_not_up_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, {"TEMPORAL_CONFIG_FILE": os.devnull, "TEMPORAL_ADDRESS": "127.0.0.1:1"})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connect(), 2.5)
