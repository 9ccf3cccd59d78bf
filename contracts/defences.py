"""What browsers are told of answers that are data, for programs that were given them.

https://owasp.org/www-project-secure-headers/
"""

from __future__ import annotations

from typing import Protocol

NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""A policy for what is no page."""

PLAIN_PAGE = f"{NOTHING}; style-src 'unsafe-inline'"
"""A policy for a page of text with its own style."""

_HEADERS = {
    "Content-Security-Policy": NOTHING,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Headers(Protocol):
    def setdefault(self, key: str, value: str) -> str: ...


def defend(headers: Headers) -> None:
    """Add what an answer does not say by itself."""
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
