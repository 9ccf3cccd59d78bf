"""Answers to operations: the user's own through forms, the agent's through arguments, and who may give which."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from tests.api.conftest import Eventually, Gateway, Name
from tests.mcp.conftest import Begin, Connect, answered, refused
from tests.mcp.people import MODES, User


async def result_of(gateway: Gateway, eventually: Eventually, operation: str) -> dict[str, Any]:
    url = f"/api/v1/operations/{operation}"
    done = await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "succeeded")
    return dict(done.json()["result"])


@MODES
async def test_the_user_chooses_in_a_form_from_what_there_is(
    connect: Connect, gateway: Gateway, begin: Begin, eventually: Eventually, mode: str
) -> None:
    operation = await begin("choose")
    user = User({"instance_type": "ml.g6.8xlarge", "count": 2, "capacity": '{"kind": "spot"}'})
    async with connect(mode=mode, elicitation_callback=user) as client:
        await answered(client, "operation_decide", operation=operation)
    assert user.asked[0].message == "Which capacity?"
    assert user.fields["availability_zone"]["enum"] == ["us-west-2a", "us-west-2b", "us-west-2z"]
    assert user.fields["capacity"]["enum"] == ['{"kind": "on-demand"}', '{"kind": "spot"}']
    assert user.fields["count"]["type"] == "integer"
    assert user.fields["count"]["default"] == 1
    result = await result_of(gateway, eventually, operation)
    assert result["answer"] == {
        "instance_type": "ml.g6.8xlarge",
        "count": 2,
        "availability_zone": "us-west-2a",
        "capacity": {"kind": "spot"},
    }
    assert result["by"] == "operator-1"


@MODES
async def test_a_user_who_says_nothing_new_takes_the_default(
    connect: Connect, gateway: Gateway, begin: Begin, eventually: Eventually, mode: str
) -> None:
    operation = await begin("choose")
    async with connect(mode=mode, elicitation_callback=User({})) as client:
        await answered(client, "operation_decide", operation=operation)
    assert (await result_of(gateway, eventually, operation))["answer"] == {
        "instance_type": "ml.g5.8xlarge",
        "count": 1,
        "availability_zone": "us-west-2a",
        "capacity": {"kind": "on-demand"},
    }


@MODES
@pytest.mark.parametrize(
    ("first", "said", "meant"),
    [
        ("short", {"remedy": '{"count": 2, "kind": "fewer"}'}, {"remedy": {"kind": "fewer", "count": 2}}),
        ("drain", {"choice": "go-on"}, {"choice": "go-on"}),
    ],
)
async def test_what_to_do_about_a_shortage_or_a_drain_is_chosen_in_a_form(
    connect: Connect,
    gateway: Gateway,
    begin: Begin,
    eventually: Eventually,
    mode: str,
    first: str,
    said: dict[str, Any],
    meant: dict[str, Any],
) -> None:
    operation = await begin(first)
    user = User(said)
    async with connect(mode=mode, elicitation_callback=user) as client:
        await answered(client, "operation_decide", operation=operation)
    assert user.asked[0].requested_schema["required"] == list(said)
    assert (await result_of(gateway, eventually, operation))["answer"] == meant


@MODES
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_who_does_not_answer_leaves_the_question_open(
    connect: Connect, begin: Begin, mode: str, action: Any
) -> None:
    operation = await begin("choose")

    async def no(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action=action)

    async with connect(mode=mode, elicitation_callback=no) as client:
        told = await refused(client, "operation_decide", operation=operation)
        assert told["problem"]["code"] == "denied"
        assert "the question stays" in told["problem"]["detail"]
        now = await answered(client, "operation_get", operation=operation)
    assert now["operation"]["phase"] == "waiting_for_decision"


@MODES
async def test_a_combination_that_does_not_exist_is_refused_at_its_field_and_asked_again(
    connect: Connect, gateway: Gateway, begin: Begin, eventually: Eventually, mode: str
) -> None:
    operation = await begin("choose")
    user = User({"availability_zone": "us-west-2z"}, {"availability_zone": "us-west-2b"})
    async with connect(mode=mode, elicitation_callback=user) as client:
        told = await refused(client, "operation_decide", operation=operation)
        assert told["problem"]["field"] == "/answer/availability_zone"
        assert told["next"]["tool"] == "operation_decide"
        await answered(client, "operation_decide", operation=operation)
    assert len(user.asked) == 2
    assert (await result_of(gateway, eventually, operation))["answer"]["availability_zone"] == "us-west-2b"


@MODES
async def test_a_client_without_forms_gets_the_question_with_its_options(
    connect: Connect, gateway: Gateway, begin: Begin, eventually: Eventually, mode: str
) -> None:
    operation = await begin("short")
    async with connect(mode=mode) as client:
        told = await refused(client, "operation_decide", operation=operation)
        assert told["problem"]["field"] == "/answer"
        assert "Two of four instances came. What now?" in told["problem"]["detail"]
        assert json.dumps({"kind": "fewer", "count": 2}) in told["problem"]["detail"]
        assert told["next"] == {"tool": "operation_get", "arguments": {"operation": operation}} | {
            "why": told["next"]["why"]
        }
        await answered(client, "operation_decide", operation=operation, answer={"remedy": {"kind": "wait"}})
    assert (await result_of(gateway, eventually, operation))["answer"] == {"remedy": {"kind": "wait"}}


async def test_an_answer_that_the_agent_brings_asks_nobody(connect: Connect, begin: Begin) -> None:
    operation = await begin("drain")
    user = User()
    async with connect(elicitation_callback=user) as client:
        await answered(client, "operation_decide", operation=operation, answer={"choice": "wait"})
    assert user.asked == []


@MODES
async def test_the_first_valid_answer_wins_between_two_clients(
    connect: Connect, gateway: Gateway, begin: Begin, eventually: Eventually, mode: str
) -> None:
    operation = await begin("drain")

    async def overtaken() -> dict[str, Any]:
        async with connect("admin", mode=mode, elicitation_callback=User({"choice": "go-on"})) as other:
            await answered(other, "operation_decide", operation=operation)
        await result_of(gateway, eventually, operation)
        return {"choice": "stop"}

    async with connect(mode=mode, elicitation_callback=User(overtaken)) as client:
        told = await refused(client, "operation_decide", operation=operation)
    assert told["problem"]["code"] == "conflict"
    assert told["next"]["tool"] == "operation_get"
    assert (await result_of(gateway, eventually, operation)) == {
        "cluster": "made",
        "answer": {"choice": "go-on"},
        "by": "admin-1",
    }


async def test_what_asks_nothing_cannot_be_answered(connect: Connect, begin: Begin) -> None:
    operation = await begin("run", "running")
    async with connect(elicitation_callback=User()) as client:
        told = await refused(client, "operation_decide", operation=operation)
    assert told["problem"]["code"] == "conflict"
    assert told["problem"]["operation"] == operation


async def test_a_blocked_stage_is_retried_with_corrections_and_the_attempt_that_was_shown(
    connect: Connect, begin: Begin, eventually: Eventually
) -> None:
    operation = await begin("block", "blocked")
    corrections = {"network": {"vpc_id": "vpc-12345678"}}
    async with connect() as client:
        await answered(
            client, "operation_retry", operation=operation, stage="nodes", attempt=1, corrections=corrections
        )
        now = await eventually(
            lambda: answered(client, "operation_get", operation=operation),
            lambda seen: seen["operation"]["stages"][1]["attempt"] == 2,
        )
        assert "operation_retry" in now["next"]
        stale = await refused(client, "operation_retry", operation=operation, stage="nodes", attempt=1)
        assert stale["problem"]["code"] == "conflict"
        wrong = {"network": {"vpc_cidr": "10.0.0.0/8"}}
        told = await refused(client, "operation_retry", operation=operation, corrections=wrong)
        assert "/corrections/network/vpc_cidr" in [error["field"] for error in told["problem"]["errors"]]


async def test_an_abort_ends_the_operation_and_its_reason_is_kept(
    connect: Connect, begin: Begin, gateway: Gateway
) -> None:
    operation = await begin("block", "blocked")
    async with connect() as client:
        await answered(client, "operation_abort", operation=operation, reason="not worth it")
        ended = await answered(client, "operation_wait", operation=operation, timeout_seconds=20)
        assert (ended["operation"]["phase"], ended["ended"]) == ("aborted", True)
        again = await refused(client, "operation_abort", operation=operation)
    assert again["problem"]["code"] == "conflict"


async def asked_by_an_agent(client: Client, name: Name) -> dict[str, Any]:
    return await answered(client, "cluster_create", tag=name("run"))


async def test_what_an_agent_asks_for_waits_for_a_person_and_the_answer_says_so(
    connect: Connect, name: Name, eventually: Eventually
) -> None:
    async with connect("agent") as agent, connect("operator") as operator:
        started = await asked_by_an_agent(agent, name)
        operation = started["operation"]
        assert started["phase"] in ("queued", "running", "waiting_for_approval")
        now = await eventually(
            lambda: answered(agent, "operation_get", operation=operation),
            lambda seen: seen["operation"]["phase"] == "waiting_for_approval",
        )
        plan_hash = now["operation"]["plan_hash"]
        assert "a person must approve" in now["next"]
        assert plan_hash in now["next"]
        for tool, arguments in (("operation_approve", {"plan_hash": plan_hash}), ("operation_reject", {})):
            told = await refused(agent, tool, operation=operation, **arguments)
            assert told["problem"]["status"] == 403
        other = await refused(operator, "operation_approve", operation=operation, plan_hash="another")
        assert other["problem"]["field"] == "/plan_hash"
        await answered(operator, "operation_approve", operation=operation, plan_hash=plan_hash)
        await eventually(
            lambda: answered(agent, "operation_get", operation=operation),
            lambda seen: seen["operation"]["phase"] == "running",
        )


async def test_what_a_person_rejects_ends_without_a_change(
    connect: Connect, name: Name, eventually: Eventually, begin: Begin
) -> None:
    operation = await begin("run", "waiting_for_approval", by="agent")
    async with connect("operator") as operator, connect("agent") as agent:
        await answered(operator, "operation_reject", operation=operation, reason="too much")
        ended = await answered(agent, "operation_wait", operation=operation, timeout_seconds=20)
    assert ended["operation"]["phase"] == "aborted"


async def test_a_stage_that_is_needed_cannot_be_skipped_and_an_agent_may_not_skip_at_all(
    connect: Connect, begin: Begin
) -> None:
    operation = await begin("block", "blocked")
    async with connect("operator") as operator, connect("agent") as agent:
        assert (
            "cannot be skipped" in (await refused(operator, "operation_skip", operation=operation))["problem"]["detail"]
        )
        assert (await refused(agent, "operation_skip", operation=operation))["problem"]["code"] == "denied"
