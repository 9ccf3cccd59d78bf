"""Looks every package of the runtime lock up in an advisory database, by pip-audit.

Not a part of ``make test``: what it finds depends on the day and on what can be reached, and not on a commit. Exit
status: 0 where all packages were looked up and none has an advisory, 1 where one has, 3 where some or all could not be
looked up. It never says that nothing was found where nothing was looked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "runtime.txt"
TOOL = ROOT / ".tools" / "audit"
"""An environment of its own: pip-audit needs what the product does not."""
SECONDS = 600


def installed() -> Path:
    """pip-audit. Raises CalledProcessError where it cannot be installed."""
    tool = TOOL / "bin" / "pip-audit"
    if not tool.exists():
        venv.create(TOOL, with_pip=True)
        subprocess.run([TOOL / "bin" / "pip", "install", "--quiet", "pip-audit>=2.10"], check=True, timeout=SECONDS)
    return tool


def verdict(report: str) -> tuple[int, list[str]]:
    """Exit status and lines for what pip-audit has written as JSON."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return 3, ["pip-audit gave no report: no advisory database could be reached"]
    lines = [
        f"{each['name']} {each['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}"
        for each in packages
        for fault in each.get("vulns", ())
    ]
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    if skipped or not packages:
        lines.append(f"{len(skipped)} of {len(packages)} packages could not be looked up")
    elif not lines:
        lines = [f"{len(packages)} packages were looked up; none has an advisory"]
    found = any("mended in" in line for line in lines)
    return (1 if found else 3 if skipped or not packages else 0), lines


def main() -> int:
    try:
        tool = installed()
        options = ["--requirement", str(LOCK), "--disable-pip", "--no-deps", "--format", "json", "--progress-spinner"]
        run = subprocess.run([tool, *options, "off"], capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"nothing was looked up: {error}", file=sys.stderr)
        return 3
    status, lines = verdict(run.stdout)
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
