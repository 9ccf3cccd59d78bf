"""The sandbox's Hub over HTTP, and the script as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandbox.admin import Admin, AdminRequest
from sandbox.aws.server import Server, serve
from sandbox.clock import Clock
from sandbox.faults import Faults
from sandbox.hub.app import Hub
from sandbox.ledger import Ledger
from sandbox.state import State

SCRIPT = Path(__file__).parents[2] / "recipes" / "download" / "download.py"


class HubServer:
    """The Hub alone, on a port of its own."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.hub = Hub(self.faults)
        self.hub.register(Admin(Clock(), self.faults, Ledger(), State()))
        self._server: Server = serve(self.hub, 0)
        self.url = f"{self._server.url}/_hub"

    def put(self, repository: str, files: dict[str, Any], **more: Any) -> str:
        """Make a repository, or exchange it; its commit."""
        body = {"repository": repository, "files": files, **more}
        return str(self.hub._put(AdminRequest("PUT", "", {}, body))["commit"])

    def fault(self, *rules: dict[str, Any]) -> None:
        self.faults.replace([{"api": "hub", **rule} for rule in rules])

    def fired(self) -> int:
        return len(self.faults.report()["fired"])

    def stop(self) -> None:
        self._server.stop()


@dataclass
class Ran:
    code: int
    lines: list[dict[str, Any]]
    message: dict[str, Any]
    """The termination message."""

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = self.message["manifest"]
        return found


@dataclass
class Script:
    """The script with folders of a test's own."""

    hub: HubServer
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def target(self) -> Path:
        return self.folder / "storage" / "models" / "it"

    @property
    def files(self) -> dict[str, bytes]:
        """What has arrived, without what the script writes of itself."""
        found = {
            path.relative_to(self.target).as_posix(): path.read_bytes()
            for path in self.target.rglob("*")
            if path.is_file()
        }
        return {name: content for name, content in found.items() if not name.startswith(".instantstart")}

    def process(self, repository: str, *more: str, command: tuple[str, ...] = (str(SCRIPT),)) -> subprocess.Popen[str]:
        scratch, log = self.folder / "scratch", self.folder / "termination-log"
        log.unlink(missing_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "NO_PROXY": "127.0.0.1"}
        env |= {"HF_ENDPOINT": self.hub.url, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TERMINATION_LOG": str(log)}
        words = [sys.executable, *command, f"--repository={repository}", f"--target={self.target}"]
        words += [f"--scratch={scratch}", "--pause=0.05", "--progress-seconds=0.05", *more]
        return subprocess.Popen(
            words, env={**env, **self.env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __call__(self, repository: str, *more: str, command: tuple[str, ...] = (str(SCRIPT),)) -> Ran:
        process = self.process(repository, *more, command=command)
        output, _ = process.communicate(timeout=60)
        log = self.folder / "termination-log"
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return Ran(process.returncode, lines, json.loads(log.read_text()) if log.exists() else {})


@pytest.fixture(scope="session")
def hub_server() -> Iterator[HubServer]:
    server = HubServer()
    yield server
    server.stop()


@pytest.fixture
def hub(hub_server: HubServer) -> Iterator[HubServer]:
    """The Hub as it is at first, without faults."""
    hub_server.fault()
    hub_server.hub.repositories.reset()
    yield hub_server
    hub_server.fault()


@pytest.fixture
def script(hub: HubServer, tmp_path: Path) -> Script:
    return Script(hub, tmp_path)
