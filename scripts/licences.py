"""Writes docs/licences.md: the licence of every package in the locks, as the installed packages state it.

``python scripts/licences.py`` writes the page; ``--check`` says instead whether it is as it should be. Both fail on a
licence that no package may have, and on one that is not known here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
LOCKS = {
    "runtime": "runs in every deployment",
    "local": "the local stack and the sandbox",
    "tools": "carries helm and kubectl",
    "dev": "development and tests: in no image",
}
"""Files of requirements/, each with what needs it. A package is listed under the first that has it."""

NAMES = {
    "MIT License": "MIT",
    "DFSG approved": "",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License Version 2.0": "Apache-2.0",
    "BSD": "BSD",
    "BSD License": "BSD",
    "3-Clause BSD License": "BSD-3-Clause",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ISC License (ISCL)": "ISC",
}
"""What packages call their licence where they do not use its SPDX identifier."""
PERMITTED = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python"),
        *("ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib"),
    }
)
"""Permissive ones, and the MPL, whose terms end with its own files: nothing of them is changed here. Not the GPL, LGPL
or AGPL, which may reach what they are combined with in an image, and no licence that restricts who may run it or what
for (SSPL, BUSL, Elastic, Commons Clause)."""
ELSEWHERE = {
    "aws-cdk-lambda-layer-kubectl-v34": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "tzdata": "Apache-2.0",
}
"""Locked packages that Linux does not install, by their own pages."""

IN_A_FILE = {"promql-parser": "MIT"}
"""Installed packages that say it only in the text of their licence file."""

_HEAD = (
    "# Licences\n\n"
    "What the licence of every locked package is, as the package itself states it. `scripts/licences.py` writes this "
    "page, and a test compares it with the locks.\n\n"
    "Permitted are permissive licences and the MPL-2.0, whose terms end with its own files, which are used unchanged. "
    "The GPL, LGPL and AGPL are not: they may reach what they are combined with in an image. Nor is a licence that "
    "restricts who may run something or what for (SSPL, BUSL, Elastic, Commons Clause), nor one that cannot be told.\n"
)


class ForbiddenLicence(ValueError):
    """A package has a licence that none may have, or none that is known."""


@dataclass(frozen=True)
class Package:
    name: str
    lock: str
    licence: str


def locked() -> dict[str, str]:
    """The locked packages, each with the first lock that has it."""
    found: dict[str, str] = {}
    for lock in LOCKS:
        for line in (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines():
            if name := re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)==", line):
                found.setdefault(name[1], lock)
    return found


def stated(name: str) -> str:
    """The package's licence as an SPDX expression, or near to one. Raises ForbiddenLicence where it says none."""
    try:
        known = metadata(name)
    except PackageNotFoundError:
        if name in ELSEWHERE:
            return ELSEWHERE[name]
        raise ForbiddenLicence(f"{name} is locked and not installed: run `make setup-dev`") from None
    expression: list[str] = known.get_all("License-Expression", [])
    if expression:
        return expression[0]
    classifiers = [each.split(" :: ")[-1] for each in known.get_all("Classifier", []) if each.startswith("License ::")]
    words = classifiers or [line for text in known.get_all("License", []) for line in text.splitlines()[:1]]
    named = sorted(filter(None, (NAMES.get(word, word) for word in words)))
    if not named and name in IN_A_FILE:
        return IN_A_FILE[name]
    if not named:
        raise ForbiddenLicence(f"{name} does not say which licence it has")
    # Several classifiers do not say whether one chooses: all of them must be permitted.
    return " AND ".join(named)


def permitted(licence: str) -> bool:
    """Whether an SPDX expression can be met with permitted licences: all of them, and of alternatives one."""
    return any(
        all(part.strip(" ()") in PERMITTED for part in re.split(r" AND ", choice))
        for choice in re.split(r" OR ", licence)
    )


def packages() -> list[Package]:
    """All locked packages. Raises ForbiddenLicence that names each at fault."""
    found = [Package(name, lock, stated(name)) for name, lock in sorted(locked().items())]
    if wrong := [f"{each.name} ({each.licence})" for each in found if not permitted(each.licence)]:
        raise ForbiddenLicence(f"these may not be used: {', '.join(wrong)}")
    return found


def page(found: list[Package]) -> str:
    """The page's text."""
    parts = [_HEAD]
    for lock, why in LOCKS.items():
        rows = [f"| {each.name} | {each.licence} |" for each in found if each.lock == lock]
        parts.append(
            "\n".join([f"## {lock.capitalize()}: {why}\n", "| package | licence |", "| --- | --- |", *rows, ""])
        )
    return "\n".join(parts)


def main() -> int:
    try:
        text = page(packages())
    except ForbiddenLicence as error:
        print(error, file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != text:
            print("docs/licences.md is not what the locks say: python scripts/licences.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
