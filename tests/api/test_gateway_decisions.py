"""Deciding: first valid answer wins, stale and unfounded ones are refused, roles are kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from tests.api.conftest import Eventually, Gateway, MakeCluster, Name


async def begun(gateway: Gateway, eventually: Eventually, tag: str, phase: str) -> str:
    answer = await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    assert answer.status_code == 202, answer.text
    url = f"/api/v1/operations/create-cluster/{tag}"
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == phase and r.json()["stages"])
    return url


async def test_a_valid_answer_moves_the_operation_on(gateway: Gateway, name: Name, eventually: Eventually) -> None:
    url = await begun(gateway, eventually, name("ask"), "waiting_for_decision")
    answer = await gateway.operator.post(f"{url}/decide", json={"answer": {"instance_type": "ml.g5.8xlarge"}})
    assert answer.status_code == 202, answer.text
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "succeeded")


async def test_an_invalid_answer_is_refused_before_it_reaches_the_workflow(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    url = await begun(gateway, eventually, name("ask"), "waiting_for_decision")
    answer = await gateway.operator.post(f"{url}/decide", json={"answer": {"instance_type": "x", "count": 0}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "/answer/count"
    other = await gateway.operator.post(f"{url}/decide", json={"decision": "colour", "answer": {}})
    assert other.status_code == 409


async def test_a_refusal_of_the_workflow_is_passed_on_with_pointers_into_the_body(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    url = await begun(gateway, eventually, name("ask"), "waiting_for_decision")
    body = {"answer": {"instance_type": "ml.g5.8xlarge", "availability_zone": "us-west-2z"}}
    answer = await gateway.operator.post(f"{url}/decide", json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == "/answer/availability_zone"
    assert answer.json()["instance"] == f"{url}/decide"


async def test_a_retry_answers_the_only_blocked_stage_and_its_last_attempt(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    url = await begun(gateway, eventually, name("block"), "blocked")
    assert (await gateway.viewer.get(url)).json()["problem"]["code"] == "capacity"
    stale = await gateway.operator.post(f"{url}/retry", json={"attempt": 7})
    assert stale.status_code == 409
    unknown = await gateway.operator.post(f"{url}/retry", json={"stage": "roof"})
    assert unknown.json()["field"] == "/stage"
    done = await gateway.operator.post(f"{url}/retry", json={"stage": "network"})
    assert done.status_code == 409
    assert (await gateway.operator.post(f"{url}/retry")).status_code == 202
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "succeeded")


async def test_a_correction_that_the_operation_refuses_is_a_problem_with_its_fields(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    url = await begun(gateway, eventually, name("block"), "blocked")
    bad = await gateway.operator.post(f"{url}/retry", json={"corrections": {"network": {"vpc_cidr": "10.0.0.0/8"}}})
    assert bad.status_code == 422
    assert bad.json()["errors"][0]["field"] == "/corrections/network/vpc_cidr"
    good = await gateway.operator.post(f"{url}/retry", json={"corrections": {"network": {"vpc_id": "vpc-12345678"}}})
    assert good.status_code == 202, good.text
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["stages"][1]["attempt"] == 2)
    clash = await gateway.operator.post(f"{url}/retry", json={"corrections": {"network": {"vpc_cidr": "10.5.0.0/16"}}})
    assert clash.json()["errors"][0]["field"] == "/corrections/network/vpc_id"


async def test_a_stage_that_is_needed_cannot_be_skipped(gateway: Gateway, name: Name, eventually: Eventually) -> None:
    url = await begun(gateway, eventually, name("block"), "blocked")
    answer = await gateway.operator.post(f"{url}/skip")
    assert answer.status_code == 409
    assert "cannot be skipped" in answer.json()["detail"]


async def test_an_ended_operation_refuses_decisions_with_its_phase(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    url = await begun(gateway, eventually, name("run"), "running")
    assert (await gateway.operator.post(f"{url}/abort", json={"reason": "enough"})).status_code == 202
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "aborted")
    for action in ("abort", "retry"):
        answer = await gateway.operator.post(f"{url}/{action}")
        assert answer.status_code == 409
        assert "ended: aborted" in answer.json()["detail"]


async def test_a_repeated_decision_with_its_key_is_not_carried_out_twice(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    url = await begun(gateway, eventually, name("block"), "blocked")
    headers = {"Idempotency-Key": name("key")}
    body = {"corrections": {"network": {"vpc_id": "vpc-12345678"}}}
    assert (await gateway.operator.post(f"{url}/retry", json=body, headers=headers)).status_code == 202
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["stages"][1]["attempt"] == 2)
    again = await gateway.operator.post(f"{url}/retry", json=body, headers=headers)
    assert again.status_code == 202
    assert again.json()["stages"][1]["attempt"] == 2
    other = await gateway.operator.post(f"{url}/retry", json={}, headers=headers)
    assert other.status_code == 422
    assert other.json()["field"] == "/Idempotency-Key"


async def test_what_costs_waits_for_a_human_when_an_agent_asks(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    url = await begun_by_agent(gateway, eventually, name("run"))
    operation = (await gateway.viewer.get(url)).json()
    for client, status in ((gateway.agent, 403), (gateway.viewer, 403)):
        answer = await client.post(f"{url}/approve", json={"plan_hash": operation["plan_hash"]})
        assert answer.status_code == status
    other_plan = await gateway.operator.post(f"{url}/approve", json={"plan_hash": "0" * 16})
    assert other_plan.status_code == 409
    body = {"plan_hash": operation["plan_hash"]}
    refused = await gateway.operator.post(f"{url}/approve", json={**body, "reason": "refuse me"})
    assert refused.status_code == 409
    assert refused.json()["detail"] == "the workflow refuses"
    assert (await gateway.operator.post(f"{url}/approve", json=body)).status_code == 202
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "running")
    late = await gateway.operator.post(f"{url}/approve", json=body)
    assert late.status_code == 409


async def begun_by_agent(gateway: Gateway, eventually: Eventually, tag: str) -> str:
    answer = await gateway.agent.post("/api/v1/clusters", json={"tag": tag})
    assert answer.json()["phase"] == "waiting_for_approval"
    url = f"/api/v1/operations/create-cluster/{tag}"
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["stages"])
    return url


async def test_a_rejected_operation_ends_untouched(gateway: Gateway, name: Name, eventually: Eventually) -> None:
    url = await begun_by_agent(gateway, eventually, name("run"))
    assert (await gateway.operator.post(f"{url}/reject", json={"reason": "no"})).status_code == 202
    ended = await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "aborted")
    assert {stage["state"] for stage in ended.json()["stages"]} == {"pending"}


async def test_what_costs_nothing_starts_at_once_for_an_agent(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    answer = await gateway.agent.post(f"/api/v1/clusters/{tag}/access")
    assert answer.json()["phase"] == "running"


async def test_an_agent_decides_only_on_what_it_started_and_never_changes_an_approved_plan(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    theirs = await begun(gateway, eventually, name("block"), "blocked")
    for action in ("retry", "abort"):
        assert (await gateway.agent.post(f"{theirs}/{action}")).status_code == 403
    assert (await gateway.agent.post(f"{theirs}/skip")).status_code == 403
    own = await begun_by_agent(gateway, eventually, name("block"))
    plan = (await gateway.viewer.get(own)).json()["plan_hash"]
    await gateway.operator.post(f"{own}/approve", json={"plan_hash": plan})
    await eventually(lambda: gateway.viewer.get(own), lambda r: r.json()["phase"] == "blocked")
    changed = await gateway.agent.post(f"{own}/retry", json={"corrections": {"kubernetes_version": "1.33"}})
    assert changed.status_code == 403
    assert (await gateway.agent.post(f"{own}/retry")).status_code == 202


@pytest.mark.parametrize(
    ("first", "costly", "harmless"),
    [
        ("choose", {"instance_type": "ml.g6.8xlarge", "count": 4}, None),
        ("short", {"remedy": {"kind": "type", "instance_type": "ml.g6.8xlarge"}}, {"remedy": {"kind": "wait"}}),
        ("drain", {"choice": "go-on"}, {"choice": "stop"}),
    ],
)
async def test_an_agent_answers_only_what_buys_and_ends_nothing_beyond_the_approved_plan(
    gateway: Gateway,
    name: Name,
    eventually: Eventually,
    first: str,
    costly: dict[str, Any],
    harmless: dict[str, Any] | None,
) -> None:
    url = await begun_by_agent(gateway, eventually, name(first))
    plan = (await gateway.viewer.get(url)).json()["plan_hash"]
    await gateway.operator.post(f"{url}/approve", json={"plan_hash": plan})
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["decision"])
    refused = await gateway.agent.post(f"{url}/decide", json={"answer": costly})
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    assert (await gateway.viewer.get(url)).json()["decision"]
    who = gateway.operator if harmless is None else gateway.agent
    assert (await who.post(f"{url}/decide", json={"answer": harmless or costly})).status_code == 202


async def test_two_answers_at_once_are_both_answered_and_one_counts(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    url = await begun(gateway, eventually, name("ask"), "waiting_for_decision")
    body = {"answer": {"instance_type": "ml.g5.8xlarge"}}
    answers = await asyncio.gather(*(gateway.operator.post(f"{url}/decide", json=body) for _ in range(2)))
    assert {answer.status_code for answer in answers} <= {202, 409}
    assert 202 in {answer.status_code for answer in answers}
