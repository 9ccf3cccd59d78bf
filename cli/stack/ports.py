"""TCP ports of this machine: free or taken, and by whom."""

from __future__ import annotations

import os
import socket
from pathlib import Path

HOST = "127.0.0.1"
LISTEN = "0A"
"""A listening socket's state in /proc/net/tcp."""


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections that linger after their server has gone do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on, chosen by the system."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def holder(port: int) -> str | None:
    """Who listens on ``port``, as ``pid 123: command``; None where the system does not tell."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    targets = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(_target(fd) in targets for fd in (process / "fd").iterdir()):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"pid {process.name}: {command[:120]}"
        except OSError:  # gone meanwhile, or another user's
            continue
    return None


def _target(fd: Path) -> str | None:
    """What a process' open file is; None where it was closed meanwhile."""
    try:
        return os.readlink(fd)
    except OSError:
        return None


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes
