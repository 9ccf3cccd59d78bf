"""The gateway's own command for tokens, for the gateway of a data folder."""

from __future__ import annotations

import os
import subprocess
import sys

from cli.stack import environment
from cli.stack.folder import ROOT, DataFolder


def run(folder: DataFolder, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m api.tokens`` and give back what it said; it may have failed."""
    return subprocess.run(
        [sys.executable, "-m", "api.tokens", *arguments],
        env=environment.base(os.environ) | {"INSTANTSTART_DATA_DIR": str(folder.path)},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
