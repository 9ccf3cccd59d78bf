"""What clients send back between the rounds of a question (protocol 2026-07-28): sealed, and their own only."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateSecurity


def sealed(key: str | None) -> RequestStateSecurity:
    """How the state of a question is sealed. ``key``: of all processes that serve the same clients; None for one that
    ends with this process."""
    return RequestStateSecurity(keys=[key or secrets.token_bytes(32)], bind_principal=_bearer)


def _bearer(context: ServerRequestContext[Any, Any]) -> str | None:
    """Whose state it is: a digest of the token that came with the request; None over stdio, which has one caller."""
    headers = getattr(context.request, "headers", None)
    if headers is None:
        return None
    return hashlib.sha256(headers.get("authorization", "").encode()).hexdigest()
