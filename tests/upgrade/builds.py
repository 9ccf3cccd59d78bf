"""Worker processes of several builds on one stack, an earlier one among them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cli.stack.child import Child, Service
from cli.stack.folder import ROOT
from tests.local_stack import START_LIMIT, LocalStack

STOP_LIMIT = 90.0
"""Seconds; a worker ends within ten, on a machine that has nothing else to do."""
PATCHED = re.compile(r"workflow\.patched\(\w+\)")


def earlier(folder: Path) -> Path:
    """The workflows as they were before the patches that are in force now: every patch is as if it were not there."""
    copy = shutil.copytree(ROOT / "workflows", folder / "workflows", ignore=shutil.ignore_patterns("__pycache__"))
    texts = {file: file.read_text() for file in copy.rglob("*.py")}
    changed = {file: PATCHED.sub("False", text) for file, text in texts.items() if PATCHED.search(text)}
    assert changed, "no workflow has a patch: there is nothing that an earlier build did otherwise"
    for file, text in changed.items():
        file.write_text(text)
    return folder


@dataclass
class Builds:
    """Workers of a stack whose own worker does not run."""

    stack: LocalStack
    _running: dict[str, Child] = field(default_factory=dict)

    def start(self, name: str, code: Path = ROOT, build_id: str | None = None) -> None:
        """Start a worker with the workflows of ``code``, and wait until it hosts them."""
        env = self.stack.environment("worker") | {"PYTHONPATH": os.pathsep.join([str(code), str(ROOT)])}
        if build_id is not None:
            env["INSTANTSTART_BUILD_ID"] = build_id
        # -P: else Python would look into the present folder first, which is the product's.
        argv = [sys.executable, "-P", "-m", "worker"]
        service = Service(name, argv, env, ready=lambda: True, grace=STOP_LIMIT)
        child = Child(service, self.stack.settings.folder.logs)
        self._running[name] = child
        deadline = time.monotonic() + START_LIMIT
        while "hosting" not in child.tail(200):
            assert child.exit_code() is None, child.tail()
            assert time.monotonic() < deadline, child.tail()
            time.sleep(0.1)

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def log(self, name: str) -> str:
        return self._running[name].tail(2000)

    def stop(self, name: str) -> None:
        """As a deployment stops it: SIGTERM, then patience."""
        assert self._running.pop(name).stop(), "it had to be killed"

    def kill(self, name: str) -> None:
        child = self._running.pop(name)
        child.kill_group()
        child.stop()

    def deployment(self, *arguments: str) -> str:
        """``python -m worker.deployment``; what it says."""
        command = [sys.executable, "-m", "worker.deployment", *arguments]
        env = self.stack.environment("worker")
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=START_LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        for name in list(self._running):
            self.kill(name)


@contextmanager
def builds_on(folder: Path, speed: float, env: dict[str, str]) -> Iterator[Builds]:
    """A stack without gateway and worker; start the gateway when a worker runs, for it waits for one."""
    stack = LocalStack(folder, speed, env)
    builds = Builds(stack)
    try:
        stack.start_only("temporal", "sandbox")
        yield builds
    finally:
        builds.end()
        stack.stop()
