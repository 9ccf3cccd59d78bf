"""Runs a script as Python would, on storage that misbehaves: ``shim.py FOLDER FILES full|kill SCRIPT [ARGUMENT ...]``.

After so many files have been opened for writing below the folder, the next one is on a full disk, or ends the process.
"""

from __future__ import annotations

import builtins
import io
import os
import runpy
import signal
import sys
import threading
from typing import Any


def main() -> None:
    folder, left, action, script = os.path.realpath(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    opened: Any = io.open
    lock = threading.Lock()

    def opening(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        nonlocal left
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax")
        if writes and isinstance(file, str | os.PathLike) and os.path.realpath(file).startswith(folder + os.sep):
            with lock:
                left -= 1
                over = left < 0
            if over and action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if over:
                return opened("/dev/full", mode.replace("x", "w"), *rest, **options)
        return opened(file, mode, *rest, **options)

    io.open = builtins.open = opening
    sys.argv = sys.argv[4:]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
