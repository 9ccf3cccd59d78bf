"""The data folder of a local stack: what lies where, who holds it, and how it is emptied."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from contracts.sealing import new_key

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, or the folder that the packages are installed in."""


def default_folder() -> Path:
    """INSTANTSTART_DATA, else ``.data`` of the checkout wherever the caller is, else the user's data folder."""
    if chosen := os.environ.get("INSTANTSTART_DATA"):
        return Path(chosen).expanduser().absolute()
    if (ROOT / "pyproject.toml").exists():
        return ROOT / ".data"
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "instantstart"


class Held(Exception):
    """Another process holds the folder. ``pid`` is None while that one has not yet said who it is."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by process {pid}")
        self.pid = pid


@dataclass(frozen=True)
class DataFolder:
    """One stack's files. Two stacks never share a folder."""

    path: Path

    @property
    def temporal(self) -> Path:
        return self.path / "temporal.db"

    @property
    def sandbox(self) -> Path:
        return self.path / "sandbox"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def lock(self) -> Path:
        return self.path / "stack.pid"

    @property
    def status(self) -> Path:
        """Links of the running stack; there is none unless it is ready."""
        return self.path / "stack.json"

    @property
    def credentials(self) -> Path:
        """The gateway's URL and a token for it."""
        return self.path / "credentials.json"

    def create(self) -> None:
        for folder in (self.path, self.sandbox, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def hold(self) -> TextIO:
        """Take the folder for as long as the file that is returned stays open; its lock ends with the process.

        Raises Held when another process has it.
        """
        file = self.lock.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _read_pid(file)
            file.close()
            raise Held(pid) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        return file

    def holder(self) -> int | None:
        """The process that holds the folder; None if nobody does."""
        try:
            file = self.lock.open("r")
        except FileNotFoundError:
            return None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _read_pid(file) or 0
        return None

    def links(self) -> dict[str, Any] | None:
        """Links of the stack that runs here; None when none runs, or it is not ready."""
        pid = self.holder()
        links = read_json(self.status)
        return links if pid is not None and links is not None and links.get("pid") == pid else None

    def mcp_state_key(self) -> str:
        """The key that seals the rounds of questions of this folder's MCP server, which outlive the server. The first
        call makes it."""
        file = self.path / "mcp-state-key.json"
        key = (read_json(file) or {}).get("key")
        if not isinstance(key, str):
            key = secrets.token_hex(32)
            write_private(file, {"key": key})
        return key

    def seal_key(self) -> Path:
        """The file with the key that this folder's gateway seals credentials with, and its worker opens them with. The
        first call makes it."""
        file = self.path / "seal.key"
        if not file.exists():
            _write_private_text(file, new_key() + "\n")
        return file

    @property
    def codec_keys(self) -> Path:
        """The keys that payloads are encrypted with in Temporal; where there is no such file, they stay readable."""
        return self.path / "codec.keys"

    def encrypt(self) -> None:
        """Have payloads encrypted from the next start on: once there are keys, they are needed for what there is."""
        if not self.codec_keys.exists():
            self.create()
            _write_private_text(self.codec_keys, base64.b64encode(secrets.token_bytes(32)).decode() + "\n")

    def wipe(self) -> None:
        """Remove what the stack knows: Temporal's and the sandbox's state together, since one is about the other."""
        for file in self.path.glob("temporal.db*"):
            file.unlink()
        shutil.rmtree(self.sandbox, ignore_errors=True)
        self.status.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None if there is no such file, or it is not whole."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_private(path: Path, value: dict[str, Any]) -> None:
    """Write an object for this user's eyes only. The file is replaced as a whole."""
    _write_private_text(path, json.dumps(value, indent=2) + "\n")


def _write_private_text(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


def _read_pid(file: TextIO) -> int | None:
    file.seek(0)
    text = file.read().strip()
    return int(text) if text.isdigit() else None
