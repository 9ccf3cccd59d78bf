"""Encryption of payloads: what Temporal keeps of arguments, results, memos, heartbeats and failures is ciphertext.

An encrypted payload has the encoding ``binary/encrypted``, its key's ID in its metadata, and as data a nonce of 96 bits
followed by what AES-256-GCM makes of the payload as it was. Encoding and key ID are authenticated with it. IDs, types
and search attributes are no payloads of ours and stay readable.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from temporal.keys import KEY_ID, Key, KeyRing

ENCODING = b"binary/encrypted"
_NONCE_BYTES = 12


class UndecodableError(Exception):
    """A payload cannot be read here. ``key_id`` names the key that it was encrypted with, where that is missing."""

    def __init__(self, message: str, key_id: str | None = None) -> None:
        super().__init__(message)
        self.key_id = key_id


class EncryptionCodec(PayloadCodec):
    """Encrypts with the first key of a ring and decrypts with each of them.

    What was not encrypted is passed on as it is, so that histories from before encryption was turned on go on; without
    keys, nothing is encrypted.
    """

    def __init__(self, ring: KeyRing) -> None:
        self._ciphers = {key.id: AESGCM(key.secret) for key in ring.keys}
        self._first: Key | None = ring.first

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises UndecodableError."""
        return [self._decrypted(payload) for payload in payloads]

    def has(self, key_id: str) -> bool:
        """Whether what this key has encrypted can be read here."""
        return key_id in self._ciphers

    @staticmethod
    def key_of(payload: Payload) -> str | None:
        """The ID of the key that a payload is encrypted with; None where it is not."""
        if payload.metadata.get("encoding") != ENCODING:
            return None
        return payload.metadata.get(KEY_ID, b"").decode(errors="replace")

    def _encrypted(self, payload: Payload) -> Payload:
        if self._first is None:
            return payload
        identifier = self._first.id
        nonce = secrets.token_bytes(_NONCE_BYTES)
        body = self._ciphers[identifier].encrypt(nonce, payload.SerializeToString(), _authenticated(identifier))
        return Payload(metadata={"encoding": ENCODING, KEY_ID: identifier.encode()}, data=nonce + body)

    def _decrypted(self, payload: Payload) -> Payload:
        identifier = self.key_of(payload)
        if identifier is None:
            return payload
        cipher = self._ciphers.get(identifier)
        if cipher is None:
            raise UndecodableError(
                f"a payload is encrypted with codec key {identifier}, which this process does not have: "
                "add it to the file that INSTANTSTART_CODEC_KEY_FILE names",
                identifier,
            )
        nonce, body = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
        try:
            return Payload.FromString(cipher.decrypt(nonce, body, _authenticated(identifier)))
        except (InvalidTag, ValueError, DecodeError) as error:
            raise UndecodableError(
                f"a payload that names codec key {identifier} was changed after it was encrypted"
            ) from error


def _authenticated(identifier: str) -> bytes:
    return ENCODING + b" " + identifier.encode()
