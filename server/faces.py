"""Which faces a process serves, and how it starts: settings from the environment (prefix ``INSTANTSTART_``)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class Face(StrEnum):
    API = "api"
    """The gateway itself; without it, the others speak to the one at INSTANTSTART_URL."""
    MCP = "mcp"
    CONSOLE = "console"


class Settings(BaseSettings):
    """Raises pydantic.ValidationError."""

    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore", frozen=True)

    faces: Annotated[list[Face], NoDecode] = Field(default_factory=lambda: list(Face), min_length=1)
    """What the process serves, with commas between."""

    @field_validator("faces", mode="before")
    @classmethod
    def _faces(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
