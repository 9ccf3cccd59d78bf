"""Signing in and out: the session is a cookie that scripts of a page cannot read."""

from __future__ import annotations

from html import escape

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from client.aio import Gateway, GatewayProblem, connections
from contracts import endpoints
from contracts.access import Session
from ui.session import AGENT, COOKIE
from ui.settings import settings

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign in · InstantStart</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 system-ui;margin:0;display:grid;place-items:center;min-height:100vh;background:#f6f8f8}}
main{{background:#fff;padding:2rem 2.5rem;border-radius:.8rem;box-shadow:0 1px 6px #0002;width:min(26rem,90vw)}}
label{{display:block;margin:.8rem 0 .3rem}}input{{width:100%;padding:.5rem;box-sizing:border-box;font:inherit}}
button{{margin-top:1rem;padding:.5rem 1.2rem;font:inherit;background:#0f766e;color:#fff;border:0}}
.problem{{background:#fdecec;border-left:4px solid #c62828;padding:.6rem .8rem}}
code{{background:#eef2f2;padding:0 .3rem}}
</style><main><h1>InstantStart</h1>{problem}<form method="post" action="/signin"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Sign in</button></form><p>Or open the link that <code>instantstart console</code> prints.</p></main></html>"""


def _http() -> httpx.AsyncClient:
    return connections(settings().url, AGENT)


def _page(problem: str | None = None, status: int = 200) -> Response:
    shown = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    return HTMLResponse(_PAGE.format(problem=shown), status, _HEADERS)


def _enter(session: Session) -> Response:
    answer = RedirectResponse("/", 303, _HEADERS)
    # Lax: a link that was printed in a terminal or sent in a mail leads in.
    answer.set_cookie(
        COOKIE,
        session.token,
        expires=session.expires_at,
        httponly=True,
        samesite="lax",
        secure=settings().secure_cookie,
    )
    return answer


async def sign_in(request: Request) -> Response:
    """The form; with ``?ticket=`` or a posted token, a session."""
    token, body = None, None
    if request.method == "POST":
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _page("Sign in from this page itself.", 403)
        async with request.form() as form:
            token = str(form.get("token", "")).strip()
        if not token:
            return _page("Enter a token.", 422)
    elif ticket := request.query_params.get("ticket"):
        body = {"ticket": ticket}
    else:
        return _page()
    async with _http() as http:
        try:
            return _enter(await Gateway(http, token).call(endpoints.CREATE_SESSION, body))
        except GatewayProblem as error:
            return _page(f"{error.problem.detail}. {error.problem.remedy or ''}", error.problem.status)


async def sign_out(request: Request) -> Response:
    """End the session, here and at the gateway."""
    async with _http() as http:
        try:
            await Gateway(http, request.cookies.get(COOKIE)).call(endpoints.END_SESSION)
        except GatewayProblem as error:
            if error.problem.status != 401:
                return _page(f"You are still signed in: {error.problem.detail}.", error.problem.status)
    answer = RedirectResponse("/signin", 303, _HEADERS)
    answer.delete_cookie(COOKIE)
    return answer


ROUTES = [
    Route("/signin", sign_in, methods=["GET", "POST"]),
    Route("/signout", sign_out, methods=["GET"]),
]
