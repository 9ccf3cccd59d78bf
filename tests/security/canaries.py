"""Secrets that are put in where one may enter, and the search for where they went."""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

_ALPHANUMERIC = string.ascii_letters + string.digits


def _random(length: int, alphabet: str = _ALPHANUMERIC) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


@dataclass(frozen=True)
class Canaries:
    """Secrets that are valid nowhere, of the forms that real ones have."""

    hugging_face: str = field(default_factory=lambda: "hf_" + _random(34))
    ours: str = field(default_factory=lambda: "isk_" + _random(43))
    ticket: str = field(default_factory=lambda: "ist_" + _random(43))
    aws_key: str = field(default_factory=lambda: "AKIA" + _random(16, string.ascii_uppercase + string.digits))
    signature: str = field(default_factory=lambda: _random(64, "0123456789abcdef"))
    password: str = field(default_factory=lambda: _random(24))
    github: str = field(default_factory=lambda: "ghp_" + _random(36))

    @property
    def presigned(self) -> str:
        return (
            f"https://b.s3.us-west-2.amazonaws.com/k?X-Amz-Credential={self.aws_key}&X-Amz-Signature={self.signature}"
        )

    @property
    def tracking_uri(self) -> str:
        return f"https://mlflow:{self.password}@mlflow.example:5000"

    @property
    def private_key(self) -> str:
        return f"-----BEGIN PRIVATE KEY-----\n{self.password}\n-----END PRIVATE KEY-----"

    @property
    def all(self) -> dict[str, str]:
        """What is looked for, by what it is called."""
        return {name: str(value) for name, value in vars(self).items()}

    @property
    def texts(self) -> dict[str, str]:
        """What is sent, each holding one of them."""
        return {
            "a Hugging Face token": self.hugging_face,
            "a token of the gateway": self.ours,
            "an AWS key": self.aws_key,
            "a presigned URL": self.presigned,
            "a URL with a password": self.tracking_uri,
            "a private key": self.private_key,
            "a GitHub token": self.github,
        }


def forms(secret: str) -> Iterator[bytes]:
    """The secret as it is, and as it is when something has encoded it: in a URL, in hexadecimal, in Base64 with
    whatever stood before it."""
    raw = secret.encode()
    yield raw
    yield quote(secret, safe="").encode()
    yield raw.hex().encode()
    for shift in range(3):
        # Of what the neighbours of the secret share a character with, nothing is looked for.
        whole = base64.b64encode(b"\0" * shift + raw)
        core = whole[4 if shift else 0 : len(raw) // 3 * 4 - 4]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def leaks_in(content: bytes, sought: Mapping[str, str]) -> list[str]:
    """Which of the secrets are in ``content``, in whatever form."""
    return [name for name, secret in sought.items() if any(form in content for form in forms(secret))]


def leaks(folder: Path, sought: Mapping[str, str], beside: frozenset[str] = frozenset()) -> list[str]:
    """``file: secret`` for every secret in a file below ``folder``. ``beside``: paths from there that are left out."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in beside:
            found += [f"{name}: {each}" for each in leaks_in(path.read_bytes(), sought)]
    return found
