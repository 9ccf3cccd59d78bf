"""``python3 deploy/compose/prepare.py``: the secrets that docker-compose.yml mounts, and who its containers are.

Makes each secret that is not there yet, readable for its owner alone, and writes to ``.env`` whom that is: containers
run as the same user, since the files are mounted as they are. What is there stays as it is: a codec key or a database
password that is lost cannot be made again. As root, the files are given to a user that nobody else is.

With ``--sandbox``, ``.env`` says too that AWS is the simulated one; without, what an earlier ``--sandbox`` has written
there goes.

Needs nothing but Python 3.9.
"""

from __future__ import annotations

import argparse
import base64
import os
import secrets
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOBODY_ELSE = 10001
"""User and group of the containers where root prepares them."""


def _base64(size: int) -> str:
    return base64.b64encode(secrets.token_bytes(size)).decode()


MAKERS: dict[str, Callable[[], str]] = {
    "postgres_password": lambda: secrets.token_urlsafe(32),
    "codec_keys": lambda: _base64(32),  # AES-256: temporal/keys.py
    "seal_key": lambda: _base64(64),  # AES-256-SIV: contracts/sealing.py
    "mcp_state_key": lambda: secrets.token_hex(32),
    "grafana_password": lambda: secrets.token_urlsafe(24),
}
"""Each secret's file, and how a fresh one is made. A line each without its end, which a password would have."""


SANDBOX = "sandbox"
"""The profile that runs the simulated AWS, and the cloud that the workers use: never the one without the other."""


def prepare(folder: Path, environment: Path, user: int, group: int, sandbox: bool = False) -> list[str]:
    """Make what is missing in ``folder``, and see to its modes and owners; the names of what was made.

    ``environment`` gets ``INSTANTSTART_USER``, and for a ``sandbox`` what that needs, which else is taken out of it.
    Its other lines and profiles stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, make in MAKERS.items():
        path = folder / name
        if not path.exists():
            _write(path, make())
            made.append(name)
        path.chmod(0o600)
        _give(path, user, group)
    folder.chmod(0o700)
    _give(folder, user, group)
    lines = environment.read_text().splitlines() if environment.exists() else []
    new = _with(lines, f"{user}:{group}", sandbox)
    if new != lines:
        environment.write_text("".join(f"{line}\n" for line in new))
    return made


def _write(path: Path, text: str) -> None:
    """The file is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _give(path: Path, user: int, group: int) -> None:
    owner = path.stat()
    if (owner.st_uid, owner.st_gid) != (user, group):
        os.chown(path, user, group)


def _with(lines: list[str], user: str, sandbox: bool) -> list[str]:
    """The lines of an environment for these containers; what stays keeps its order, and what is new comes last."""
    former = dict(line.split("=", 1) for line in lines if "=" in line)
    profiles = [each for each in former.get("COMPOSE_PROFILES", "").split(",") if each not in ("", SANDBOX)]
    cloud = former.get("INSTANTSTART_CLOUD", "")
    wanted = {
        "INSTANTSTART_USER": user,
        "COMPOSE_PROFILES": ",".join([*profiles, SANDBOX] if sandbox else profiles),
        "INSTANTSTART_CLOUD": SANDBOX if sandbox else "" if cloud == SANDBOX else cloud,
    }
    others = [line for line in lines if line.partition("=")[0] not in wanted]
    return [*others, *(f"{name}={value}" for name, value in wanted.items() if value)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--folder", type=Path, default=ROOT / "deploy" / "compose" / "secrets")
    parser.add_argument("--env", type=Path, default=ROOT / ".env", help="what docker compose reads")
    parser.add_argument("--sandbox", action="store_true", help="AWS is the simulated one")
    options = parser.parse_args()
    root = os.getuid() == 0
    user, group = (NOBODY_ELSE, NOBODY_ELSE) if root else (os.getuid(), os.getgid())
    made = prepare(options.folder, options.env, user, group, options.sandbox)
    print(f"made: {', '.join(made)}" if made else "all secrets are there")
    print(f"containers run as {user}:{group}")
    print("AWS is the simulated one" if options.sandbox else "AWS is a real account (--sandbox: the simulated one)")


if __name__ == "__main__":
    main()
