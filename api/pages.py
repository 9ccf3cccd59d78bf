"""Page tokens: opaque to callers, and good only for the list that they came from."""

from __future__ import annotations

import base64
import binascii
import hashlib

from api.problems import wrong_field

MAXIMUM_PAGE_SIZE = 200
_CHECK = 6


def _check(listing: str, position: bytes) -> bytes:
    return hashlib.sha256(listing.encode() + b"\n" + position).digest()[:_CHECK]


def seal(listing: str, position: bytes) -> str:
    """The token of ``position`` in the list that ``listing`` (its query) describes."""
    return base64.urlsafe_b64encode(_check(listing, position) + position).decode().rstrip("=")


def unseal(listing: str, token: str | None) -> bytes | None:
    """The position of a token; None without one. Raises ProblemError (422) for a token of another list."""
    if token is None:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) <= _CHECK or raw[:_CHECK] != _check(listing, raw[_CHECK:]):
        raise wrong_field(
            "/page_token",
            "the page token does not belong to this list",
            "Use next_page_token of a page with the same filters, or none to begin.",
        )
    return raw[_CHECK:]
