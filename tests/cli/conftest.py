"""A fake gateway that the command line is pointed at, and ways to run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.main import run
from tests.cli.fake_gateway import TOKEN, Gateway


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own stack."""
    for name in list(os.environ):
        if name.startswith("INSTANTSTART_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("INSTANTSTART_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    fake = Gateway()
    fake.start()
    monkeypatch.setenv("INSTANTSTART_URL", fake.url)
    monkeypatch.setenv("INSTANTSTART_TOKEN", TOKEN)
    yield fake
    fake.stop(wait=False)  # it ends by itself in a moment


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process."""

    def call(*arguments: str) -> Ran:
        capsys.readouterr()
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run a command in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", *arguments], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        with process:
            pass
