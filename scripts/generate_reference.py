"""Write ``docs/reference/`` anew from the code: the gateway's routes, problems, settings, metrics, commands.

``--check`` writes nothing and fails where a page is not as it would be written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.reference import commands, endpoints, metrics, problems, settings

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


def generated() -> dict[Path, str]:
    """Every page, by its path."""
    return {
        FOLDER / "commands.md": commands.page(),
        FOLDER / "endpoints.md": endpoints.page(),
        FOLDER / "metrics.md": metrics.page(),
        FOLDER / "problems.md": problems.page(),
        FOLDER / "settings.md": settings.page(),
    }


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.generate_reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something differs")
    check = parser.parse_args().check
    stale = [(path, text) for path, text in generated().items() if not path.exists() or path.read_text() != text]
    for path, text in stale:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        print(f"{'differs' if check else 'written'}: {path.relative_to(FOLDER.parents[1])}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
