"""``python deploy/cloudformation/bundle.py FILE``: what the host of management-host.yaml runs, as one archive.

It holds docker-compose.yml, what that mounts, the host's scripts and Docker Compose itself, which Amazon Linux has no
package of. The same input makes the same bytes. Prints the SHA-256 that the stack's BundleSha256 is given.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import shutil
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("deploy/cloudformation/host.sh", "deploy/cloudformation/keys.sh")
PARTS = ("docker-compose.yml", "deploy/compose", "deploy/observability", *SCRIPTS)
LEFT_OUT = ("deploy/compose/secrets", "deploy/compose/aws/config", "deploy/compose/aws/credentials")
"""Secrets of this machine."""


def bundle(compose: Path) -> bytes:
    """The archive; ``compose`` is Docker Compose's binary for Linux on x86-64."""
    files = {str(path.relative_to(ROOT)): path for part in PARTS for path in _files(ROOT / part)}
    files["bin/docker-compose"] = compose
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            content = files[name].read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    left_out = [ROOT / each for each in LEFT_OUT]
    return [
        each
        for each in found
        if "__pycache__" not in each.parts and not any(each.is_relative_to(other) for other in left_out)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("file", type=Path)
    beside = Path(sys.executable).with_name("docker-compose")
    parser.add_argument(
        "--compose",
        type=Path,
        default=beside if beside.exists() else shutil.which("docker-compose"),
        help="Docker Compose for Linux on x86-64; without it, the one that setup-dev installs",
    )
    options = parser.parse_args()
    if options.compose is None:
        parser.error("there is no docker-compose here: name one with --compose")
    content = bundle(Path(options.compose))
    options.file.write_bytes(content)
    print(hashlib.sha256(content).hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
