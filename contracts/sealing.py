"""Sealing secrets that travel from the gateway to a worker: what Temporal keeps of them is ciphertext.

AES-SIV (RFC 5297) is deterministic: the same secret for the same use gives the same text, so that a request that is
sent again is the same request. It needs no nonce, and what is sealed for one use cannot be opened as another's.
"""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KEY_BYTES = 64
"""AES-256-SIV: two keys of 256 bits."""
PREFIX = "siv1."
SEALED = r"^siv1\.[A-Za-z0-9_-]{22,}$"
"""What a sealed text looks like: the tag alone has 16 bytes."""


class Unsealable(ValueError):
    """The text was sealed with another key, for another use, or not at all."""


def parse_key(raw: bytes) -> bytes:
    """The key in a file: 64 bytes as they are, or in base64. Raises ValueError for anything else."""
    if len(raw) == KEY_BYTES:
        return raw
    try:
        key = base64.b64decode(raw.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a seal key has {KEY_BYTES} bytes, as they are or in base64")
    return key


def new_key() -> str:
    """A fresh key in base64."""
    return base64.b64encode(AESSIV.generate_key(KEY_BYTES * 8)).decode()


def seal(key: bytes, text: str, context: str) -> str:
    """``text`` for the eyes of whoever has ``key``. ``context`` says what it is for; only there it can be opened."""
    sealed = AESSIV(key).encrypt(text.encode(), [context.encode()])
    return PREFIX + base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def unseal(key: bytes, sealed: str, context: str) -> str:
    """The text again. Raises Unsealable."""
    body = sealed.removeprefix(PREFIX)
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        return AESSIV(key).decrypt(raw, [context.encode()]).decode()
    except (InvalidTag, ValueError) as error:
        raise Unsealable("the text was sealed with another key, or for another use") from error
