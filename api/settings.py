"""Settings of the gateway, from the environment (prefix ``INSTANTSTART_``)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from contracts.queues import REGIONS


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Settings(BaseSettings):
    """How one gateway process runs. Temporal's own settings are ``TEMPORAL_…``.

    Raises pydantic.ValidationError when the gateway would be reachable from elsewhere without authentication.
    """

    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore", frozen=True)

    host: str = "127.0.0.1"
    """Address that the process listens on."""
    port: int = Field(3099, ge=0, le=65535)
    """Port that the process listens on."""
    data_dir: Path = Path(".data")
    """Audit trail, sessions, preferences, and the token file unless it is named."""
    token_file: Path | None = None
    """Null: ``tokens.json`` in the data folder."""
    seal_key_file: Path | None = None
    """The key that credentials are sealed with: 64 bytes, as they are or in base64, for its owner only. Workers have
    the same. Null: credentials cannot be stored."""
    auth: Literal["on", "off"] = "on"
    """Off: every caller is an administrator; on a loopback address alone."""
    session_seconds: int = Field(12 * 3600, ge=1)
    """How long a session lasts."""
    ticket_seconds: int = Field(600, ge=1)
    """How long a one-time ticket can begin a session."""
    public_url: str | None = None
    """What callers reach the gateway as; null: what each request says in its Host header."""
    temporal_ui_url: str | None = "http://127.0.0.1:8233"
    """Temporal's Web UI: what links lead to, and the one other origin that may have payloads decoded."""
    default_region: str = "us-west-2"
    """The region of what names none; one of ``regions``."""
    regions: Annotated[list[str], NoDecode] = Field(default_factory=lambda: list(REGIONS))
    """Regions that workers serve: a comma-separated list."""
    audit_file_bytes: int = Field(10_000_000, ge=1_000)
    """Size at which a file of the audit trail is full, and the next begins."""
    audit_files: int = Field(20, ge=2)
    """Files of the audit trail that are kept; then the oldest goes."""
    update_timeout: float = Field(10.0, gt=0)
    """Seconds that a decision may take to reach its workflow."""
    query_timeout: float = Field(3.0, gt=0)
    """Seconds that a workflow may take to answer a question."""
    check_timeout: float = Field(8.0, gt=0)
    """Seconds that a new cluster's spec may be checked against the account before its operation starts."""
    look_up_timeout: float = Field(15.0, gt=0)
    """Seconds that a look-up in the account may take before its caller is told to ask again."""
    ping_seconds: int = Field(15, ge=1)
    """Between heartbeat comments of an event stream."""
    detail_seconds: float = Field(2.0, gt=0)
    """Between looks at a watched operation's running activity."""

    @field_validator("regions", mode="before")
    @classmethod
    def _regions(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _safe(self) -> Settings:
        if self.auth == "off" and not is_loopback(self.host):
            raise ValueError(f"authentication can be off only on a loopback address, not on {self.host}")
        if self.default_region not in self.regions:
            raise ValueError(f"default_region {self.default_region} is not among regions {', '.join(self.regions)}")
        return self

    @property
    def tokens_path(self) -> Path:
        return self.token_file or self.data_dir / "tokens.json"

    @property
    def sessions_path(self) -> Path:
        return self.data_dir / "sessions.json"

    @property
    def preferences_path(self) -> Path:
        return self.data_dir / "preferences.json"
