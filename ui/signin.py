"""Signing in and out: the session is a cookie that scripts of a page cannot read."""

from __future__ import annotations

import secrets
from html import escape

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from client.aio import Gateway, GatewayProblem, connections
from contracts import endpoints
from contracts.access import SESSION_COOKIE, Session, SessionRequest
from ui.session import AGENT
from ui.settings import settings

# Not no-referrer: browsers would send the form with the Origin "null", which is no page of the console.
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "strict-origin"}
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; script-src 'nonce-{nonce}'"
)
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign in · InstantStart</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 system-ui;margin:0;display:grid;place-items:center;min-height:100vh;background:#f6f8f8}}
main{{background:#fff;padding:2rem 2.5rem;border-radius:.8rem;box-shadow:0 1px 6px #0002;width:min(26rem,90vw)}}
label{{display:block;margin:.8rem 0 .3rem}}input{{width:100%;padding:.5rem;box-sizing:border-box;font:inherit}}
button{{margin-top:1rem;padding:.5rem 1.2rem;font:inherit;background:#0f766e;color:#fff;border:0}}
.problem{{background:#fdecec;border-left:4px solid #c62828;padding:.6rem .8rem}}
code{{background:#eef2f2;padding:0 .3rem}}
</style><main><h1>InstantStart</h1>{problem}<form method="post" action="/signin">
<input type="hidden" name="next" value="{next}">{fields}<button>Sign in</button></form>{more}</main></html>"""
_TOKEN = """<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>"""
_LINK = "<p>Or open the link that <code>instantstart console</code> prints.</p>"
_LEAVE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign out · InstantStart</title>
<form method="post" action="/signout"><button>Sign out</button></form>{more}</html>"""
_TICKET = """<input type="hidden" name="ticket" value="{ticket}">"""
# What only previews a link must not use its ticket up: previews do not run scripts.
_AT_ONCE = """<script nonce="{nonce}">document.forms[0].submit()</script>"""


def _http() -> httpx.AsyncClient:
    return connections(settings().url, AGENT)


def _page(after: str, problem: str | None = None, status: int = 200) -> Response:
    """The form that takes a token."""
    shown = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    return _html(_PAGE.format(problem=shown, next=escape(after), fields=_TOKEN, more=_LINK), "none", status)


def _ticket_page(after: str, ticket: str) -> Response:
    """The form that sends a ticket, by itself where scripts run."""
    nonce = secrets.token_urlsafe(16)
    fields, more = _TICKET.format(ticket=escape(ticket)), _AT_ONCE.format(nonce=nonce)
    return _html(_PAGE.format(problem="", next=escape(after), fields=fields, more=more), nonce, 200)


def _html(content: str, nonce: str, status: int) -> Response:
    return HTMLResponse(content, status, {**_HEADERS, "Content-Security-Policy": _POLICY.format(nonce=nonce)})


def _enter(session: Session, after: str, secure: bool) -> Response:
    """``secure``: the browser sends the session over TLS only."""
    answer = RedirectResponse(after, 303, _HEADERS)
    # Lax: a link that was printed in a terminal or sent in a mail leads in.
    answer.set_cookie(
        SESSION_COOKIE,
        session.token,
        expires=session.expires_at,
        httponly=True,
        samesite="lax",
        secure=secure,
    )
    return answer


def _own(path: str | None) -> str:
    """Where to go afterwards: a page of the console, never another site."""
    # Browsers leave tabs and line ends out of addresses, and take a backslash for a slash.
    own = path and path.isprintable() and path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if path and own else "/"


async def sign_in_page(request: Request) -> Response:
    """The form; with ``?ticket=``, a session at once. ``?next=``: the page that was wanted."""
    after = _own(request.query_params.get("next"))
    ticket = request.query_params.get("ticket")
    return _ticket_page(after, ticket) if ticket else _page(after)


async def sign_in(request: Request) -> Response:
    """A session for the token or the ticket that was sent."""
    async with request.form() as form:
        token, ticket = (str(form.get(name, "")).strip() for name in ("token", "ticket"))
        after = _own(str(form.get("next", "")))
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return _page(after, "Sign in from this page itself.", 403)
    if not token and not ticket:
        return _page(after, "Enter a token.", 422)
    body = None if token else SessionRequest(ticket=ticket)
    secure = settings().secure_cookie or request.url.scheme == "https"
    async with _http() as http:
        try:
            return _enter(await Gateway(http, token or None).call(endpoints.CREATE_SESSION, body), after, secure)
        except GatewayProblem as error:
            return _page(after, f"{error.problem.detail}. {error.problem.remedy or ''}", error.problem.status)


async def sign_out_page(request: Request) -> Response:
    """The form that signs out, which one of the console's own pages sends by itself: nothing changes by a link alone,
    wherever it stands."""
    nonce = secrets.token_urlsafe(16)
    own = request.headers.get("sec-fetch-site") == "same-origin"
    return _html(_LEAVE.format(more=_AT_ONCE.format(nonce=nonce) if own else ""), nonce, 200)


async def sign_out(request: Request) -> Response:
    """End the session, here and at the gateway."""
    async with _http() as http:
        try:
            await Gateway(http, request.cookies.get(SESSION_COOKIE)).call(endpoints.END_SESSION)
        except GatewayProblem as error:
            if error.problem.status != 401:
                return _page("/", f"You are still signed in: {error.problem.detail}.", error.problem.status)
    answer = RedirectResponse("/signin", 303, _HEADERS)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


ROUTES = [
    Route("/signin", sign_in_page, methods=["GET"]),
    Route("/signin", sign_in, methods=["POST"]),
    Route("/signout", sign_out_page, methods=["GET"]),
    Route("/signout", sign_out, methods=["POST"]),
]
