"""Bearer tokens: kept as hashes in a file that only its owner can read.

A token is 256 random bits, so a fast salted hash is enough: there is nothing to guess from a dictionary, which is what
a slow hash (scrypt, argon2) defends against, and a slow one would cost every request.

``python -m api.tokens add NAME ROLE`` prints a new token once; ``list`` and ``revoke NAME`` do what they say.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import hmac
import logging
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from api.settings import Settings
from contracts.access import Principal, Role
from contracts.model import Model

PREFIX = "isk_"

logger = logging.getLogger("instantstart.api")


class TokenRecord(Model):
    """What is kept of a token."""

    name: str = Field(pattern=r"^[\w.@-]{1,64}$")
    role: Role
    salt: str
    digest: str
    created_at: datetime


class TokenFile(Model):
    tokens: list[TokenRecord] = Field(default_factory=list)


def _digest(salt: str, token: str) -> str:
    return hashlib.sha256(f"{salt}:{token}".encode()).hexdigest()


class TokenStore:
    """The tokens of a file, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._records: list[TokenRecord] = []

    def find(self, token: str) -> Principal | None:
        """Whose token it is. Raises pydantic.ValidationError when the file is damaged."""
        holder: Principal | None = None
        # Every record is compared, in constant time each, so that timing tells nothing about which one is near.
        for record in self.records():
            if hmac.compare_digest(record.digest, _digest(record.salt, token)):
                holder = Principal(name=record.name, role=record.role)
        return holder

    def records(self) -> list[TokenRecord]:
        """What is in the file now; nothing if there is no file."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._records = None, []
            return self._records
        if stat.st_mode & 0o077 and self._stamp is None:
            logger.warning("%s can be read by others; make it 0600", self.path)
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if stamp != self._stamp:
            self._records = TokenFile.model_validate_json(self.path.read_bytes()).tokens
            self._stamp = stamp
        return self._records

    def add(self, name: str, role: Role) -> str:
        """Make a token for ``name`` and return it: the only time that it is seen.

        Raises ValueError if ``name`` has one already, or is no name.
        """
        token = PREFIX + secrets.token_urlsafe(32)
        salt = secrets.token_hex(16)
        record = TokenRecord(name=name, role=role, salt=salt, digest=_digest(salt, token), created_at=datetime.now(UTC))

        def append(records: list[TokenRecord]) -> list[TokenRecord]:
            if any(each.name == name for each in records):
                raise ValueError(f"{name} has a token already; revoke it first")
            return [*records, record]

        self._change(append)
        return token

    def revoke(self, name: str) -> None:
        """Make the token of ``name`` worthless. Raises KeyError if there is none."""

        def without(records: list[TokenRecord]) -> list[TokenRecord]:
            kept = [each for each in records if each.name != name]
            if len(kept) == len(records):
                raise KeyError(name)
            return kept

        self._change(without)

    def _change(self, change: Callable[[list[TokenRecord]], list[TokenRecord]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self.path.with_suffix(".lock")):
            changed = TokenFile(tokens=change(self.records()))
            temporary = self.path.with_suffix(".new")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as stream:
                stream.write(changed.model_dump_json(indent=2))
            temporary.replace(self.path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main(arguments: list[str] | None = None) -> int:
    """The command line of this module; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m api.tokens", description="Bearer tokens of the gateway.")
    parser.add_argument("--file", type=Path, help="token file; default: the gateway's setting")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="make a token and print it once")
    add.add_argument("name")
    add.add_argument("role", type=Role, choices=list(Role), metavar="{" + ",".join(Role) + "}")
    commands.add_parser("list", help="names and roles")
    commands.add_parser("revoke", help="make a token worthless").add_argument("name")
    given = parser.parse_args(arguments)
    store = TokenStore(given.file or Settings().tokens_path)
    try:
        match given.command:
            case "add":
                print(store.add(given.name, given.role))
            case "revoke":
                store.revoke(given.name)
            case "list":
                for record in store.records():
                    print(f"{record.name}\t{record.role}\t{record.created_at.isoformat(timespec='seconds')}")
    except KeyError:
        print(f"{given.name} has no token", file=sys.stderr)
        return 3
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
