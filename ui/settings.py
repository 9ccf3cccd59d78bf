"""Settings of the console, from the environment (prefix ``INSTANTSTART_``)."""

from __future__ import annotations

from functools import lru_cache

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Which gateway the console speaks to. Raises pydantic.ValidationError."""

    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore", frozen=True)

    url: str = "http://127.0.0.1:3099"
    """The gateway's, as the console's own process reaches it."""
    secure_cookie: bool = False
    """The browser sends the session only over TLS: for a console that is served so."""


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Read once: a process serves one gateway."""
    return Settings()
