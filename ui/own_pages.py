"""Only the console's own pages speak to the console and show it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import streamlit
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FRAMES = "frame-ancestors 'self'"


def _inline() -> str:
    """The scripts that stand in Streamlit's own page, as a policy names them: no other that stands in a page runs."""
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text()
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


_STREAMLITS = "; ".join(
    (
        "default-src 'self'",
        f"script-src 'self' 'unsafe-eval' {_inline()}",  # Vega makes functions of a chart's expressions
        "style-src 'self' 'unsafe-inline'",  # Emotion writes its styles into the page
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        _FRAMES,
    )
)
"""What Streamlit's pages may load and whom they may tell: the console alone. A picture in a text that came from a
cluster or an agent is fetched from nowhere else, and so tells nobody anything."""
_POLICY_VIOLATION = 1008


class OwnPages:
    """ASGI middleware around the console.

    Cookies of a host go to all of its ports, and Streamlit takes every page of ``localhost`` for its own: what runs on
    another port of this machine would speak with the session of whoever looks at it. Here an Origin is the console's if
    it is the Host that was asked, so a proxy in front of it must pass the Host on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "websocket" if not _is_own(scope):
                await WebSocketClose(_POLICY_VIOLATION, "another site's page")(scope, receive, send)
            case "http" if scope["method"] not in _READS and not _is_own(scope):
                await PlainTextResponse("This was sent by another site's page.\n", 403)(scope, receive, send)
            case "http":
                await self._app(scope, receive, _framed(send))
            case _:
                await self._app(scope, receive, send)


def _is_own(scope: Scope) -> bool:
    """Whether a page of the console asks, or no page at all."""
    headers = Headers(scope=scope)
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _framed(send: Send) -> Send:
    """``send`` with headers that keep other sites from showing the answer as if it were theirs."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            # Beside a policy that is there already: browsers keep to all of them.
            policy = _FRAMES if "Content-Security-Policy" in headers else _STREAMLITS
            headers.append("Content-Security-Policy", policy)
        await send(message)

    return sending
