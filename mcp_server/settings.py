"""Settings of the MCP server, from the environment (prefix ``INSTANTSTART_``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator, model_validator
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
    """Which tools there are: toolsets with commas between; ``all`` for all of them."""

    mcp_state_key: SecretStr | None = Field(None, min_length=32)
    """Seals what clients send back between the rounds of a question, so that another process, or this one after a
    restart, can go on with it. Null: a key that ends with the process."""
    mcp_state_key_file: Path | None = None
    """A file with that key alone, in one line; it counts where ``mcp_state_key`` is not given."""

    @field_validator("toolsets", mode="before")
    @classmethod
    def _toolsets(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        named = [part.strip() for part in value.split(",") if part.strip()]
        return list(Toolset) if EVERY in named else named

    @model_validator(mode="before")
    @classmethod
    def _key_of_file(cls, given: dict[str, Any]) -> dict[str, Any]:
        named = given.get("mcp_state_key_file")
        if not named or given.get("mcp_state_key"):
            return given
        try:
            return {**given, "mcp_state_key": Path(named).read_text().strip()}
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ValueError(f"the MCP server's state key in {named} cannot be read: {reason}") from error

    @property
    def state_key(self) -> str | None:
        """The key as it is, whichever way it came."""
        return self.mcp_state_key.get_secret_value() if self.mcp_state_key is not None else None
