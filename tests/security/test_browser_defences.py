"""What other sites' pages cannot do with a browser whose owner is signed in, by raw HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client as Temporal
from temporalio.worker import Worker

from api.attempts import MOST
from contracts.access import SESSION_COOKIE
from server.app import LARGEST_BODY
from tests.api.conftest import Gateway, running_gateway
from tests.mcp.test_http import HEADERS, LIST
from tests.security.roles import routes
from tests.server.conftest import Served

FOREIGN = "https://evil.example"
PATHS = ["/health", "/ready", "/api/v1/me", "/api/v1/nothing", "/docs", "/api/v1/openapi.json"]
STATE_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}


@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_of_the_gateway_says_what_browsers_may_do_with_it(gateway: Gateway, path: str) -> None:
    headers = (await gateway.viewer.get(path)).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] in ("no-store", "no-cache")


async def test_no_script_runs_on_the_page_of_the_contract(gateway: Gateway) -> None:
    page = await gateway.anonymous.get("/docs")
    assert "script-src" not in page.headers["content-security-policy"]
    assert "<script" not in page.text


async def test_problems_and_event_streams_carry_the_same_headers(gateway: Gateway) -> None:
    refused = await gateway.anonymous.get("/api/v1/clusters")
    assert (refused.status_code, refused.headers["x-content-type-options"]) == (401, "nosniff")
    broken = await gateway.viewer.post("/api/v1/clusters", content=b"{", headers={"Content-Type": "application/json"})
    assert (broken.status_code, broken.headers["x-frame-options"]) == (400, "DENY")


@pytest.mark.parametrize(("known", "status"), [(True, 200), (False, 401)])
async def test_answers_of_the_tools_carry_the_same_headers(everything: Served, known: bool, status: int) -> None:
    async with everything.caller() if known else everything.http() as http:
        answer = await http.post("/mcp", json=LIST, headers=HEADERS)
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] in ("no-store", "no-cache", "no-cache, no-transform")


async def test_no_other_site_may_read_answers_or_send_more_than_a_form_does(gateway: Gateway) -> None:
    """Without these headers browsers keep answers from scripts of other sites, and send no preflighted request."""
    crossed = {"Origin": FOREIGN}
    for path in PATHS:
        answer = await gateway.viewer.get(path, headers=crossed)
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    asked = {**crossed, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    preflight = await gateway.anonymous.options("/api/v1/clusters", headers=asked)
    assert not preflight.is_success
    assert not [name for name in preflight.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("sent", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_what_a_form_can_send_is_not_taken_for_json(gateway: Gateway, sent: str) -> None:
    headers = {"Content-Type": sent} if sent else {}
    answer = await gateway.operator.post("/api/v1/clusters", content=b'{"tag": "formed"}', headers=headers)
    assert answer.status_code == 415
    assert (await gateway.viewer.get("/api/v1/operations/create-cluster/formed")).status_code == 404


async def test_reading_changes_nothing_and_what_changes_is_never_a_get(gateway: Gateway, tmp_path: Path) -> None:
    from api.app import create_app
    from api.settings import Settings
    from contracts.endpoints import ENDPOINTS

    for name, (method, path) in routes(create_app(Settings(data_dir=tmp_path))).items():
        endpoint = ENDPOINTS.get(name)
        if endpoint is not None and not endpoint.reads:
            assert method in STATE_CHANGING, path
        if method == "GET":
            assert endpoint is None or endpoint.reads, path


async def test_with_authentication_off_pages_of_other_sites_neither_read_nor_change(
    temporal: Temporal, worker: Worker, tmp_path: Path
) -> None:
    attacks = (
        {"Host": "evil.example"},  # its name was turned to a loopback address
        {"Origin": FOREIGN},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},  # a picture, which has no Origin
    )
    async with running_gateway(tmp_path, temporal, auth="off") as gateway:
        for headers in attacks:
            for method, path in (("GET", "/api/v1/clusters"), ("DELETE", "/api/v1/me/default-cluster")):
                answer = await gateway.anonymous.request(method, path, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (403, "denied"), headers
        assert (await gateway.anonymous.get("/api/v1/clusters", headers={"Sec-Fetch-Site": "none"})).is_success


@pytest.mark.parametrize("path", ["/", "/signin", "/overview", "/logs/live?pod=x", "/_stcore/health"])
async def test_pages_of_the_console_load_and_tell_nothing_elsewhere(everything: Served, path: str) -> None:
    async with everything.http() as http:
        headers = (await http.get(path)).headers
    policies = headers.get_list("content-security-policy")
    assert any("default-src 'self'" in each or "default-src 'none'" in each for each in policies)
    assert "frame-ancestors 'self'" in " ".join(policies)
    assert not any(word in each for each in policies for word in ("https:", "http:", "*"))
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] in ("same-origin", "strict-origin")


@pytest.mark.parametrize("origin", [FOREIGN, "null", "http://127.0.0.1:1"])
async def test_nothing_is_uploaded_or_sent_to_the_console_by_another_sites_page(
    everything: Served, origin: str
) -> None:
    cookie = f"{SESSION_COOKIE}={await everything.session()}"
    async with everything.http(Cookie=cookie, Origin=origin) as http:
        for method, path in (("PUT", "/_stcore/upload_file/a/b"), ("POST", "/signin"), ("POST", "/signout")):
            answer = await http.request(method, path, content=b"x")
            assert answer.status_code == 403, path
        assert (await http.get("/api/v1/me", headers={"Authorization": f"Bearer {everything.token}"})).is_success


async def test_streamlits_own_interface_for_agents_is_off(everything: Served) -> None:
    async with everything.caller() as http:
        answer = await http.post("/_stcore/agent/interact", json={})
        assert not answer.is_success
        assert "does not serve the agent API" in answer.text


@pytest.mark.parametrize("https", [True, False])
async def test_a_session_that_began_over_tls_is_sent_over_nothing_else(everything: Served, https: bool) -> None:
    headers = {"X-Forwarded-Proto": "https"} if https else {}
    async with everything.http(**headers) as http:
        entered = await http.post("/signin", data={"token": everything.token})
    cookie = entered.headers["set-cookie"].lower()
    assert ("; secure" in cookie) is https
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


@pytest.mark.parametrize("path", ["/signin", "/mcp", "/_stcore/upload_file/a/b"])
async def test_nobody_makes_a_process_keep_a_large_body(everything: Served, path: str) -> None:
    async def pieces() -> object:
        for _ in range(LARGEST_BODY // 100_000 + 2):
            yield b"token=" + b"x" * 100_000

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    async with everything.caller() as http:
        announced = await http.post(path, content=b"x" * (LARGEST_BODY + 1), headers=form)
        assert announced.status_code == 413
        streamed = await http.post(path, content=pieces(), headers=form)  # type: ignore[arg-type]
        assert streamed.status_code in (400, 403, 404, 405, 406, 413)


@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer isk_x"}], ids=["none", "unknown"])
async def test_a_page_that_rebinds_its_name_gets_nothing_from_the_tools_without_a_token(
    everything: Served, shown: dict[str, str]
) -> None:
    async with everything.http(Host="evil.example", Origin=FOREIGN) as http:
        answer = await http.post("/mcp", json=LIST, headers=HEADERS | shown)
    assert answer.status_code == 401


async def test_one_who_guesses_is_slowed_down_and_who_shows_a_token_is_not(
    temporal: Temporal, worker: Worker, tmp_path: Path
) -> None:
    elsewhere = {"X-Forwarded-For": "203.0.113.7"}
    async with running_gateway(tmp_path, temporal) as gateway:
        guess = lambda: gateway.anonymous.get("/api/v1/me", headers={**elsewhere, "Authorization": "Bearer isk_x"})  # noqa: E731
        answers = [await guess() for _ in range(MOST + 20)]
        statuses = [each.status_code for each in answers]
        assert statuses == sorted(statuses)
        assert set(statuses) == {401, 429}
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert answers[-1].json()["code"] == "throttled"
        # A valid token from the same place, and somebody else.
        assert (await gateway.viewer.get("/api/v1/me", headers=elsewhere)).is_success
        other = await gateway.anonymous.get("/api/v1/me", headers={"X-Forwarded-For": "203.0.113.8"})
        assert other.status_code == 401


async def test_nobody_pushes_the_audit_trail_out_with_failures(
    temporal: Temporal, worker: Worker, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path, temporal) as gateway:
        limit = asyncio.Semaphore(20)

        async def fail(path: str, shown: dict[str, str]) -> None:
            async with limit:
                await gateway.anonymous.post(path, json={}, headers=shown)

        await asyncio.gather(*(fail("/api/v1/clusters", {"Authorization": "Bearer isk_x"}) for _ in range(MOST + 50)))
        await asyncio.gather(*(fail("/api/v1/nothing", {}) for _ in range(MOST + 50)))
        entries = (await gateway.admin.get("/api/v1/audit", params={"page_size": 200})).json()["entries"]
    assert 1 < len(entries) <= MOST + 1
    assert any("are not listed" in (each["detail"] or "") for each in entries)
