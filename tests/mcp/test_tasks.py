"""Operations as tasks of the protocol's extension: a client that knows tasks needs no tool of ours to follow one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import pytest
from mcp import MCPError
from mcp.client import advertise
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import CallToolResult, Request, RequestParams, Result, TextContent
from pydantic import ConfigDict

from mcp_server.tasks import IDENTIFIER
from tests.api.conftest import Eventually, Gateway, MakeCluster, Name
from tests.mcp.conftest import Begin, Connect, answered
from tests.mcp.people import User


class Params(RequestParams):
    """Of every request about a task."""

    model_config = ConfigDict(extra="allow")
    task_id: str


class AboutTask(Request[Params, str]):
    """A request about a task; its ID goes into a header, too."""

    name_param: ClassVar[str | None] = "taskId"


class Anything(Result):
    """Whatever is answered."""

    model_config = ConfigDict(extra="allow")


class TaskCreated(Result):
    """How a call is answered that goes on as a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str


async def ask(session: Any, method: str, task: str, **params: Any) -> dict[str, Any]:
    """What the server answers to a request about a task, as it came."""
    request = AboutTask(method=method, params=Params(task_id=task, **params))
    answer: Anything = await session.send_request(request, Anything)
    return answer.model_dump(mode="json", by_alias=True)


class Tasks(ClientExtension):
    """A client's side: polls until the end, and shows its user what is asked."""

    identifier = IDENTIFIER
    patience = 0.05
    """Seconds between two polls at most."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = list(answers)
        self.seen: list[dict[str, Any]] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=TaskCreated, resolve=self._resolve)]

    async def _resolve(self, created: TaskCreated, context: ClaimContext) -> CallToolResult:
        answered: set[str] = set()
        while True:
            task = await ask(context.session, "tasks/get", created.task_id)
            self.seen.append(task)
            for key in set(task.get("inputRequests", {})) - answered:
                answered.add(key)
                said = {key: {"action": "accept", "content": self._answers.pop(0)}}
                await ask(context.session, "tasks/update", created.task_id, inputResponses=said)
            if task["status"] == "completed":
                return CallToolResult.model_validate(task["result"])
            assert task["status"] in ("working", "input_required")
            await asyncio.sleep(min(task["pollIntervalMs"] / 1000, self.patience))


FORMS: dict[str, Any] = {"elicitation_callback": User()}
"""What makes a client one with forms; in tasks, it never gets to be called by the server."""


async def test_a_call_that_starts_an_operation_ends_with_the_operations_end(
    connect_either: Connect, name: Name
) -> None:
    tasks = Tasks({"instance_type": "ml.g6.8xlarge", "count": 2})
    tag = name("choose")
    async with connect_either(extensions=[tasks], **FORMS) as client:
        assert IDENTIFIER in (client.server_capabilities.extensions or {})
        result = await client.call_tool("cluster_create", {"tag": tag})
    assert result.structured_content is not None
    assert (result.structured_content["operation"], result.structured_content["phase"]) == (
        f"create-cluster/{tag}",
        "succeeded",
    )
    (whole,) = result.content
    assert isinstance(whole, TextContent)
    assert json.loads(whole.text)["operation"]["result"]["answer"]["instance_type"] == "ml.g6.8xlarge"
    asked = next(task for task in tasks.seen if task["status"] == "input_required")
    (form,) = asked["inputRequests"].values()
    assert form["method"] == "elicitation/create"
    assert form["params"]["message"] == "Which capacity?"
    assert "enum" in form["params"]["requestedSchema"]["properties"]["instance_type"]
    assert {task["taskId"] for task in tasks.seen} == {f"create-cluster/{tag}"}
    assert {task["resultType"] for task in tasks.seen} == {"complete"}
    assert all("ttlMs" in task and task["ttlMs"] is None for task in tasks.seen)


async def test_a_blocked_stage_is_asked_about_and_retried(connect: Connect, name: Name) -> None:
    tasks = Tasks({"action": "retry"})
    async with connect(extensions=[tasks], **FORMS) as client:
        result = await client.call_tool("cluster_create", {"tag": name("block")})
    assert result.structured_content is not None
    assert result.structured_content["phase"] == "succeeded"
    asked = next(task for task in tasks.seen if task["status"] == "input_required")
    assert list(asked["inputRequests"]) == ["nodes#1"]
    assert "no capacity" in asked["inputRequests"]["nodes#1"]["params"]["message"]


async def test_a_confirmation_is_asked_for_before_there_is_a_task(connect: Connect, make_cluster: MakeCluster) -> None:
    tag = await make_cluster("drain")
    user, tasks = User({"confirm": True}), Tasks({"choice": "go-on"})
    call = {"cluster": tag, "group": "workers", "count": 0}
    async with connect(extensions=[tasks], elicitation_callback=user) as client:
        result = await client.call_tool("hyperpod_scale_instance_group", call)
    assert not result.is_error
    assert len(user.asked) == 1
    assert tasks.seen[-1]["taskId"] == f"scale-instance-group/{tag}/workers"


async def test_who_does_not_declare_tasks_never_meets_one(connect: Connect, begin: Begin, name: Name) -> None:
    operation = await begin("run", "running")
    async with connect() as client:
        assert (await answered(client, "cluster_create", tag=name("run")))["status_tool"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as refusal:
                await ask(client.session, method, operation, inputResponses={})
            assert refusal.value.error.code == -32021
            assert IDENTIFIER in refusal.value.error.data["requiredCapabilities"]["extensions"]


def declared(connect: Connect, role: str = "operator", **options: Any) -> Any:
    """A client that knows tasks and does with them what the test says."""
    return connect(role, extensions=[advertise(IDENTIFIER)], **options)


async def test_a_cancelled_task_is_an_aborted_operation(connect: Connect, begin: Begin, eventually: Eventually) -> None:
    operation = await begin("run", "running")
    async with declared(connect) as client:
        for _ in range(2):  # the second one has nothing to do
            await ask(client.session, "tasks/cancel", operation)
            task = await eventually(
                lambda: ask(client.session, "tasks/get", operation), lambda seen: seen["status"] == "cancelled"
            )
    assert "result" not in task


async def test_without_forms_the_question_is_told_and_the_task_works_on(connect: Connect, begin: Begin) -> None:
    operation = await begin("drain")
    async with declared(connect) as client:
        task = await ask(client.session, "tasks/get", operation)
    assert task["status"] == "working"
    assert "operation_decide" in task["statusMessage"]
    assert "inputRequests" not in task


async def test_an_approval_is_no_form_and_the_message_says_who_gives_it(connect: Connect, begin: Begin) -> None:
    operation = await begin("run", "waiting_for_approval", by="agent")
    async with declared(connect, "agent", **FORMS) as client:
        task = await ask(client.session, "tasks/get", operation)
    assert task["status"] == "working"
    assert "a person must approve" in task["statusMessage"]


async def test_only_what_is_asked_now_is_taken_and_what_does_not_fit_is_refused(
    connect: Connect, begin: Begin, gateway: Gateway, eventually: Eventually
) -> None:
    operation = await begin("choose")

    def accept(content: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": content}

    async with declared(connect, **FORMS) as client:
        (key,) = (await ask(client.session, "tasks/get", operation))["inputRequests"]
        ignored = {"capacity@2000-01-01T00:00:00+00:00": accept({"count": 9}), key: {"action": "decline"}}
        assert (await ask(client.session, "tasks/update", operation, inputResponses=ignored))[
            "resultType"
        ] == "complete"
        assert (await ask(client.session, "tasks/get", operation))["status"] == "input_required"
        for content, field in (
            ({"instance_type": "ml.none.8xlarge"}, "/instance_type"),
            ({"availability_zone": "us-west-2z"}, "/answer/availability_zone"),
        ):
            with pytest.raises(MCPError) as refusal:
                await ask(client.session, "tasks/update", operation, inputResponses={key: accept(content)})
            assert refusal.value.error.code == -32602
            assert refusal.value.error.data["errors"][0]["field"] == field
        await ask(client.session, "tasks/update", operation, inputResponses={key: accept({"count": 3})})
        done = await eventually(
            lambda: ask(client.session, "tasks/get", operation), lambda seen: seen["status"] == "completed"
        )
    whole = json.loads(done["result"]["content"][0]["text"])
    assert whole["operation"]["result"]["answer"]["count"] == 3


async def test_a_task_is_as_its_caller_may_see_it(connect: Connect, begin: Begin) -> None:
    operation = await begin("run", "running")
    async with declared(connect, "viewer") as viewer, declared(connect, "agent") as agent:
        assert (await ask(viewer.session, "tasks/get", operation))["status"] == "working"
        for client in (viewer, agent):
            with pytest.raises(MCPError) as refusal:
                await ask(client.session, "tasks/cancel", operation)
            assert refusal.value.error.data["code"] == "denied"
        with pytest.raises(MCPError) as unknown:
            await ask(viewer.session, "tasks/get", "create-cluster/never-was")
    assert unknown.value.error.code == -32602


async def test_a_failed_operation_is_a_completed_task_with_the_error_of_its_tool(
    connect: Connect, begin: Begin
) -> None:
    operation = await begin("crash", "failed")
    async with declared(connect) as client:
        task = await ask(client.session, "tasks/get", operation)
    assert (task["status"], task["result"]["isError"]) == ("completed", True)


async def test_older_clients_have_no_tasks(connect: Connect, begin: Begin, name: Name) -> None:
    operation = await begin("run", "running")
    async with declared(connect, mode="legacy") as client:
        assert (await answered(client, "cluster_create", tag=name("run")))["status_tool"]
        with pytest.raises(MCPError) as refusal:
            await ask(client.session, "tasks/get", operation)
    assert refusal.value.error.code == -32601
