"""A link that signs a person in to the console, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from cli.gateway import Gateway


def sign_in_link(gateway: Gateway) -> dict[str, Any]:
    """``url`` and ``expires_at`` of a link for whom the gateway takes this caller for. Raises CliError."""
    ticket = gateway.post("/tickets", None)
    query = urlencode({"ticket": ticket["ticket"]})
    return {"url": f"{gateway.url}/signin?{query}", "expires_at": ticket["expires_at"]}
