"""How the entry script ends where it cannot start the program."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

USED_WRONGLY, MISSING_FILE, NOT_INSTALLED, MISSING_PROGRAM = 64, 66, 69, 127
"""As in sysexits.h (EX_USAGE, EX_NOINPUT, EX_UNAVAILABLE), and what shells say of a command that is not there."""


class Stop(Exception):
    """It cannot go on."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


def leave(stop: Stop, log: Path) -> NoReturn:
    """Say why, and end."""
    print(f"instantstart: {stop.detail}", file=sys.stderr, flush=True)
    with suppress(OSError):
        log.write_text(json.dumps({"detail": stop.detail[:1000]}))
    sys.exit(stop.code)
