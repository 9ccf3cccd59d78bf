"""Keeps histories of every kind of run, for later code to be replayed against (docs/upgrade.md).

``python scripts/save_histories.py`` goes on the tour (``tests/tour``), which takes a few minutes, and writes
``tests/histories/<version>/`` anew.

``python scripts/save_histories.py before PATCH HISTORY`` keeps one that is there (``cluster.done``) as what a run looks
like that has not taken the patch: before the workflow is changed.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from activities.settings import VERSION
from tests.replay import library
from tests.tour.drive import drive, tour_stack
from tests.tour.histories import of_tour


def go_on_tour() -> int:
    """Returns the exit status: 1 where a workflow was left out."""
    with tempfile.TemporaryDirectory() as folder, tour_stack(Path(folder)) as stack:
        print("on tour …", flush=True)
        kept = library.save(VERSION, asyncio.run(of_tour(stack, drive(stack))))
    size = sum(each.file.stat().st_size for each in kept)
    print(f"{len(kept)} histories, {size / 1024:.0f} KiB, in {library.FOLDER / VERSION}")
    left_out = list(library.missing(kept, VERSION))
    for each in left_out:
        print(f"left out: {each}", file=sys.stderr)
    return 1 if left_out else 0


def keep_before(patch: str, history: str) -> int:
    """Returns the exit status: 1 where there is no such history."""
    found = {each.name: each for each in library.saved()}.get(f"{VERSION}/{history}")
    if found is None:
        print(f"there is no {VERSION}/{history}{library.SUFFIX}", file=sys.stderr)
        return 1
    print(library.keep_before(patch, found).file)
    return 0


def main(words: list[str]) -> int:
    match words:
        case []:
            return go_on_tour()
        case ["before", patch, history]:
            return keep_before(patch, history)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
