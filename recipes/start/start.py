"""Start a program that others call by a fixed, plain command: its words stand in ``start.json`` beside this script.

Where a command passes through shells (Ray's submitter) or has narrow limits (SageMaker), its words would not arrive as
they were meant. Nothing is run through a shell here. ``start.json``::

    {"words": ["python3", "entry.py", "--epochs", "3"],
     "environment": {"CHECKPOINT_PATH": "/s3/checkpoints/mine"},
     "links": {"/s3/datasets/mine": "/opt/ml/input/data/input-0"}}

``links`` are made first: places where the program looks, and where its data really is. What is in the environment
already goes before ``environment``. It ends as ``entry.py`` does.
Any Python from 3.9 on runs it, with nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from endings import MISSING_FILE, MISSING_PROGRAM, USED_WRONGLY, Stop, leave


def read(path: Path) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Words, links and variables. Raises Stop where the file is not there, or is something else."""
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        words, links = list(told["words"]), dict(told.get("links") or {})
        variables = {str(name): str(value) for name, value in dict(told.get("environment") or {}).items()}
    except OSError as error:
        raise Stop(MISSING_FILE, f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Stop(USED_WRONGLY, f"{path} does not say what is to be started") from None
    if not words or not all(isinstance(word, str) for word in words):
        raise Stop(USED_WRONGLY, f"{path} names no program")
    return words, links, variables


def link(place: str, target: str) -> None:
    """Have ``place`` lead to ``target``. Raises Stop where something else is there."""
    if os.path.islink(place) and os.readlink(place) == target:
        return
    try:
        os.makedirs(target, exist_ok=True)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(target, place)
    except OSError as error:
        raise Stop(MISSING_FILE, f"{place} cannot be made to lead to {target}: {error.strerror}") from None


def main() -> None:
    words, links, variables = read(Path(__file__).with_name("start.json"))
    for place, target in sorted(links.items()):
        link(place, target)
    environment = {**variables, **os.environ}
    program = shutil.which(words[0], path=environment.get("PATH"))
    if program is None:
        raise Stop(MISSING_PROGRAM, f"the image has no {words[0]}")
    os.execve(program, words, environment)


if __name__ == "__main__":
    try:
        main()
    except Stop as stop:
        leave(stop, Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log")))
