"""Folders of benchmarks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a stack's data, which goes with what used it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        yield Path(name)
