"""Start a stack in a process of its own and wait until it works; stop one that runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

from cli.stack.folder import ROOT, DataFolder
from cli.stack.launch import AlreadyRunning, Links
from cli.stack.settings import StackSettings
from cli.stack.supervisor import StackError


@dataclass
class RunningStack:
    """A stack that this process started. Its supervisor goes when this process does, unless it is kept."""

    links: Links
    process: subprocess.Popen[str]

    def stop(self) -> None:
        """Ask it to stop, and wait until nothing of it is left."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        self.process.wait()


def start_stack(settings: StackSettings, *, free_ports: bool, keep: bool) -> RunningStack:
    """Start ``instantstart up`` and wait for its links. Raises StackError with what it said when it could not start.

    ``keep``: it outlives this process; else it stops when this process ends, however that happens.
    """
    folder = settings.folder
    folder.create()
    if (pid := folder.holder()) is not None:
        raise AlreadyRunning(folder, pid)
    ports = [part for port in settings.ports.each() for part in (port.option, str(port.number))]
    argv = [sys.executable, "-m", "cli", "up", "--data", str(folder.path), "-o", "json", *ports]
    argv += ["--speed", f"{settings.speed:g}", *(["--free-ports"] if free_ports else []), *([] if keep else ["--tied"])]
    log = folder.logs / "up.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            stdin=subprocess.DEVNULL if keep else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    stack = RunningStack({}, process)
    try:
        # Its stdout holds the links, in one write, and nothing before or after.
        text = ""
        for line in process.stdout:
            text += line
            if line.rstrip() == "}":
                stack.links = json.loads(text)
                return stack
    except BaseException:
        stack.stop()
        raise
    process.wait()
    raise StackError(_reason(log.read_text(errors="replace").strip()))


def _reason(said: str) -> str:
    """Why a stack did not start: the problem that it ended with, else all that it said."""
    last = said.rpartition("\n")[2]
    try:
        return str(json.loads(last)["detail"])
    except (ValueError, KeyError, TypeError):
        return said or "the stack did not start"


def stop_stack(folder: DataFolder) -> bool:
    """Stop the stack that runs on the folder and wait until it has gone; false if none runs."""
    pid = folder.holder()
    if not pid:
        return False
    with folder.lock.open("r") as file:
        os.kill(pid, signal.SIGTERM)
        # The lock is given back when everything has stopped.
        fcntl.flock(file, fcntl.LOCK_SH)
    return True
