"""The gateway as a process: callers, audit, problems, health, settings, shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError
from temporalio.client import Client
from temporalio.worker import Worker

from api.__main__ import main as run_process
from api.audit import AuditLog
from api.settings import Settings
from api.tokens import TokenStore, main
from contracts.access import AuditEntry, Principal, Role
from tests.api.conftest import Eventually, Gateway, MakeCluster, Name, running_gateway


async def test_a_request_without_a_valid_token_is_refused(gateway: Gateway) -> None:
    answer = await gateway.anonymous.get("/api/v1/operations")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    wrong = await gateway.anonymous.get("/api/v1/me", headers={"Authorization": "Bearer isk_guess"})
    assert wrong.status_code == 401
    assert "invalid_token" in wrong.headers["WWW-Authenticate"]
    assert (await gateway.agent.get("/api/v1/me")).json() == {
        "name": "agent-1",
        "role": "agent",
        "default_cluster": None,
    }


async def test_authentication_comes_before_validation(gateway: Gateway) -> None:
    assert (await gateway.anonymous.post("/api/v1/clusters", json={})).status_code == 401
    assert (await gateway.viewer.post("/api/v1/clusters", json={})).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "viewer", "agent", "operator", "admin"),
    [
        ("GET", "/api/v1/operations", 200, 200, 200, 200),
        ("POST", "/api/v1/clusters?validate_only=true", 403, 200, 200, 200),
        ("POST", "/api/v1/operations/create-cluster/nobody/skip", 403, 403, 404, 404),
        ("POST", "/api/v1/operations/create-cluster/nobody/reject", 403, 403, 404, 404),
        ("POST", "/api/v1/operations/create-cluster/nobody/abort", 403, 404, 404, 404),
        ("GET", "/api/v1/audit", 403, 403, 403, 200),
    ],
)
async def test_each_role_may_do_what_its_row_says(
    gateway: Gateway, method: str, path: str, viewer: int, agent: int, operator: int, admin: int
) -> None:
    body = {"tag": "ok"} if "clusters" in path else None
    callers = (gateway.viewer, gateway.agent, gateway.operator, gateway.admin)
    found = [(await caller.request(method, path, json=body)).status_code for caller in callers]
    assert found == [viewer, agent, operator, admin]


async def test_tokens_are_read_again_when_the_file_changes(gateway: Gateway) -> None:
    store = TokenStore(gateway.settings.tokens_path)
    token = store.add("late", Role.VIEWER)
    headers = {"Authorization": f"Bearer {token}"}
    assert (await gateway.anonymous.get("/api/v1/me", headers=headers)).json()["name"] == "late"
    store.revoke("late")
    assert (await gateway.anonymous.get("/api/v1/me", headers=headers)).status_code == 401


def test_a_token_is_shown_once_and_kept_as_a_hash_that_only_its_owner_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.json"
    assert main(["--file", str(path), "add", "ana", "operator"]) == 0
    token = capsys.readouterr().out.strip()
    assert token not in path.read_text()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    found = TokenStore(path).find(token)
    assert found is not None
    assert found.principal == Principal(name="ana", role=Role.OPERATOR)
    assert main(["--file", str(path), "add", "ana", "viewer"]) == 2
    assert main(["--file", str(path), "list"]) == 0
    assert "ana\toperator" in capsys.readouterr().out
    assert main(["--file", str(path), "revoke", "ana"]) == 0
    assert main(["--file", str(path), "revoke", "ana"]) == 3


async def test_the_audit_trail_holds_changes_and_denials_with_their_request_ids(gateway: Gateway, name: Name) -> None:
    tag = name("run")
    ids = [name("req") for _ in range(4)]
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers={"X-Request-Id": ids[0]})
    url = f"/api/v1/operations/create-cluster/{tag}"
    await gateway.operator.post(f"{url}/abort", headers={"X-Request-Id": ids[1]})
    await gateway.viewer.post(f"{url}/abort", headers={"X-Request-Id": ids[2]})
    await gateway.viewer.get(url, headers={"X-Request-Id": ids[3]})
    found = (await gateway.admin.get("/api/v1/audit?page_size=200")).json()["entries"]
    entries = {each["request_id"]: each for each in found}
    assert (entries[ids[0]]["by"], entries[ids[0]]["status"]) == ("operator-1", 202)
    assert entries[ids[0]]["operation"] == entries[ids[1]]["operation"] == f"create-cluster/{tag}"
    assert (entries[ids[2]]["by"], entries[ids[2]]["role"], entries[ids[2]]["status"]) == ("viewer-1", "viewer", 403)
    assert ids[3] not in entries
    trail = "".join(path.read_text() for path in (gateway.settings.data_dir / "audit").glob("*.jsonl"))
    assert not any(token in trail for token in gateway.tokens.values())


async def test_the_audit_trail_is_paged(gateway: Gateway) -> None:
    for _ in range(3):
        await gateway.viewer.get("/api/v1/audit")
    first = (await gateway.admin.get("/api/v1/audit?page_size=2")).json()
    second = (await gateway.admin.get(f"/api/v1/audit?page_size=1&page_token={first['next_page_token']}")).json()
    assert second["entries"][0]["at"] < first["entries"][1]["at"]


def test_a_full_audit_file_is_followed_by_the_next_and_pages_go_across(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, file_bytes=1000, keep=3)
    for n in range(40):
        log.append(
            AuditEntry(
                at=datetime.now(UTC), request_id=f"r{n}", by="a", role=None, method="POST", path="/p", status=202
            )
        )
    assert len(list(tmp_path.glob("*.jsonl"))) == 3
    found, position = [], None
    while True:
        entries, position = log.newest(4, position)
        found += [entry.request_id for entry in entries]
        if position is None:
            break
    assert found == [f"r{n}" for n in range(39, 39 - len(found), -1)]
    assert len(found) >= 12


async def test_a_request_id_is_kept_if_it_is_one_and_made_if_not(
    gateway: Gateway, temporal: Client, name: Name
) -> None:
    kept = await gateway.viewer.get("/health", headers={"X-Request-Id": "abc.DEF-1"})
    assert kept.headers["X-Request-Id"] == "abc.DEF-1"
    made = await gateway.viewer.get("/health", headers={"X-Request-Id": "no spaces"})
    assert len(made.headers["X-Request-Id"]) == 32
    tag, request_id = name("run"), name("req")
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag}, headers={"X-Request-Id": request_id})
    memo = await (await temporal.get_workflow_handle(f"create-cluster/{tag}").describe()).memo()
    assert memo["operation"]["request_id"] == request_id


async def test_every_error_is_a_problem(gateway: Gateway) -> None:
    cases = [
        (await gateway.viewer.get("/nowhere"), 404, "not_found"),
        (await gateway.viewer.delete("/api/v1/clusters"), 405, "unsupported"),
        (await gateway.viewer.get("/api/v1/operations/create-cluster/nobody"), 404, "not_found"),
        (await gateway.viewer.get("/api/v1/operations/rm-rf/nobody"), 404, "not_found"),
        (await gateway.viewer.get("/api/v1/operations?phase=tired"), 422, "invalid"),
        (
            await gateway.operator.post(
                "/api/v1/clusters", content=b'{"tag": ', headers={"Content-Type": "application/json"}
            ),
            400,
            "invalid",
        ),
        (await gateway.operator.post("/api/v1/clusters", content=b"\xff"), 415, "invalid"),
        (await gateway.operator.post("/api/v1/clusters", data={"tag": "x"}), 415, "invalid"),
        (await gateway.operator.post("/api/v1/clusters"), 422, "invalid"),
        (await gateway.viewer.get("/api/v1/operations?started_by=%00"), 422, "invalid"),
        (
            await gateway.operator.post(
                "/api/v1/operations/create-cluster/nobody/decide",
                content=rb'{"answer": {"group": "\ud800"}}',
                headers={"Content-Type": "application/json"},
            ),
            422,
            "invalid",
        ),
        (await gateway.operator.post("/api/v1/clusters", json={"tag": "x" * 1_000_001}), 413, "invalid"),
    ]
    for answer, status, code in cases:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert (body["status"], body["code"]) == (status, code)
        assert body["instance"] == answer.request.url.path
        assert body["type"].startswith("https://")
        assert body["detail"]


async def test_a_defect_is_a_problem_with_the_request_id_and_no_traceback(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("api.services.Services.operation", broken)
    answer = await gateway.viewer.get("/api/v1/operations/create-cluster/x", headers={"X-Request-Id": "defect-1"})
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"
    assert "defect-1" in answer.json()["detail"]
    assert "secret" not in answer.text
    assert answer.headers["X-Request-Id"] == "defect-1"


async def test_health_and_readiness_need_no_token_and_name_what_is_missing(gateway: Gateway) -> None:
    assert (await gateway.anonymous.get("/health")).json() == {"status": "ok"}
    ready = await gateway.anonymous.get("/ready")
    assert ready.status_code == 503
    assert ready.json()["temporal"]
    assert "instantstart-workflows" not in ready.json()["missing"]
    assert "instantstart-aws-us-east-1" in ready.json()["missing"]


async def test_without_a_worker_operations_start_and_show_but_decisions_wait(
    abandoned: tuple[Gateway, Client], name: Name, make_cluster: MakeCluster
) -> None:
    gateway, client = abandoned
    tag = name("run")
    started = await gateway.agent.post("/api/v1/clusters", json={"tag": tag, "network": {"vpc_cidr": "10.9.0.0/16"}})
    assert started.status_code == 202
    assert started.json()["phase"] == "waiting_for_approval"
    url = f"/api/v1/operations/create-cluster/{tag}"
    for call in (
        gateway.operator.post(f"{url}/approve", json={"plan_hash": started.json()["plan_hash"]}),
        gateway.operator.post(f"{url}/abort"),
        gateway.viewer.get("/api/v1/options"),
    ):
        answer = await call
        assert answer.status_code == 503
        assert answer.json()["code"] == "unavailable"
        assert "no worker is running" in answer.json()["detail"]
        assert answer.headers["Retry-After"]
        assert answer.json()["retryable"]
    known = await make_cluster(client=client)
    view = await gateway.viewer.get(f"/api/v1/clusters/{known}")
    assert view.json()["record"]["tag"] == known
    assert "instantstart-workflows" in (await gateway.anonymous.get("/ready")).json()["missing"]


async def test_a_worker_that_does_not_answer_in_time_is_told_from_none(
    abandoned: tuple[Gateway, Client], name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def polled(*_: object) -> bool:
        return True

    gateway, _ = abandoned
    tag = name("run")
    await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    monkeypatch.setattr("api.temporal.Temporal.polled", polled)
    answer = await gateway.operator.post(f"/api/v1/operations/create-cluster/{tag}/abort")
    assert answer.status_code == 503
    assert "did not answer in time" in answer.json()["detail"]


async def test_without_temporal_the_gateway_starts_and_says_so(tmp_path: Path) -> None:
    client = await Client.connect("127.0.0.1:1", lazy=True)
    async with running_gateway(tmp_path, client) as gateway:
        answer = await gateway.viewer.get("/api/v1/operations/create-cluster/x")
        assert answer.status_code == 503
        assert "Temporal" in answer.json()["detail"]
        assert answer.headers["Retry-After"]
        assert (await gateway.operator.post("/api/v1/clusters", json={"tag": "ok"})).status_code == 503
        assert (await gateway.anonymous.get("/ready")).json()["temporal"] is False
        assert (await gateway.anonymous.get("/health")).status_code == 200


async def test_streams_and_long_polls_end_when_the_gateway_stops(
    temporal: Client, worker: Worker, tmp_path: Path, name: Name, eventually: Eventually
) -> None:
    async with running_gateway(tmp_path, temporal) as gateway:
        tag = name("run")
        await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
        url = f"/api/v1/operations/create-cluster/{tag}"
        # Until it has come to rest: what it still had to say would be an event that no stop has caused.
        await eventually(lambda: gateway.viewer.get(url), lambda found: found.headers["Operation-Version"] == "1")
        polling = asyncio.create_task(gateway.viewer.get(f"{url}?wait=60&since=1"))
        async with asyncio.timeout(8), gateway.viewer.stream("GET", f"{url}/events") as response:
            lines = response.aiter_lines()
            async for line in lines:
                if line == "event: progress":
                    break
            gateway.server.should_exit = True
            assert [line async for line in lines if line.startswith("event")] == []
            assert (await polling).status_code == 200


async def test_with_authentication_off_only_this_machine_is_served(temporal: Client, tmp_path: Path) -> None:
    async with running_gateway(tmp_path, temporal, auth="off") as gateway:
        assert (await gateway.anonymous.get("/api/v1/me")).json()["role"] == "admin"
        rebound = await gateway.anonymous.get("/api/v1/me", headers={"Host": "evil.example"})
        assert rebound.status_code == 403
        crossed = await gateway.anonymous.post(
            "/api/v1/clusters?validate_only=true", json={"tag": "x"}, headers={"Origin": "https://evil.example"}
        )
        assert crossed.status_code == 403


def test_authentication_off_is_refused_on_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTANTSTART_AUTH", "off")
    assert Settings().auth == "off"
    monkeypatch.setenv("INSTANTSTART_HOST", "0.0.0.0")
    with pytest.raises(ValidationError, match="loopback"):
        Settings()


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTANTSTART_REGIONS", "us-west-2, us-east-1")
    assert Settings().regions == ["us-west-2", "us-east-1"]
    monkeypatch.setenv("INSTANTSTART_DEFAULT_REGION", "eu-west-1")
    with pytest.raises(ValidationError, match="eu-west-1"):
        Settings()


def test_the_process_refuses_to_run_open_to_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSTANTSTART_AUTH", "off")
    monkeypatch.setenv("INSTANTSTART_HOST", "0.0.0.0")
    assert run_process() == 2
    assert "loopback" in capsys.readouterr().err


def test_the_audit_line_is_json(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 10_000, 2)
    log.append(AuditEntry(at=datetime.now(UTC), request_id="r", by="a", role=None, method="POST", path="/p", status=1))
    assert json.loads(next(tmp_path.glob("*.jsonl")).read_text())["request_id"] == "r"
