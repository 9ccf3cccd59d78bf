"""The services of docker-compose.yml as processes of this machine: their commands, environments and health checks as
they are written, with this machine's addresses and folders in place of the containers'."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.stack.ports import free_port
from deploy.compose.prepare import prepare
from tests.deploy.composed import ROOT, composed

PATIENCE = 300.0
"""Seconds that a service may take to be healthy, or to end."""


def network_name() -> str:
    """A name without dots that leads here, as a service's name leads to its container; else an address that does."""
    name = socket.gethostname()
    try:
        return name if "." not in name and socket.gethostbyname(name).startswith("127.") else "127.0.0.1"
    except OSError:
        return "127.0.0.1"


@dataclass
class Roles:
    """The services, with Temporal at ``temporal``; ``folder`` has their volumes and secrets.

    ``project`` and ``python`` are the image's folder and interpreter; ``user`` is whom they run as, where that is
    somebody else.
    """

    folder: Path
    temporal: str
    project: Path = ROOT
    python: str = sys.executable
    user: int | None = None
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        owner = (self.user, self.user) if self.user is not None else (os.getuid(), os.getgid())
        prepare(self.folder / "secrets", self.folder / ".env", *owner)
        self.ports = {port: free_port() for port in ("3099", "5566", "5567")}
        self.metrics = {name: free_port() for name in ("gateway", "worker")}
        for name in ("tmp", "gateway", "worker", "setup", "sandbox"):
            (self.folder / name).mkdir(exist_ok=True)
            os.chown(self.folder / name, *owner)
        config = (ROOT / "deploy/compose/aws/sandbox.config").read_text()
        (self.folder / "sandbox.config").write_text(config)

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.ports['3099']}"

    def environment(self, name: str) -> dict[str, str]:
        """What the service's container would have, for here."""
        written = composed("sandbox")["services"][name].get("environment", {})
        env = {variable: self._here(name, value) for variable, value in written.items()}
        path = os.pathsep.join([str(Path(self.python).parent), str(ROOT / ".tools" / "bin"), os.defpath])
        return {"PATH": path, "HOME": str(self.folder / "tmp"), "TMPDIR": str(self.folder / "tmp")} | env

    def run(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in the service's container, or its own, until it has ended."""
        return subprocess.run(
            self._command(name, command or tuple(composed("sandbox")["services"][name]["command"])),
            cwd=self.project,
            env=self.environment(name),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            user=self.user,
            group=self.user,
        )

    def start(self, name: str) -> None:
        """Start the service and wait until its health check says that it works."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = process = subprocess.Popen(
                self._command(name, composed("sandbox")["services"][name]["command"]),
                cwd=self.project,
                env=self.environment(name),
                stdout=log,
                stderr=subprocess.STDOUT,
                user=self.user,
                group=self.user,
            )
        deadline = time.monotonic() + PATIENCE
        while not self.healthy(name):
            assert process.poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.2)

    def healthy(self, name: str) -> bool:
        """What the service's health check says."""
        words: list[str] = composed("sandbox")["services"][name]["healthcheck"]["test"][1:]
        words = [str(ROOT / "deploy" / "image" / word) if word == "answers.py" else word for word in words]
        return self.run(name, *words).returncode == 0

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def stop(self, name: str) -> int:
        """Stop the service as Docker does; its exit status."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE)

    def end(self) -> None:
        """Whatever still runs."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _command(self, name: str, words: Any) -> list[str]:
        here = [self.python if word == "python" else self._here(name, word) for word in words]
        # A name that is a host, where it is a module in the same command.
        return [network_name() if before == "--host" else word for before, word in zip(["", *here], here, strict=False)]

    def _here(self, name: str, value: str) -> str:
        """``value`` with what leads here."""
        if value.startswith("/run/secrets/"):
            return str(self.folder / "secrets" / value.rpartition("/")[2])
        if value.startswith("/etc/instantstart/aws/"):
            return str(self.folder / value.rpartition("/")[2])
        if value.startswith("/var/lib/instantstart"):
            return value.replace("/var/lib/instantstart", str(self.folder / name))
        if value.startswith("/opt/instantstart"):
            return value.replace("/opt/instantstart", str(self.project))
        if value == "temporal:7233":
            return self.temporal
        if name in self.metrics:
            value = re.sub(r"\b9464\b", str(self.metrics[name]), value)
        for port, here in self.ports.items():
            value = re.sub(rf"(?<![\w.]){port}\b", str(here), value)
        value = value if value != "0.0.0.0" else "127.0.0.1"
        value = value.replace("0.0.0.0:", "127.0.0.1:")
        return re.sub(r"(?<=//)sandbox\b", network_name(), value)
