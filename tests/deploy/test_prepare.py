"""The secrets of a host are made once, for their owner alone, and fit the code that reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.sealing import parse_key
from deploy.compose.prepare import MAKERS, prepare
from mcp_server.settings import Settings as McpSettings
from temporal.keys import key_ring
from temporal.settings import ConnectionSettings
from tests.deploy.composed import ROOT

ME = (os.getuid(), os.getgid())


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_secrets_are_made_once_and_read_by_their_owner_alone(tmp_path: Path) -> None:
    folder, env = tmp_path / "secrets", tmp_path / ".env"
    assert set(prepare(folder, env, *ME)) == set(MAKERS)
    first = contents(folder)
    assert set(first) == set(MAKERS)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700

    (folder / "seal_key").chmod(0o644)
    assert prepare(folder, env, *ME) == []
    assert contents(folder) == first
    assert (folder / "seal_key").stat().st_mode & 0o777 == 0o600


def test_one_that_is_lost_is_made_without_touching_the_others(tmp_path: Path) -> None:
    folder, env = tmp_path / "secrets", tmp_path / ".env"
    prepare(folder, env, *ME)
    first = contents(folder)
    (folder / "grafana_password").unlink()
    assert prepare(folder, env, *ME) == ["grafana_password"]
    later = contents(folder)
    assert later.pop("grafana_password") != first.pop("grafana_password")
    assert later == first


def test_what_is_made_is_what_the_code_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "secrets"
    prepare(folder, tmp_path / ".env", *ME)
    assert len(parse_key((folder / "seal_key").read_bytes())) == 64
    assert key_ring(ConnectionSettings(codec_key_file=folder / "codec_keys")).first is not None
    monkeypatch.setenv("INSTANTSTART_MCP_STATE_KEY_FILE", str(folder / "mcp_state_key"))
    assert McpSettings().state_key == (folder / "mcp_state_key").read_text()


def test_a_key_of_the_mcp_server_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTANTSTART_MCP_STATE_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="none cannot be read: No such file"):
        McpSettings()
    short = tmp_path / "short"
    short.write_text("f3a9")
    monkeypatch.setenv("INSTANTSTART_MCP_STATE_KEY_FILE", str(short))
    with pytest.raises(ValueError, match="at least 32") as raised:
        McpSettings()
    assert "f3a9" not in str(raised.value)


def test_variables_of_somebody_else_stay(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("INSTANTSTART_REGIONS=eu-west-1\nINSTANTSTART_USER=1:1\n")
    prepare(tmp_path / "secrets", env, *ME)
    assert env.read_text() == f"INSTANTSTART_REGIONS=eu-west-1\nINSTANTSTART_USER={ME[0]}:{ME[1]}\n"
    prepare(tmp_path / "secrets", env, *ME, sandbox=True)
    assert "COMPOSE_PROFILES=sandbox\nINSTANTSTART_CLOUD=sandbox\n" in env.read_text()


def test_without_the_sandbox_nothing_stays_of_it(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("INSTANTSTART_REGIONS=eu-west-1\nCOMPOSE_PROFILES=metrics\n")
    for _ in range(2):
        prepare(tmp_path / "secrets", env, *ME, sandbox=True)
        assert "COMPOSE_PROFILES=metrics,sandbox\nINSTANTSTART_CLOUD=sandbox\n" in env.read_text()
    prepare(tmp_path / "secrets", env, *ME)
    who = f"INSTANTSTART_USER={ME[0]}:{ME[1]}"
    assert env.read_text() == f"INSTANTSTART_REGIONS=eu-west-1\n{who}\nCOMPOSE_PROFILES=metrics\n"


def test_a_cloud_that_somebody_has_chosen_stays(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("INSTANTSTART_CLOUD=aws\n")
    prepare(tmp_path / "secrets", env, *ME)
    assert "INSTANTSTART_CLOUD=aws\n" in env.read_text()


def test_it_tells_names_and_no_secret(tmp_path: Path) -> None:
    program = ROOT / "deploy" / "compose" / "prepare.py"
    run = subprocess.run(
        [sys.executable, "-I", str(program), "--folder", str(tmp_path / "s"), "--env", str(tmp_path / "env")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "seal_key" in run.stdout
    for secret in contents(tmp_path / "s").values():
        assert secret not in run.stdout + run.stderr
