"""Who calls: sessions, one-time tickets, default clusters, and tokens over HTTP."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from api.preferences import PreferenceStore
from api.sessions import SessionFile
from api.tokens import TokenStore
from contracts.access import Role
from tests.api.conftest import Eventually, Gateway, MakeCluster, Name, running_gateway

SESSIONS, CURRENT, TICKETS = "/api/v1/sessions", "/api/v1/sessions/current", "/api/v1/tickets"
TOKENS, ME, DEFAULT = "/api/v1/tokens", "/api/v1/me", "/api/v1/me/default-cluster"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def made(caller: httpx.AsyncClient, path: str, body: Any = None, **request: Any) -> dict[str, Any]:
    """What was made at ``path``."""
    answer = await caller.post(path, **({} if body is None else {"json": body}), **request)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def redeemed(gateway: Gateway, ticket: str) -> dict[str, Any]:
    return await made(gateway.anonymous, SESSIONS, {"ticket": ticket})


async def status_of(gateway: Gateway, token: str) -> int:
    """What a request is answered with that shows ``token``."""
    return (await gateway.anonymous.get(ME, headers=bearer(token))).status_code


def rewrite(gateway: Gateway, change: Callable[[datetime], datetime]) -> None:
    """Change when each session and ticket of the gateway ends."""
    path = gateway.settings.sessions_path
    kept = SessionFile.model_validate_json(path.read_bytes())
    sessions, tickets = (
        [each.model_copy(update={"expires_at": change(each.expires_at)}) for each in records]
        for records in (kept.sessions, kept.tickets)
    )
    path.write_text(kept.model_copy(update={"sessions": sessions, "tickets": tickets}).model_dump_json())


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.fixture
async def own(temporal: Client, tmp_path: Path) -> Any:
    """A gateway that no other test uses."""
    async with running_gateway(tmp_path, temporal) as running:
        yield running


async def test_a_ticket_begins_a_session_with_name_and_role_of_who_made_it(gateway: Gateway) -> None:
    session = await redeemed(gateway, (await made(gateway.agent, TICKETS))["ticket"])
    assert (session["name"], session["role"]) == ("agent-1", "agent")
    caller = await gateway.anonymous.get(ME, headers=bearer(session["token"]))
    assert caller.json() == {"name": "agent-1", "role": "agent", "default_cluster": None}
    denied = await gateway.anonymous.get("/api/v1/audit", headers=bearer(session["token"]))
    assert denied.status_code == 403


async def test_a_ticket_begins_one_session_only_and_then_says_how_to_get_another(gateway: Gateway) -> None:
    ticket = (await made(gateway.viewer, TICKETS))["ticket"]
    await redeemed(gateway, ticket)
    for worthless in (ticket, "ist_guess"):
        answer = await gateway.anonymous.post(SESSIONS, json={"ticket": worthless})
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert "used before, has expired" in answer.json()["detail"]
        assert "instantstart console" in answer.json()["remedy"]


async def test_of_many_who_redeem_a_ticket_at_once_one_gets_a_session(gateway: Gateway) -> None:
    ticket = (await made(gateway.viewer, TICKETS))["ticket"]
    answers = await asyncio.gather(*(gateway.anonymous.post(SESSIONS, json={"ticket": ticket}) for _ in range(8)))
    assert sorted(each.status_code for each in answers) == [201] + [401] * 7


async def test_a_bearer_token_begins_a_session_and_nothing_does_not(gateway: Gateway) -> None:
    session = await made(gateway.operator, SESSIONS)
    assert session["token"].startswith("iss_")
    assert await status_of(gateway, session["token"]) == 200
    for body in (None, {}, {"ticket": None}):
        assert (await gateway.anonymous.post(SESSIONS, json=body)).status_code == 401
    assert (await gateway.anonymous.post(TICKETS)).status_code == 401


async def test_a_ticket_beside_a_bearer_token_is_refused_and_stays_good(gateway: Gateway) -> None:
    ticket = (await made(gateway.viewer, TICKETS))["ticket"]
    both = await gateway.admin.post(SESSIONS, json={"ticket": ticket})
    assert (both.status_code, both.json()["field"]) == (422, "/ticket")
    assert (await redeemed(gateway, ticket))["role"] == "viewer"


async def test_a_session_starts_operations_as_its_token_does(gateway: Gateway, name: Name) -> None:
    session = await made(gateway.operator, SESSIONS)
    tag = name("run")
    started = await gateway.anonymous.post("/api/v1/clusters", json={"tag": tag}, headers=bearer(session["token"]))
    assert started.status_code == 202
    assert started.json()["started_by"] == "operator-1"


async def test_a_session_ends_when_it_is_told_to_and_others_go_on(gateway: Gateway) -> None:
    ended, other = [(await made(gateway.viewer, SESSIONS))["token"] for _ in range(2)]
    answer = await gateway.anonymous.delete(CURRENT, headers=bearer(ended))
    assert (answer.status_code, answer.content) == (204, b"")
    refused = await gateway.anonymous.get(ME, headers=bearer(ended))
    assert refused.status_code == 401
    assert "invalid_token" in refused.headers["WWW-Authenticate"]
    assert "session" in refused.json()["detail"]
    assert await status_of(gateway, other) == 200
    assert (await gateway.viewer.delete(CURRENT)).status_code == 404
    assert (await gateway.viewer.get(ME)).status_code == 200


@pytest.mark.parametrize("again", [False, True])
async def test_sessions_and_tickets_die_with_their_token_even_if_its_holder_has_a_new_one(
    gateway: Gateway, name: Name, again: bool
) -> None:
    holder, store = name("ana"), TokenStore(gateway.settings.tokens_path)
    headers = bearer(store.add(holder, Role.VIEWER))
    session = (await made(gateway.anonymous, SESSIONS, headers=headers))["token"]
    ticket = (await made(gateway.anonymous, TICKETS, headers=headers))["ticket"]
    assert await status_of(gateway, session) == 200
    store.revoke(holder)
    if again:
        store.add(holder, Role.ADMIN)
    assert await status_of(gateway, session) == 401
    assert (await gateway.anonymous.post(SESSIONS, json={"ticket": ticket})).status_code == 401


async def test_sessions_and_tickets_last_as_long_as_the_settings_say(own: Gateway) -> None:
    before = datetime.now(UTC)
    session, ticket = await made(own.viewer, SESSIONS), await made(own.viewer, TICKETS)
    after = datetime.now(UTC)
    assert before <= moment(session["expires_at"]) - timedelta(hours=12) <= after
    assert before <= moment(ticket["expires_at"]) - timedelta(minutes=10) <= after


async def test_what_has_expired_is_refused_and_swept_at_the_next_writing(own: Gateway) -> None:
    session, ticket = await made(own.viewer, SESSIONS), await made(own.viewer, TICKETS)
    past = datetime.now(UTC) - timedelta(seconds=1)
    rewrite(own, lambda _: past)
    assert await status_of(own, session["token"]) == 401
    assert len(SessionFile.model_validate_json(own.settings.sessions_path.read_bytes()).sessions) == 1
    expired = await own.anonymous.post(SESSIONS, json={"ticket": ticket["ticket"]})
    assert (expired.status_code, "has expired" in expired.json()["detail"]) == (401, True)
    assert SessionFile.model_validate_json(own.settings.sessions_path.read_bytes()) == SessionFile()


async def test_nothing_made_in_a_session_outlasts_it(own: Gateway) -> None:
    first = await made(own.operator, SESSIONS)
    # Soon enough that a ticket would otherwise last longer too.
    end = datetime.now(UTC) + timedelta(minutes=5)
    rewrite(own, lambda _: end)
    headers = bearer(first["token"])
    second = await made(own.anonymous, SESSIONS, headers=headers)
    ticket = await made(own.anonymous, TICKETS, headers=headers)
    third = await redeemed(own, ticket["ticket"])
    assert [moment(each["expires_at"]) for each in (second, ticket, third)] == [end] * 3


async def test_a_token_keeps_the_newest_of_very_many_sessions(own: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.sessions.MOST_KEPT", 2)
    other = (await made(own.operator, SESSIONS))["token"]
    tokens = [(await made(own.viewer, SESSIONS))["token"] for _ in range(3)]
    assert [await status_of(own, token) for token in (*tokens, other)] == [401, 200, 200, 200]


async def test_sessions_are_kept_as_hashes_that_only_the_owner_reads(own: Gateway) -> None:
    secrets = [
        (await made(own.viewer, SESSIONS))["token"],
        (await made(own.viewer, TICKETS))["ticket"],
        (await made(own.admin, TOKENS, {"name": "ana", "role": "viewer"}))["token"],
    ]
    await own.viewer.delete(DEFAULT)
    files = [own.settings.sessions_path, own.settings.tokens_path]
    assert all(secret not in file.read_text() for secret in secrets for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_sessions_tickets_and_default_clusters_survive_a_restart(
    temporal: Client, tmp_path: Path, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster()
    async with running_gateway(tmp_path, temporal) as first:
        session, ticket = await made(first.viewer, SESSIONS), await made(first.viewer, TICKETS)
        assert (await first.viewer.put(DEFAULT, json={"cluster": tag})).status_code == 200
    async with running_gateway(tmp_path, temporal, known=first.tokens) as second:
        caller = await second.anonymous.get(ME, headers=bearer(session["token"]))
        assert caller.json() == {"name": "viewer-1", "role": "viewer", "default_cluster": tag}
        await redeemed(second, ticket["ticket"])


async def test_gateways_that_share_a_folder_share_sessions_and_tickets(temporal: Client, tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path, temporal) as one,
        running_gateway(tmp_path, temporal, known=one.tokens) as other,
    ):
        session = (await redeemed(one, (ticket := (await made(other.viewer, TICKETS))["ticket"])))["token"]
        assert await status_of(other, session) == 200
        assert (await other.anonymous.post(SESSIONS, json={"ticket": ticket})).status_code == 401
        await other.anonymous.delete(CURRENT, headers=bearer(session))
        assert await status_of(one, session) == 401


async def test_with_authentication_off_sessions_and_tickets_answer_for_this_machine(
    temporal: Client, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path, temporal, auth="off") as gateway:
        assert (await gateway.anonymous.get(ME)).json()["name"] == "local"
        ticket = (await made(gateway.anonymous, TICKETS))["ticket"]
        session = await redeemed(gateway, ticket)
        assert (session["name"], session["role"]) == ("local", "admin")
        assert (await made(gateway.anonymous, SESSIONS))["name"] == "local"
        assert (await gateway.anonymous.post(SESSIONS, json={"ticket": ticket})).status_code == 401
        assert (await gateway.anonymous.delete(CURRENT, headers=bearer(session["token"]))).status_code == 204
        crossed = {"Origin": "https://evil.example"}
        other = (await made(gateway.anonymous, TICKETS))["ticket"]
        for body in ({}, {"ticket": other}):
            assert (await gateway.anonymous.post(SESSIONS, json=body, headers=crossed)).status_code == 403
        kept = [(await made(gateway.anonymous, SESSIONS))["token"], (await made(gateway.anonymous, TICKETS))["ticket"]]
    async with running_gateway(tmp_path, temporal, known=gateway.tokens) as closed:
        assert await status_of(closed, kept[0]) == 401
        assert (await closed.anonymous.post(SESSIONS, json={"ticket": kept[1]})).status_code == 401


async def test_an_administrator_makes_lists_and_revokes_tokens(gateway: Gateway, name: Name) -> None:
    holder = name("ana")
    answer = await gateway.admin.post(TOKENS, json={"name": holder, "role": "operator"})
    assert (answer.status_code, answer.headers["Cache-Control"]) == (201, "no-store")
    token = answer.json()["token"]
    assert answer.json() == {"name": holder, "role": "operator", "token": token}
    assert (await gateway.anonymous.get(ME, headers=bearer(token))).json()["name"] == holder
    listed = await gateway.admin.get(TOKENS)
    (found,) = [each for each in listed.json()["tokens"] if each["name"] == holder]
    assert found["role"] == "operator"
    assert token not in listed.text
    assert (await gateway.admin.delete(f"{TOKENS}/{holder}")).status_code == 204
    assert await status_of(gateway, token) == 401
    assert (await gateway.admin.delete(f"{TOKENS}/{holder}")).status_code == 404


async def test_a_name_has_one_token(gateway: Gateway) -> None:
    taken = await gateway.admin.post(TOKENS, json={"name": "viewer-1", "role": "admin"})
    assert (taken.status_code, taken.json()["field"]) == (409, "/name")
    assert (await gateway.viewer.get(ME)).json()["role"] == "viewer"
    bad = await gateway.admin.post(TOKENS, json={"name": "two words", "role": "king"})
    assert (bad.status_code, {each["field"] for each in bad.json()["errors"]}) == (422, {"/name", "/role"})


@pytest.mark.parametrize("role", ["viewer", "agent", "operator"])
async def test_only_administrators_manage_tokens_also_in_a_session(gateway: Gateway, role: str) -> None:
    session = await made(getattr(gateway, role), SESSIONS)
    for shown in (gateway.tokens[role], session["token"]):
        headers = bearer(shown)
        answers = [
            await gateway.anonymous.get(TOKENS, headers=headers),
            await gateway.anonymous.post(TOKENS, json={"name": "eve", "role": "admin"}, headers=headers),
            await gateway.anonymous.delete(f"{TOKENS}/admin-1", headers=headers),
        ]
        assert [each.status_code for each in answers] == [403] * 3


async def test_the_last_administrator_keeps_its_token(own: Gateway) -> None:
    session = await made(own.admin, SESSIONS)
    for shown in (own.tokens["admin"], session["token"]):
        answer = await own.anonymous.delete(f"{TOKENS}/admin-1", headers=bearer(shown))
        assert answer.status_code == 409
        assert "last administrator" in answer.json()["detail"]
    heir = await made(own.admin, TOKENS, {"name": "heir", "role": "admin"})
    assert (await own.admin.delete(f"{TOKENS}/admin-1")).status_code == 204
    assert await status_of(own, own.tokens["admin"]) == 401
    assert await status_of(own, session["token"]) == 401
    assert await status_of(own, heir["token"]) == 200


async def test_of_two_administrators_who_revoke_each_other_at_once_one_stays(own: Gateway) -> None:
    other = await made(own.admin, TOKENS, {"name": "admin-2", "role": "admin"})
    await asyncio.gather(
        own.admin.delete(f"{TOKENS}/admin-2"),
        own.anonymous.delete(f"{TOKENS}/admin-1", headers=bearer(other["token"])),
    )
    admins = [each for each in TokenStore(own.settings.tokens_path).records() if each.role is Role.ADMIN]
    assert len(admins) == 1


async def test_every_caller_has_a_default_cluster_of_its_own(own: Gateway, make_cluster: MakeCluster) -> None:
    one, other = await make_cluster(), await make_cluster()
    chosen = await own.viewer.put(DEFAULT, json={"cluster": one})
    assert chosen.json() == {"name": "viewer-1", "role": "viewer", "default_cluster": one}
    await own.agent.put(DEFAULT, json={"cluster": other})
    session = await made(own.viewer, SESSIONS)
    seen = await own.anonymous.get(ME, headers=bearer(session["token"]))
    assert seen.json()["default_cluster"] == one
    cleared = await own.viewer.delete(DEFAULT)
    assert cleared.json()["default_cluster"] is None
    assert (await own.viewer.get(ME)).json()["default_cluster"] is None
    assert (await own.agent.get(ME)).json()["default_cluster"] == other


async def test_a_default_cluster_that_is_gone_shows_as_none(
    own: Gateway, temporal: Client, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    tag = await make_cluster()
    await own.operator.put(DEFAULT, json={"cluster": tag})
    await temporal.get_workflow_handle(f"cluster/{tag}").terminate()
    await eventually(lambda: own.operator.get(ME), lambda r: r.json()["default_cluster"] is None)


async def test_an_unmanaged_cluster_is_no_default_and_managed_ones_are_named(
    own: Gateway, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    tag = await make_cluster()
    await own.viewer.delete(DEFAULT)
    answer = await eventually(
        lambda: own.viewer.put(DEFAULT, json={"cluster": "nobody"}), lambda r: tag in r.json()["detail"]
    )
    assert (answer.status_code, answer.json()["field"]) == (404, "/cluster")
    assert (await own.viewer.get(ME)).json()["default_cluster"] is None


async def test_a_default_cluster_stays_while_temporal_cannot_say_that_it_is_gone(tmp_path: Path) -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True)
    async with running_gateway(tmp_path, client) as gateway:
        PreferenceStore(gateway.settings.preferences_path).set_default_cluster("viewer-1", "known")
        assert (await gateway.viewer.get(ME)).json()["default_cluster"] == "known"
        assert (await gateway.viewer.put(DEFAULT, json={"cluster": "other"})).status_code == 503


async def test_no_token_session_or_ticket_reaches_the_trail_or_the_log(
    gateway: Gateway, name: Name, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ids, holder = [name("req") for _ in range(6)], name("ana")

    def headers(number: int, shown: str | None = None) -> dict[str, str]:
        return {"X-Request-Id": ids[number], **(bearer(shown) if shown else {})}

    ticket = (await made(gateway.operator, TICKETS, headers=headers(0)))["ticket"]
    session = (await made(gateway.anonymous, SESSIONS, {"ticket": ticket}, headers=headers(1)))["token"]
    await gateway.anonymous.post(SESSIONS, json={"ticket": ticket}, headers=headers(2))
    token = (await made(gateway.admin, TOKENS, {"name": holder, "role": "viewer"}, headers=headers(3)))["token"]
    misplaced = await gateway.admin.delete(f"{TOKENS}/{token}", headers=headers(4))
    assert misplaced.status_code == 404
    await gateway.anonymous.delete(CURRENT, headers=headers(5, session))
    await gateway.anonymous.get("/signin", params={"ticket": ticket})
    await gateway.admin.delete(f"{TOKENS}/{holder}")

    found = (await gateway.admin.get("/api/v1/audit?page_size=200")).json()["entries"]
    entries = {each["request_id"]: each for each in found}
    assert [(entries[id]["by"], entries[id]["status"]) for id in ids] == [
        ("operator-1", 201),
        ("operator-1", 201),
        ("anonymous", 401),
        ("admin-1", 201),
        ("admin-1", 404),
        ("operator-1", 204),
    ]
    assert entries[ids[3]]["detail"] == f"{holder}, viewer"
    assert entries[ids[4]]["path"] == f"{TOKENS}/isk_…"
    trail = "".join(path.read_text() for path in (gateway.settings.data_dir / "audit").glob("*.jsonl"))
    # httpx is this test's own side of the connection.
    logged = "\n".join(each.getMessage() for each in caplog.records if not each.name.startswith("http"))
    assert "GET /signin 404" in logged
    for secret in (ticket, session, token):
        assert secret not in trail
        assert secret not in logged
