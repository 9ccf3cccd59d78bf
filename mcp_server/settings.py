"""Settings of the MCP server, from the environment (prefix ``INSTANTSTART_``)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from mcp_server.toolsets import Toolset

EVERY = "all"


class Settings(BaseSettings):
    """Which gateway the tools speak to, and which tools there are. Raises pydantic.ValidationError."""

    model_config = SettingsConfigDict(
        env_prefix="INSTANTSTART_", extra="ignore", frozen=True, hide_input_in_errors=True
    )

    url: str = "http://127.0.0.1:3099"
    """The gateway's."""
    token: SecretStr | None = None
    """Whose calls those over stdio are. Over HTTP every caller sends its own."""
    toolsets: Annotated[list[Toolset], NoDecode] = Field(default_factory=lambda: [Toolset.DEFAULT])
    """A comma-separated list; ``all`` for all of them."""

    mcp_state_key: SecretStr | None = Field(None, min_length=32)
    """Seals what clients send back between the rounds of a question, so that another process, or this one after a
    restart, can go on with it. Null: a key that ends with the process."""

    @field_validator("toolsets", mode="before")
    @classmethod
    def _toolsets(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        named = [part.strip() for part in value.split(",") if part.strip()]
        return list(Toolset) if EVERY in named else named

    @property
    def state_key(self) -> str | None:
        """``mcp_state_key`` as it is."""
        return self.mcp_state_key.get_secret_value() if self.mcp_state_key is not None else None
