"""One script as a process: its directories, its output, and what it leaves in buckets."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.buckets import Buckets

from .plan import Plan, Volume

SHIM = Path(__file__).with_name("shim.py")
LOOK_SECONDS = 0.1
"""Real seconds between two looks at what is finished."""
_FROM_HERE = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of the sandbox's own that a script needs to run at all."""


@dataclass(frozen=True)
class Misfortune:
    """What happens to a run after so many files on its storage: ``full`` or ``kill``."""

    action: str
    after_files: int


@dataclass(frozen=True)
class Ended:
    """How a run ended, as a container's status tells it."""

    exit_code: int
    message: str = ""


class Process:
    """Runs in a thread of its own, from :meth:`start` to ``on_end``."""

    def __init__(
        self,
        plan: Plan,
        buckets: Buckets | None,
        kept: Path,
        misfortune: Misfortune | None,
        on_line: Callable[[str], None],
        on_end: Callable[[Ended], None],
    ) -> None:
        self._plan, self._buckets, self._kept, self._misfortune = plan, buckets, kept, misfortune
        self._on_line, self._on_end = on_line, on_end
        self._folder = Path(tempfile.mkdtemp(prefix="sandbox-pod-"))
        self._places: dict[str, Path] = {}
        self._seen: dict[Path, tuple[int, int]] = {}
        """Size and time of files that buckets have."""
        self._process: subprocess.Popen[str] | None = None
        self._killed = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="sandbox-script", daemon=True).start()

    def kill(self) -> None:
        """End it at once; nobody hears how it ended."""
        self._killed = True
        if self._process is not None:
            _kill(self._process)

    def _run(self) -> None:
        try:
            ended = self._carried_out()
        except Exception as error:
            # What a container runtime says where a container cannot be made.
            ended = Ended(128, f"failed to create containerd task: {error!r}"[:400])
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        if not self._killed:
            self._on_end(ended)

    def _carried_out(self) -> Ended:
        for number, volume in enumerate(self._plan.volumes):
            self._places[volume.path] = self._mounted(volume, number)
        termination = self._folder / "termination-log"
        self._places[self._plan.termination_path] = termination
        words = [self._here(word) for word in self._plan.arguments]
        env = {name: os.environ[name] for name in _FROM_HERE if name in os.environ}
        env |= {"HOME": str(self._folder), "TMPDIR": str(self._folder), "NO_PROXY": "127.0.0.1,localhost"}
        env |= {name: self._here(value) for name, value in self._plan.env.items() if name != "PATH"}
        self._process = subprocess.Popen(
            [sys.executable, *self._misfortunes(), *words],
            cwd=self._folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        if self._killed:
            _kill(self._process)
        reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        reader.start()
        while self._process.poll() is None:
            self._keep(self._process.pid)
            time.sleep(LOOK_SECONDS)
        reader.join(10)
        self._keep(None)
        code = self._process.returncode
        message = termination.read_text(errors="replace")[:4096] if termination.exists() else ""
        return Ended(128 - code if code < 0 else code, message)

    def _misfortunes(self) -> list[str]:
        storage = next((each for each in self._plan.volumes if each.is_storage), None)
        if self._misfortune is None or storage is None:
            return []
        place = str(self._places[storage.path])
        return [str(SHIM), place, str(self._misfortune.after_files), self._misfortune.action]

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._on_line(line.rstrip("\n"))

    def _mounted(self, volume: Volume, number: int) -> Path:
        """The directory of a volume, with what it holds."""
        if volume.kept:
            place = self._kept / volume.kept
            place.mkdir(parents=True, exist_ok=True)
            return place
        place = self._folder / f"volume-{number}"
        place.mkdir()
        files = dict(volume.files)
        if volume.bucket and self._buckets is not None:
            held = self._buckets.read(volume.bucket, volume.prefix)
            files = {key[len(volume.prefix) :]: content for key, content in held.items()}
        for name, content in files.items():
            path = (place / name).resolve()
            # Keys that are no paths are not seen through a mount.
            if path.is_relative_to(place.resolve()) and not name.endswith("/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                self._seen[place / name] = _state(path)
        return place

    def _here(self, text: str) -> str:
        """``text`` with paths of the container as they are on this machine."""
        for path in sorted(self._places, key=len, reverse=True):
            here = str(self._places[path]).replace("\\", r"\\")
            text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?=/|$)", here, text)
        return text

    def _keep(self, pid: int | None) -> None:
        """Put into buckets what was written and closed, and delete there what is gone. ``pid``: of the process whose
        open files are not finished yet."""
        for volume in self._plan.volumes:
            if volume.bucket and not volume.read_only and self._buckets is not None:
                self._keep_volume(volume, self._places[volume.path], self._buckets, _open_files(pid))

    def _keep_volume(self, volume: Volume, place: Path, buckets: Buckets, opened: set[str]) -> None:
        for path in [each for each in place.rglob("*") if each.is_file()]:
            try:
                state = _state(path)
                if self._seen.get(path) == state or str(path.resolve()) in opened:
                    continue
                content = path.read_bytes()
            except FileNotFoundError:
                continue
            if _state_or_none(path) == state:
                buckets.put(volume.bucket, volume.prefix + path.relative_to(place).as_posix(), content)
                self._seen[path] = state
        for path in [each for each in self._seen if each.is_relative_to(place) and not each.exists()]:
            buckets.delete(volume.bucket, volume.prefix + path.relative_to(place).as_posix())
            del self._seen[path]


def _kill(process: subprocess.Popen[str]) -> None:
    """The process, and whatever it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _state_or_none(path: Path) -> tuple[int, int] | None:
    try:
        return _state(path)
    except FileNotFoundError:
        return None


def _open_files(pid: int | None) -> set[str]:
    """Where Linux tells of it: what the process has open."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd") if pid is not None else ():
            try:
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                continue
    except OSError:
        return found
    return found
