"""The local stack's folder, ports and environment, and the commands around them."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.stack import environment, launch, settings
from cli.stack.child import Service
from cli.stack.folder import DataFolder, Held, write_private
from cli.stack.ports import free_port, holder, is_free
from cli.stack.services import temporal_argv
from cli.stack.settings import Ports, StackSettings
from cli.stack.start import start_stack
from cli.stack.supervisor import StackError
from contracts import visibility
from contracts.sealing import KEY_BYTES, parse_key
from temporal.keys import key_ring
from temporal.settings import ConnectionSettings
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "data")
    made.create()
    return made


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_the_seal_key_is_made_once_and_for_its_owner_alone(folder: DataFolder) -> None:
    file = folder.seal_key()
    text = file.read_bytes()
    assert len(parse_key(text)) == KEY_BYTES
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert DataFolder(folder.path).seal_key().read_bytes() == text
    folder.wipe()
    assert file.read_bytes() == text


def test_the_holder_of_a_port_is_found_while_it_closes_other_files(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    readlink, closed = os.readlink, f"/proc/{os.getpid()}/fd/0"

    def raced(path: Any) -> str:
        if str(path) == closed:
            raise FileNotFoundError(path)
        return readlink(path)

    monkeypatch.setattr(os, "readlink", raced)
    assert (holder(taken) or "").startswith(f"pid {os.getpid()}: ")


def test_a_taken_port_is_named_with_what_wanted_it_and_who_has_it(cli: Cli, taken: int, folder: DataFolder) -> None:
    ran = cli("up", "--temporal-port", str(taken), *quiet_ports("temporal"))
    assert (ran.code, ran.out) == (1, "")
    assert f"port {taken}, wanted by Temporal, is taken by pid {os.getpid()}: " in ran.err
    assert "--temporal-port or INSTANTSTART_TEMPORAL_PORT" in ran.err
    assert "Nothing was started." in ran.err
    assert list(folder.logs.iterdir()) == []
    assert folder.holder() is None


def test_ports_come_from_the_environment(cli: Cli, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTANTSTART_GATEWAY_PORT", str(taken))
    ran = cli("up", *quiet_ports("gateway"))
    assert f"port {taken}, wanted by the gateway" in ran.err


def test_the_holder_of_a_port_is_found(taken: int) -> None:
    assert not is_free(taken)
    assert (holder(taken) or "").startswith(f"pid {os.getpid()}: ")


def test_only_taken_ports_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = Ports(kubernetes=1)
    monkeypatch.setattr(settings, "is_free", lambda port: port != ports.kubernetes)
    moved = ports.moved()
    assert moved.kubernetes > 1
    assert replace(moved, kubernetes=1) == ports


def test_a_second_up_says_that_one_runs(cli: Cli, folder: DataFolder) -> None:
    with folder.hold():
        ran = cli("up", *quiet_ports())
        assert ran.code == 1
        assert f"a stack is running on {folder.path} (pid {os.getpid()})" in ran.err
        with pytest.raises(Held):
            folder.hold()
    assert folder.holder() is None


def test_reset_refuses_while_a_stack_runs(cli: Cli, folder: DataFolder) -> None:
    folder.temporal.touch()
    with folder.hold():
        ran = cli("reset", "--yes")
    assert ran.code == 1
    assert "is running" in ran.err
    assert folder.temporal.exists()


def test_reset_asks_and_wipes_both_states_together(cli: Cli, folder: DataFolder) -> None:
    kept = folder.path / "tokens.json"
    files = [folder.temporal, folder.path / "temporal.db-wal", folder.sandbox / "sandbox.state", kept]
    for file in files:
        file.touch()
    assert cli("reset").code == 1
    assert all(file.exists() for file in files)
    assert cli("reset", "--yes").code == 0
    assert [file for file in files if file.exists()] == [kept]


def test_down_without_a_stack(cli: Cli) -> None:
    assert cli("down").code == 0


def test_secrets_are_for_the_owner_only(folder: DataFolder) -> None:
    folder.credentials.touch(mode=0o644)
    write_private(folder.credentials, {"token": "isk_x"})
    assert stat.S_IMODE(folder.credentials.stat().st_mode) == 0o600
    assert json.loads(folder.credentials.read_text()) == {"token": "isk_x"}


def test_the_key_of_the_mcp_servers_rounds_outlives_a_restart_and_is_for_the_owner_only(folder: DataFolder) -> None:
    key = folder.mcp_state_key()
    assert len(key) >= 32
    assert DataFolder(folder.path).mcp_state_key() == key
    (kept,) = [file for file in folder.path.iterdir() if file.is_file() and key in file.read_text()]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_nothing_of_the_callers_accounts_reaches_the_stack(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "sandbox_credentials", lambda ambient: ("SANDBOXKEY", "sandbox-secret"))
    monkeypatch.setattr(environment, "helm", lambda: "/opt/helm")
    ambient = {
        "HOME": "/home/me",
        "AWS_PROFILE": "production",
        "AWS_SESSION_TOKEN": "real",
        "AWS_CA_BUNDLE": "/x",
        "KUBECONFIG": "/home/me/.kube/config",
        "TEMPORAL_API_KEY": "real",
        "INSTANTSTART_TOKEN": "isk_other",
        "INSTANTSTART_AWS_THREADS": "4",
    }
    env = environment.platform(StackSettings(folder), ambient)
    assert "real" not in env.values()
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "TEMPORAL_API_KEY", "INSTANTSTART_TOKEN"} & set(
        env
    )
    assert env["AWS_CONFIG_FILE"] == env["AWS_SHARED_CREDENTIALS_FILE"] == env["KUBECONFIG"] == os.devnull
    assert env["AWS_ENDPOINT_URL"] == "http://127.0.0.1:5566"
    assert env["AWS_ACCESS_KEY_ID"] == "SANDBOXKEY"
    assert env["INSTANTSTART_AWS_THREADS"] == "4"
    assert env["HOME"] == "/home/me"


def test_temporal_is_started_with_wal_and_every_search_attribute(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "temporal_binary", lambda: "temporal")
    argv = temporal_argv(StackSettings(folder))
    assert argv[:3] == ["temporal", "server", "start-dev"]
    assert {"journal_mode=WAL", "synchronous=NORMAL", "--ui-disable-news-fetch"} <= set(argv)
    assert "limit.memoSize.warn=32768" in argv
    assert argv.count("--search-attribute") == len(visibility.KEYWORDS) + len(visibility.BOOLS)


def test_payloads_are_encrypted_from_when_somebody_asks_for_it_and_ever_after(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "temporal_binary", lambda: "temporal")
    monkeypatch.setattr(environment, "sandbox_credentials", lambda ambient: ("id", "secret"))
    monkeypatch.setattr(environment, "helm", lambda: "/opt/helm")
    settings, other = StackSettings(folder), {"INSTANTSTART_CODEC_KEY_FILE": "/another/deployment's"}
    assert "INSTANTSTART_CODEC_KEY_FILE" not in environment.platform(settings, other)
    assert "--ui-codec-endpoint" not in temporal_argv(settings)

    folder.encrypt()
    key = folder.codec_keys.read_bytes()
    folder.encrypt()
    folder.wipe()
    again = StackSettings(DataFolder(folder.path))
    assert folder.codec_keys.read_bytes() == key
    assert stat.S_IMODE(folder.codec_keys.stat().st_mode) == 0o600
    assert environment.platform(again, {})["INSTANTSTART_CODEC_KEY_FILE"] == str(folder.codec_keys)
    argv = temporal_argv(again)
    assert argv[argv.index("--ui-codec-endpoint") + 1] == "http://127.0.0.1:3099/codec"
    assert key_ring(ConnectionSettings(codec_key_file=folder.codec_keys)).first is not None


def test_a_stack_shows_its_links_while_it_runs(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("one", [sys.executable, "-c", "import signal; signal.pause()"], dict(os.environ), lambda: True)
    monkeypatch.setattr(launch, "services", lambda settings: [service])
    monkeypatch.setattr(launch, "ensure_credentials", lambda settings: None)
    monkeypatch.setattr(launch, "console_link", lambda folder: "http://127.0.0.1/signin?ticket=ist_once")
    read, write = os.pipe()
    seen: list[Any] = []

    def on_ready(links: launch.Links) -> None:
        seen.extend([links, folder.links()])
        os.close(write)

    chosen = StackSettings(folder, Ports(free_port(), free_port(), free_port(), free_port(), free_port()))
    launch.run_stack(chosen, free_ports=False, say=lambda text: None, on_ready=on_ready, tied=read)
    os.close(read)
    assert seen[0] == {**seen[1], "console": "http://127.0.0.1/signin?ticket=ist_once"}
    assert (folder.links(), folder.holder()) == (None, None)


def test_a_stack_that_cannot_start_says_why(folder: DataFolder, taken: int) -> None:
    ports = Ports(free_port(), free_port(), free_port(), free_port(), taken)
    with pytest.raises(StackError, match=f"port {taken}, wanted by the sandbox's Kubernetes API, is taken"):
        start_stack(StackSettings(folder, ports), free_ports=False, keep=False)
    assert folder.holder() is None


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from cli.main import run; run(['--help']); "
        "print([name for name in ('httpx', 'rich', 'yaml', 'pydantic', 'temporalio', 'boto3') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


def quiet_ports(*but: str) -> list[str]:
    """Options that move every port, but those named, away from the defaults."""
    names = ("gateway", "temporal", "temporal-ui", "sandbox", "kubernetes")
    return [part for name in names if name not in but for part in (f"--{name}-port", str(free_port()))]
