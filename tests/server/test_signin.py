"""Signing in and out: sessions begin once, lead nowhere else, and are the console's alone."""

from __future__ import annotations

from http.cookies import SimpleCookie

import httpx
import pytest

from contracts.access import SESSION_COOKIE
from tests.server.conftest import Served


async def _ticket(everything: Served) -> str:
    async with everything.caller() as http:
        return str((await http.post("/api/v1/tickets")).json()["ticket"])


def _cookie(answer: httpx.Response) -> SimpleCookie:
    return SimpleCookie(answer.headers["set-cookie"])


async def test_a_link_is_used_up_by_its_form_alone_and_only_once(everything: Served) -> None:
    ticket = await _ticket(everything)
    async with everything.http() as http:
        for _ in range(2):  # a preview of the link, and the browser
            shown = await http.get("/signin", params={"ticket": ticket, "next": "/operations"})
            assert (shown.status_code, shown.headers.get("set-cookie")) == (200, None)
            assert ticket in shown.text
            assert ".submit()" in shown.text
        entered = await http.post("/signin", data={"ticket": ticket, "next": "/operations"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/operations")
        again = await http.post("/signin", data={"ticket": ticket})
    assert again.status_code == 401
    assert "set-cookie" not in again.headers
    assert 'role="alert"' in again.text


async def test_a_token_begins_a_session_and_is_not_the_session(everything: Served) -> None:
    async with everything.http() as http:
        entered = await http.post("/signin", data={"token": everything.token})
    cookie = _cookie(entered)[SESSION_COOKIE]
    assert cookie.value != everything.token
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "lax", "/")
    assert cookie["expires"]
    assert entered.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("sent", [{"token": "isk_wrong"}, {"ticket": "ist_wrong"}, {}, {"token": " "}], ids=str)
async def test_what_is_wrong_is_said_on_the_form_and_begins_nothing(everything: Served, sent: dict[str, str]) -> None:
    async with everything.http() as http:
        answer = await http.post("/signin", data={**sent, "next": '/nodes?cluster="><script>'})
    assert answer.status_code in (401, 422)
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text
    assert "<script>" not in answer.text
    assert "isk_wrong" not in answer.text


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
    ],
)
async def test_one_goes_on_to_pages_of_the_console_alone(everything: Served, elsewhere: str) -> None:
    async with everything.http() as http:
        shown = await http.get("/signin", params={"next": elsewhere})
        assert 'name="next" value="/"' in shown.text
        entered = await http.post("/signin", data={"token": everything.token, "next": elsewhere})
    assert entered.headers["location"] == "/"


async def test_another_sites_form_signs_nobody_in(everything: Served) -> None:
    foreign = [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "http://127.0.0.1:1"}]
    for headers in foreign:
        async with everything.http(**headers) as http:
            answer = await http.post("/signin", data={"token": everything.token})
        assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)


async def test_signing_out_ends_the_session_and_takes_the_cookie_back(everything: Served) -> None:
    session = await everything.session()
    bearer = {"Authorization": f"Bearer {session}"}
    async with everything.http(Cookie=f"{SESSION_COOKIE}={session}") as http:
        assert (await http.get("/api/v1/me", headers=bearer)).status_code == 200
        shown = await http.get("/signout", headers={"Sec-Fetch-Site": "same-origin"})
        assert (shown.status_code, shown.headers.get("set-cookie"), ".submit()" in shown.text) == (200, None, True)
        left = await http.post("/signout")
        assert (left.status_code, left.headers["location"]) == (303, "/signin")
        assert _cookie(left)[SESSION_COOKIE].value == ""
        assert (await http.get("/api/v1/me", headers=bearer)).status_code == 401
        # Once more, from another tab.
        assert (await http.post("/signout")).status_code == 303


async def test_another_sites_link_signs_nobody_out(everything: Served) -> None:
    session = await everything.session()
    async with everything.http(Cookie=f"{SESSION_COOKIE}={session}") as http:
        for site in ("cross-site", "same-site"):
            followed = await http.get("/signout", headers={"Sec-Fetch-Site": site})
            assert (followed.headers.get("set-cookie"), ".submit()" in followed.text) == (None, False)
        sent = await http.post("/signout", headers={"Origin": "https://evil.example"})
        assert (sent.status_code, sent.headers.get("set-cookie")) == (403, None)
        assert (await http.get("/api/v1/me", headers={"Authorization": f"Bearer {session}"})).status_code == 200


async def test_the_consoles_cookie_is_nothing_to_the_gateway(everything: Served) -> None:
    cookie = f"{SESSION_COOKIE}={await everything.session()}"
    async with everything.http(Cookie=cookie) as http:
        assert (await http.get("/api/v1/me")).status_code == 401
        assert (await http.post("/api/v1/clusters", json={"tag": "demo"})).status_code == 401
        assert (await http.post("/mcp", json={})).status_code == 401
