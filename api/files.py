"""A model kept in a file that only its owner can read."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from contracts.model import Model

M = TypeVar("M", bound=Model)
_Stamp = tuple[int, int, int]

logger = logging.getLogger("instantstart.api")


class PrivateFile(Generic[M]):
    """One ``model`` as JSON at ``path``; several threads and processes may share it.

    It is replaced as a whole: who reads sees the old content or the new. No file means the model's defaults.
    """

    def __init__(self, path: Path, model: type[M]) -> None:
        self.path = path
        self._model = model
        self._seen: tuple[_Stamp, M] | None = None

    def read(self) -> M:
        """What the file holds now, read again whenever it has changed.

        Raises pydantic.ValidationError when the file is damaged.
        """
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._seen = None
            return self._model()
        seen = self._seen
        if seen is None and stat.st_mode & 0o077:
            logger.warning("%s can be read by others; make it 0600", self.path)
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen is None or seen[0] != stamp:
            seen = self._seen = stamp, self._load()
        return seen[1]

    def change(self, change: Callable[[M], M]) -> None:
        """Replace the content by what ``change`` makes of it, while nobody else changes it. What it raises is raised
        here, and the file stays as it was.

        Raises pydantic.ValidationError when the file is damaged; OSError when it cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self.path.with_suffix(".lock")):
            # Not what was seen last: two changes by others in one tick of the clock may look like none.
            before = self._load() if self.path.exists() else self._model()
            after = change(before)
            if after != before:
                self._replace(after.model_dump_json(indent=2))

    def _load(self) -> M:
        return self._model.model_validate_json(self.path.read_bytes())

    def _replace(self, content: str) -> None:
        temporary = self.path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(content)
            stream.flush()
            # Before the name: else a machine that loses its power may keep the name without the content.
            os.fsync(stream.fileno())
        temporary.replace(self.path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between threads and processes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
