"""Codec keys that lie about encrypted with a KMS key (envelope encryption)."""

from __future__ import annotations

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from temporal.faults import ConnectionFaultError

CONTEXT = {"purpose": "instantstart-codec-key"}
"""Encryption context: what KMS encrypted for another purpose is no codec key, and CloudTrail shows what it was for."""
_CONFIG = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 4, "mode": "standard"})


class Kms:
    """One KMS key, by its ID, ARN or alias. Credentials and region are those that boto3 finds.

    Raises ConnectionFaultError where it finds no region.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        # An ARN says in which region its key is.
        parts = key.split(":")
        region = parts[3] if len(parts) > 5 else None
        try:
            self._client = boto3.client("kms", region_name=region, config=_CONFIG)
        except BotoCoreError as error:
            raise ConnectionFaultError(
                f"KMS key {key} cannot be asked for: {error}",
                "Give INSTANTSTART_CODEC_KMS_KEY as an ARN, which says the region, or set AWS_REGION.",
            ) from error

    def encrypt(self, secret: bytes) -> bytes:
        """What stands for ``secret`` outside. Raises ConnectionFaultError."""
        try:
            answer = self._client.encrypt(KeyId=self._key, Plaintext=secret, EncryptionContext=CONTEXT)
        except (BotoCoreError, ClientError) as error:
            raise self._fault("encrypt", error) from error
        return bytes(answer["CiphertextBlob"])

    def decrypt(self, kept: bytes) -> bytes:
        """The secret again. Raises ConnectionFaultError."""
        try:
            answer = self._client.decrypt(KeyId=self._key, CiphertextBlob=kept, EncryptionContext=CONTEXT)
        except (BotoCoreError, ClientError) as error:
            raise self._fault("decrypt", error) from error
        return bytes(answer["Plaintext"])

    def _fault(self, verb: str, error: Exception) -> ConnectionFaultError:
        return ConnectionFaultError(
            f"KMS key {self._key} does not {verb} the codec keys: {error}",
            f"Allow this role kms:{verb.title()} on the key, and see that INSTANTSTART_CODEC_KMS_KEY is the key that "
            "the file was made with.",
        )
