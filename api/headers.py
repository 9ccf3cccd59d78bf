"""What the gateway tells browsers about its answers: they are data, for programs that were given them.

https://owasp.org/www-project-secure-headers/
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders

NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""A policy for what is no page."""
PLAIN_PAGE = f"{NOTHING}; style-src 'unsafe-inline'"
"""A policy for a page of text with its own style."""

_DEFAULTS = {
    "Content-Security-Policy": NOTHING,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def defend(headers: MutableHeaders) -> None:
    """Add what an answer does not say by itself."""
    for name, value in _DEFAULTS.items():
        headers.setdefault(name, value)
