"""How a process tells of itself: settings from the environment (prefix ``INSTANTSTART_``). Those of traces are
OpenTelemetry's own (``OTEL_…``, see ``telemetry/tracing.py``)."""

from __future__ import annotations

import ipaddress
from typing import Literal

from pydantic import field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class TelemetrySettings(BaseSettings):
    """Raises pydantic.ValidationError for what cannot be served, or would be served to everybody unasked."""

    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore", frozen=True)

    metrics_address: str | None = None
    """Where this process serves Prometheus metrics, as ``127.0.0.1:9464``; unset: nowhere."""
    metrics_open: bool = False
    """Allows an address that other machines reach: whoever does reads the metrics, without a token."""
    log_format: Literal["text", "json"] = "text"
    """``text`` is for a terminal; ``json`` is one object in a line, for whatever collects logs."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The least grave lines that are written."""

    @field_validator("log_format", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("metrics_address")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if not value:
            return None
        host, _, port = value.rpartition(":")
        host = "127.0.0.1" if host == "localhost" else host
        try:
            ipaddress.ip_address(host.strip("[]"))
            fits = 0 < int(port) < 65536
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{value!r} is no IP address with a port, such as 127.0.0.1:9464")
        return f"{host}:{port}"

    @model_validator(mode="after")
    def _safe(self) -> TelemetrySettings:
        if self.metrics_address is None or self.metrics_open:
            return self
        host = self.metrics_address.rpartition(":")[0].strip("[]")
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError(
                f"metrics on {self.metrics_address} can be read from other machines without a token; set "
                "INSTANTSTART_METRICS_OPEN=true where the network keeps others away"
            )
        return self
