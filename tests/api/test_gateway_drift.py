"""Drift of clusters over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

from contracts.drift import Change, Difference, DriftKind, DriftReport, DriftState, Severity, Way
from tests.api.conftest import Gateway, MakeCluster

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
YES = Way(possible=True, why="It is done.")
FOUND = Difference(
    id="instance-group/workers/target~00000001",
    kind=DriftKind.INSTANCE_GROUP,
    name="workers",
    path="target",
    change=Change.CHANGED,
    severity=Severity.WARNING,
    detail="Instance group workers: target is 1, recorded is 2",
    since=NOON,
    adopt=YES,
    restore=YES,
)
STATE = DriftState(report=DriftReport(checked_at=NOON, differences=[FOUND]), known={"hyperpod/hp": {"a": "b"}})


async def test_the_last_report_is_told_and_what_checks_compare_with_is_not(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster(drift=STATE.model_dump(mode="json"))
    answer = (await gateway.viewer.get(f"/api/v1/clusters/{tag}/drift")).json()
    assert [each["id"] for each in answer["report"]["differences"]] == [FOUND.id]
    assert answer["live"] is False
    shown = (await gateway.viewer.get(f"/api/v1/clusters/{tag}")).json()["record"]["drift"]
    assert [each["id"] for each in shown["report"]["differences"]] == [FOUND.id]
    assert shown["known"] == {}


async def test_a_cluster_that_was_never_compared_has_no_report(gateway: Gateway, make_cluster: MakeCluster) -> None:
    answer = await gateway.viewer.get(f"/api/v1/clusters/{await make_cluster()}/drift")
    assert (answer.status_code, answer.json().get("report")) == (200, None)
    assert (await gateway.viewer.get("/api/v1/clusters/nobody/drift")).status_code == 404


async def test_whoever_may_read_has_a_cluster_checked_and_hears_what_was_found(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    answer = (await gateway.viewer.post(f"/api/v1/clusters/{await make_cluster()}/drift/check")).raise_for_status()
    assert answer.json()["live"] is True
    assert answer.json()["report"]["unread"] == [{"kinds": ["storage"], "detail": "no answer"}]
    assert (await gateway.viewer.post("/api/v1/clusters/nobody/drift/check")).status_code == 404


async def test_what_a_check_has_told_is_what_is_read_next(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(drift=STATE.model_dump(mode="json"))
    told = (await gateway.viewer.post(f"/api/v1/clusters/{tag}/drift/check")).raise_for_status().json()["report"]
    read = (await gateway.viewer.get(f"/api/v1/clusters/{tag}/drift")).json()["report"]
    assert read["checked_at"] == told["checked_at"]


async def test_only_who_may_change_things_adopts_and_restores(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(drift=STATE.model_dump(mode="json"))
    for way in ("adopt", "restore"):
        path = f"/api/v1/clusters/{tag}/drift/{way}"
        asked = {"differences": [FOUND.id]}
        assert (await gateway.viewer.post(path, json=asked)).status_code == 403
        planned = await gateway.operator.post(f"{path}?validate_only=true", json=asked)
        assert planned.json()["operation"] == f"{way}-drift/{tag}"
        assert (await gateway.operator.post(path, json={})).json()["errors"][0]["field"] == "/differences"


async def test_an_agent_adopts_a_hole_in_security_and_restores_only_with_a_person(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster(drift=STATE.model_dump(mode="json"))

    async def needs(way: str, **more: bool) -> bool:
        path = f"/api/v1/clusters/{tag}/drift/{way}?validate_only=true"
        plan = (await gateway.agent.post(path, json={"differences": [FOUND.id], **more})).json()
        return bool(plan["needs_approval"])

    assert await needs("adopt") is False
    assert await needs("adopt", accept_weaker_security=True) is True
    assert await needs("restore") is True
