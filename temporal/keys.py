"""The keys that payloads are encrypted with: read from a file, or opened by KMS.

A key file has one key of 256 bits in base64 on each line; lines that begin with ``#`` are passed over. The first key
encrypts, each of them decrypts. With a KMS key, the lines are what KMS made of the keys: worthless to whoever has the
file alone.

``python -m temporal.keys`` makes and changes such files; ``docs/temporal.md`` says in which order a key is replaced.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from temporal.faults import ConnectionFaultError
from temporal.settings import ConnectionSettings

KEY_BYTES = 32
"""AES-256."""
KEY_ID = "encryption-key-id"
"""The member of a payload's metadata that names its key."""
_REMEDY = "Mend the file that INSTANTSTART_CODEC_KEY_FILE names; `python -m temporal.keys` makes one."


@dataclass(frozen=True)
class Key:
    """One key. Its ID is derived from it, so that one ID never stands for two keys."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ValueError(f"a codec key has {KEY_BYTES} bytes")

    def __repr__(self) -> str:
        return f"Key(id={self.id!r})"

    @property
    def id(self) -> str:
        """16 hexadecimal digits."""
        return hashlib.sha256(b"instantstart codec key " + self.secret).hexdigest()[:16]


@dataclass(frozen=True)
class KeyRing:
    """The keys of a deployment; without any, payloads stay readable."""

    keys: Sequence[Key] = ()

    @property
    def first(self) -> Key | None:
        """What encrypts."""
        return self.keys[0] if self.keys else None

    def find(self, identifier: str) -> Key | None:
        return next((key for key in self.keys if key.id == identifier), None)


def key_ring(settings: ConnectionSettings) -> KeyRing:
    """The keys that the settings lead to; none where they name no file.

    Raises ConnectionFaultError where there should be keys and they cannot be had.
    """
    path = settings.codec_key_file
    if path is None:
        if settings.codec_kms_key is not None:
            raise ConnectionFaultError(
                "INSTANTSTART_CODEC_KMS_KEY is set, and no INSTANTSTART_CODEC_KEY_FILE with what it has encrypted",
                "Make the file: `python -m temporal.keys add FILE`.",
            )
        return KeyRing()
    try:
        lines = read_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConnectionFaultError(f"the codec keys in {path} cannot be read: {reason}", _REMEDY) from error
    if not lines:
        raise ConnectionFaultError(f"{path} has no codec key", _REMEDY)
    opened = _opener(settings)
    try:
        return KeyRing([Key(opened(line)) for line in lines])
    except (binascii.Error, ValueError) as error:
        raise ConnectionFaultError(f"{path} holds something that is no codec key: {error}", _REMEDY) from error


def read_lines(path: Path) -> list[str]:
    """What stands for a key in the file at ``path``, in its order."""
    return [each.line for each in KeyFile.read(path).entries]


@dataclass(frozen=True)
class Entry:
    """What stands for a key in a file, and the notes and empty lines right above it, which go where it goes."""

    line: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyFile:
    """A file of keys, with what people have written into it."""

    entries: Sequence[Entry] = ()
    head: tuple[str, ...] = ()
    """What stands above an empty line above the first key: it is about the file."""
    tail: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """Raises OSError and UnicodeDecodeError."""
        entries: list[Entry] = []
        head: tuple[str, ...] = ()
        notes: list[str] = []
        for line in map(str.strip, path.read_text().splitlines()):
            if not line or line.startswith("#"):
                notes.append(line)
                continue
            if not entries and "" in notes:
                end = len(notes) - notes[::-1].index("")
                head, notes = tuple(notes[:end]), notes[end:]
            entries.append(Entry(line, tuple(notes)))
            notes = []
        return cls(entries, head, tuple(notes))

    def write(self, path: Path) -> None:
        """Replace the file as a whole, readable for its owner alone."""
        lines = [*self.head, *(line for each in self.entries for line in (*each.notes, each.line)), *self.tail]
        temporary = path.with_name(f"{path.name}.new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def _opener(settings: ConnectionSettings) -> Callable[[str], bytes]:
    """What makes a key of a line."""
    if settings.codec_kms_key is None:
        return lambda line: base64.b64decode(line, validate=True)
    from temporal.kms import Kms

    kms = Kms(settings.codec_kms_key)
    return lambda line: kms.decrypt(base64.b64decode(line, validate=True))


def new_line(settings: ConnectionSettings) -> tuple[Key, str]:
    """A fresh key, and what stands for it in a file. Raises ConnectionFaultError where KMS does not encrypt it."""
    key = Key(secrets.token_bytes(KEY_BYTES))
    kept = key.secret
    if settings.codec_kms_key is not None:
        from temporal.kms import Kms

        kept = Kms(settings.codec_kms_key).encrypt(key.secret)
    return key, base64.b64encode(kept).decode()


_USAGE = """usage: python -m temporal.keys list FILE
       python -m temporal.keys add FILE          a fresh key, behind those that are there: it decrypts
       python -m temporal.keys promote FILE ID   this key first: it encrypts from the next start on
       python -m temporal.keys remove FILE ID    what it has encrypted cannot be read any more; not the first

Notes (# ...) stay; those right above a key go where it goes.
With INSTANTSTART_CODEC_KMS_KEY, the file holds what this KMS key has encrypted."""


def main(arguments: Sequence[str]) -> int:
    """Make or change a key file; returns the exit status. Prints the IDs of the keys, never a key."""
    match list(arguments):
        case ["list" | "add" as action, name]:
            wanted = ""
        case ["promote" | "remove" as action, name, wanted]:
            pass
        case _:
            print(_USAGE, file=sys.stderr)
            return 2
    path = Path(name)
    settings = ConnectionSettings().model_copy(update={"codec_key_file": path})
    try:
        file = KeyFile.read(path) if path.exists() or action != "add" else KeyFile()
        ring = key_ring(settings) if file.entries else KeyRing()
        if wanted and ring.find(wanted) is None:
            print(f"{path} has no key {wanted}", file=sys.stderr)
            return 1
        if action == "remove" and ring.find(wanted) == ring.first:
            print(f"{wanted} is what encrypts; add another one, and promote it first", file=sys.stderr)
            return 1
        by_id = dict(zip((key.id for key in ring.keys), file.entries, strict=True))
        if action == "add":
            key, line = new_line(settings)
            by_id[key.id] = Entry(line)
        elif action == "promote":
            by_id = {wanted: by_id[wanted], **by_id}
        elif action == "remove":
            del by_id[wanted]
        if action != "list":
            replace(file, entries=list(by_id.values())).write(path)
    except ConnectionFaultError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    for position, identifier in enumerate(by_id):
        print(f"{identifier}  {'encrypts and decrypts' if position == 0 else 'decrypts'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
