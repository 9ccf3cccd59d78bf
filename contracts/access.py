"""Who may do what through the gateway."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from contracts.model import Model


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
