"""What an image of deploy/image/Containerfile has of the project, laid out in a folder without building one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.deploy.composed import ROOT

CONTAINERFILE = ROOT / "deploy" / "image" / "Containerfile"
_COPY = re.compile(r"^COPY (?!--from)(?P<what>.+) (?P<where>\S+)$", re.MULTILINE)
_PASSED_OVER = shutil.ignore_patterns("__pycache__", "*.pyc")


def copied(stage: str) -> list[tuple[Path, str]]:
    """Source in the checkout and target of every file or folder that the stage copies out of it."""
    text = re.search(
        rf"^FROM .+ AS {stage}$(?P<text>.*?)(?=^FROM |\Z)", CONTAINERFILE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert text is not None, stage
    return [
        (ROOT / source, found["where"]) for found in _COPY.finditer(text["text"]) for source in found["what"].split()
    ]


def lay_out(folder: Path, sandbox: bool = False) -> None:
    """The image's /opt/instantstart in ``folder``."""
    for source, target in copied("project") + (copied("sandbox") if sandbox else []):
        where = folder / target
        if source.is_dir():
            shutil.copytree(source, where, ignore=_PASSED_OVER, dirs_exist_ok=True)
        else:
            where.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, where)
