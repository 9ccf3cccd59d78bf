"""Bearer tokens: kept as hashes in a file that only its owner can read.

A token is 256 random bits, so a fast salted hash is enough: there is nothing to guess from a dictionary, which is what
a slow hash (scrypt, argon2) defends against, and a slow one would cost every request.

``python -m api.tokens add NAME ROLE`` prints a new token once; ``list`` and ``revoke NAME`` do what they say.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from api.files import PrivateFile
from api.settings import Settings
from contracts.access import Principal, Role, TokenName
from contracts.model import Model

PREFIX = "isk_"


class TokenRecord(Model):
    """What is kept of a token."""

    name: TokenName
    role: Role
    salt: str
    digest: str
    created_at: datetime

    @property
    def principal(self) -> Principal:
        """Whose token it is."""
        return Principal(name=self.name, role=self.role)


class TokenFile(Model):
    tokens: list[TokenRecord] = Field(default_factory=list)


class NameTaken(ValueError):
    """The name has a token already."""


class LastAdmin(ValueError):
    """No other token is an administrator's."""


def _digest(salt: str, token: str) -> str:
    return hashlib.sha256(f"{salt}:{token}".encode()).hexdigest()


class TokenStore:
    """The tokens of a file, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        self._file = PrivateFile(path, TokenFile)

    def find(self, token: str) -> TokenRecord | None:
        """What is kept of ``token``; None if it is unknown.

        Raises pydantic.ValidationError when the file is damaged.
        """
        found: TokenRecord | None = None
        # Every record is compared, in constant time each, so that timing tells nothing about which one is near.
        for record in self.records():
            if hmac.compare_digest(record.digest, _digest(record.salt, token)):
                found = record
        return found

    def made_as(self, digest: str) -> TokenRecord | None:
        """The record with this digest; None once that token is revoked, even where its holder has a new one."""
        return next((record for record in self.records() if record.digest == digest), None)

    def records(self) -> list[TokenRecord]:
        """What is in the file now; nothing if there is no file."""
        return self._file.read().tokens

    def add(self, name: str, role: Role) -> str:
        """Make a token for ``name`` and return it: the only time that it is seen.

        Raises NameTaken if ``name`` has one already, ValueError if it is no name.
        """
        token = PREFIX + secrets.token_urlsafe(32)
        salt = secrets.token_hex(16)
        record = TokenRecord(name=name, role=role, salt=salt, digest=_digest(salt, token), created_at=datetime.now(UTC))

        def append(kept: TokenFile) -> TokenFile:
            if any(each.name == name for each in kept.tokens):
                raise NameTaken(f"{name} has a token already; revoke it first")
            return TokenFile(tokens=[*kept.tokens, record])

        self._file.change(append)
        return token

    def revoke(self, name: str, *, keep_admin: bool = False) -> None:
        """Make the token of ``name`` worthless.

        Raises KeyError if there is none; with ``keep_admin``, LastAdmin if no other administrator's would be left.
        """

        def without(kept: TokenFile) -> TokenFile:
            left = [each for each in kept.tokens if each.name != name]
            if len(left) == len(kept.tokens):
                raise KeyError(name)
            if keep_admin and _admins(kept.tokens) and not _admins(left):
                raise LastAdmin(f"{name} is the last administrator")
            return TokenFile(tokens=left)

        self._file.change(without)


def _admins(records: list[TokenRecord]) -> list[TokenRecord]:
    return [each for each in records if each.role is Role.ADMIN]


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
