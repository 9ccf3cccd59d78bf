"""Settings of the connection to Temporal beside its own ``TEMPORAL_…``, from the environment (``INSTANTSTART_``)."""

from __future__ import annotations

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class ConnectionSettings(BaseSettings):
    """The same for gateway, workers and setup."""

    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore", frozen=True)

    codec_key_file: Path | None = None
    """The keys that payloads are encrypted with (``temporal/keys.py``). Null: payloads stay readable in Temporal."""
    codec_kms_key: str | None = None
    """ID, ARN or alias of the KMS key that the file's keys are encrypted with. Null: they lie there as they are."""
