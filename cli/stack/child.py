"""One child process: started in a process group of its own, logged to a file, ended with its whole group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.stack.folder import ROOT

TETHER = Path(__file__).with_name("tether.py")
LOG_LIMIT = 20 * 1024 * 1024


@dataclass(frozen=True)
class Service:
    """What to run, and how to know that it works."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    ready: Callable[[], bool]
    """A probe of at most a second or so; false and OSError both mean: not yet."""
    start_limit: float = 150.0
    grace: float = 15.0
    """Seconds between SIGTERM and SIGKILL."""


class Child:
    """A running service."""

    def __init__(self, service: Service, logs: Path) -> None:
        self.service = service
        self.log = logs / f"{service.name}.log"
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as output:
            self.log_start = output.tell()
            tether = [sys.executable, "-I", "-S", str(TETHER), str(int(signal.SIGKILL)), str(os.getpid())]
            self._process = subprocess.Popen(
                [*tether, *service.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(service.env),
                cwd=ROOT,  # not the caller's: `python -m` looks there first
                process_group=0,
            )
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Negative: ended by that signal. None: still running."""
        return self._process.poll()

    def ended_how(self) -> str:
        code = self.exit_code()
        return f"was ended by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"

    def tail(self, lines: int = 20) -> str:
        """The last lines that this run of the service wrote."""
        with self.log.open("rb") as file:
            file.seek(max(self.log_start, self.log.stat().st_size - 16384))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def ask_to_stop(self) -> None:
        """SIGTERM to the process alone: what it started itself is its own to end."""
        if self.exit_code() is None:
            self._process.terminate()

    def stop(self) -> bool:
        """End the child, and whatever is left of its group. False: it had to be killed."""
        self.ask_to_stop()
        try:
            self._process.wait(self.service.grace)
            gentle = True
        except subprocess.TimeoutExpired:
            gentle = False
        self.kill_group()
        self._process.wait()
        return gentle

    def kill_group(self) -> None:
        """SIGKILL to everything of the group that still runs."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: only zombies are left (macOS)
            os.killpg(self.pid, signal.SIGKILL)
