"""What docker-compose.yml says, as Docker Compose itself reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
USER = "10001:10001"
OURS = ("gateway", "worker", "setup", "sandbox")
"""Services that run the project itself."""


@lru_cache
def composed(cloud: str = "aws") -> dict[str, Any]:
    """The whole file with every profile; ``cloud`` is what INSTANTSTART_CLOUD says."""
    run = _compose(cloud, USER)
    assert run.returncode == 0, run.stderr
    read: dict[str, Any] = json.loads(run.stdout)
    return read


def elsewhere() -> dict[str, Any]:
    """The file with the one beside it for a Temporal that is not of the host."""
    files = ("-f", "docker-compose.yml", "-f", "deploy/compose/temporal-cloud.yml")
    run = _compose("aws", USER, *files, TEMPORAL_ADDRESS="temporal.example:7233", TEMPORAL_NAMESPACE="a.b")
    assert run.returncode == 0, run.stderr
    read: dict[str, Any] = json.loads(run.stdout)
    return read


def refused(cloud: str, user: str | None) -> str:
    """Why Docker Compose does not take the file so."""
    run = _compose(cloud, user)
    assert run.returncode != 0
    return run.stderr


def _compose(cloud: str, user: str | None, *files: str, **more: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("docker-compose")
    env = {"PATH": os.environ["PATH"], "HOME": os.devnull, "INSTANTSTART_CLOUD": cloud, **more}
    if user is not None:
        env["INSTANTSTART_USER"] = user
    profiles = ("--profile", "sandbox", "--profile", "observability")
    return subprocess.run(
        # No file of variables: one that somebody has made here is not part of the project.
        [str(program), *files, "--env-file", os.devnull, *profiles, "config", "--format", "json"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
