"""Who may do what through the gateway."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from contracts.model import Model

SESSION_COOKIE = "instantstart_session"
"""The cookie that the console keeps a person's session in."""


class Role(StrEnum):
    """Roles of a token, from the least to the most."""

    VIEWER = "viewer"
    """Reads."""
    AGENT = "agent"
    """Reads, and asks for changes; what deletes, replaces or costs waits for a human's approval."""
    OPERATOR = "operator"
    """Changes, decides and approves."""
    ADMIN = "admin"
    """Everything, tokens and audit among it."""


class Principal(Model):
    """The holder of a token."""

    name: str
    role: Role


class Caller(Principal):
    """Who calls, and what faces take where nothing else is said."""

    default_cluster: str | None = None
    """A convenience of faces: the gateway never acts on it by itself. Null also where that cluster is gone."""


class DefaultClusterRequest(Model):
    """Which cluster a caller's faces begin with."""

    cluster: str = Field(min_length=1, max_length=63)
    """Its tag."""


class SessionRequest(Model):
    """How a session begins where no bearer token is sent."""

    ticket: str | None = Field(None, min_length=1, max_length=200)
    """A one-time ticket; absent: the request's bearer token or session says who calls."""


class Session(Principal):
    """A bearer token for a while, with the name and role of the token that it came from."""

    token: str
    """Seen only here."""
    expires_at: datetime


class Ticket(Model):
    """What begins one session, once."""

    ticket: str
    """Seen only here."""
    expires_at: datetime


TokenName = Annotated[str, Field(pattern=r"^[\w.@-]{1,64}$", examples=["alice"])]
"""Whom a token is for."""


class CreateTokenRequest(Model):
    """Whom to make a token for."""

    name: TokenName
    role: Role


class TokenView(Principal):
    """A token that is in use. What it reads is not kept."""

    created_at: datetime


class CreatedToken(Principal):
    """A new token."""

    token: str
    """Seen only here."""


class TokenList(Model):
    """The tokens in use, the oldest first."""

    tokens: list[TokenView] = Field(default_factory=list)


class AuditEntry(Model):
    """One request or decision."""

    at: datetime
    request_id: str
    by: str
    role: Role | None
    method: str
    path: str
    status: int
    operation: str | None = None
    detail: str | None = None
