"""Calling models through the gateway: whole answers, streams, refusals, and callers who leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from contracts import queues
from contracts.inference import (
    CALL_MODEL,
    LIST_SERVICES,
    CallModel,
    InferenceService,
    ListServices,
    ModelAnswer,
    Serves,
    ServicesRead,
    Written,
)
from contracts.problem import ProblemCode
from tests.api.conftest import Gateway, MakeCluster
from tests.api.fake_readings import refuse

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
QWEN = InferenceService(
    namespace="default",
    name="qwen",
    serves=Serves.DEPLOYMENT,
    type="ClusterIP",
    port=8000,
    ready=1,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    managed=True,
)


@dataclass
class FakeModels:
    """Writes one word after another, each when it is let; ``silent`` never writes."""

    asked: list[CallModel] = field(default_factory=list)
    words: list[str] = field(default_factory=lambda: ["once ", "upon ", "a time"])
    next_word: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @activity.defn(name=CALL_MODEL.name)
    async def call(self, request: CallModel) -> ModelAnswer:
        self.asked.append(request)
        if request.service == "absent":
            raise refuse(ProblemCode.NOT_FOUND, "namespace default has no Service absent; it has qwen")
        text = ""
        try:
            for word in self.words:
                if request.request.stream:
                    await self._let(text)
                text += word
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ModelAnswer(
            namespace=request.namespace, service=request.service, model="m", text=text, completion_tokens=3, seconds=0.1
        )

    async def _let(self, text: str) -> None:
        while self.next_word.locked():
            activity.heartbeat(Written(model="m", text=text).model_dump(mode="json"))
            await asyncio.sleep(0.05)
        await self.next_word.acquire()

    @activity.defn(name=LIST_SERVICES.name)
    async def services(self, request: ListServices) -> ServicesRead:
        found = [] if request.public else [QWEN]
        return ServicesRead(services=found, read_at=datetime.now(UTC))


@pytest_asyncio.fixture(loop_scope="session")
async def models(temporal: Client) -> AsyncIterator[FakeModels]:
    fake = FakeModels()
    telling = timedelta(milliseconds=50)
    async with (
        Worker(
            temporal,
            task_queue=queues.WAIT,
            activities=[fake.call],
            max_heartbeat_throttle_interval=telling,
            default_heartbeat_throttle_interval=telling,
        ),
        Worker(temporal, task_queue=queues.KUBERNETES, activities=[fake.services]),
    ):
        yield fake


async def path_of(make_cluster: MakeCluster) -> str:
    return f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/services"


async def test_services_are_listed_all_or_the_public_ones(
    gateway: Gateway, make_cluster: MakeCluster, models: FakeModels
) -> None:
    path = await path_of(make_cluster)
    found = (await gateway.viewer.get(path)).json()
    assert [(each["name"], each["serves"], each["port"]) for each in found["services"]] == [
        ("qwen", "deployment", 8000)
    ]
    assert (await gateway.viewer.get(path, params={"public": "true"})).json()["services"] == []


async def test_a_model_answers_whole_and_gets_just_what_was_asked(
    gateway: Gateway, make_cluster: MakeCluster, models: FakeModels
) -> None:
    path = await path_of(make_cluster)
    body = {"prompt": "Tell me.", "max_tokens": 9, "parameters": {"top_p": 0.5}}
    answer = await gateway.operator.post(f"{path}/qwen/invocations", json=body, params={"namespace": "ml"})
    assert (answer.status_code, answer.json()["text"]) == (200, "once upon a time")
    (asked,) = models.asked
    assert (asked.namespace, asked.service, asked.request.max_tokens) == ("ml", "qwen", 9)
    assert asked.request.parameters == {"top_p": 0.5}


async def test_a_stream_brings_each_word_as_it_is_written_and_then_the_answer(
    gateway: Gateway, make_cluster: MakeCluster, models: FakeModels
) -> None:
    path = await path_of(make_cluster)
    body = {"prompt": "Tell me.", "stream": True}
    events: list[tuple[str, Any]] = []
    async with gateway.operator.stream("POST", f"{path}/qwen/invocations", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        models.next_word.release()
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                events.append((name, json.loads(line[5:])))
                if len(events) == 1:
                    # The second word is let only when the first has come through.
                    models.next_word.release()
                    models.next_word.release()
    assert events[0] == ("text", {"delta": "once "})
    assert "".join(told["delta"] for name, told in events if name == "text") == "once upon a time"
    assert events[-1][0] == "end"
    assert events[-1][1]["completion_tokens"] == 3


async def test_a_caller_who_leaves_ends_the_call(
    gateway: Gateway, make_cluster: MakeCluster, models: FakeModels
) -> None:
    path = await path_of(make_cluster)
    async with gateway.operator.stream(
        "POST", f"{path}/qwen/invocations", json={"prompt": "Tell me.", "stream": True}
    ) as answer:
        models.next_word.release()
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                break
    async with asyncio.timeout(60):
        await models.cancelled.wait()


async def test_a_refusal_is_a_problem_also_in_a_stream(
    gateway: Gateway, make_cluster: MakeCluster, models: FakeModels
) -> None:
    path = await path_of(make_cluster)
    whole = await gateway.operator.post(f"{path}/absent/invocations", json={"prompt": "x"})
    assert (whole.status_code, whole.json()["code"]) == (404, "not_found")
    assert "it has qwen" in whole.json()["detail"]
    streamed = await gateway.operator.post(f"{path}/absent/invocations", json={"prompt": "x", "stream": True})
    assert "event: problem" in streamed.text
    assert '"code":"not_found"' in streamed.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "/prompt"),
        ({"prompt": "x", "messages": [{"role": "user", "content": "y"}]}, "/prompt"),
        ({"messages": [{"role": "user", "content": "y"}], "api": "completions"}, "/messages"),
        ({"prompt": "x", "max_tokens": 0}, "/max_tokens"),
        ({"prompt": "x", "temperature": 3}, "/temperature"),
        ({"prompt": "x", "parameters": {"stream": True}}, "/parameters/stream"),
        ({"messages": [{"role": "robot", "content": "y"}]}, "/messages/0/role"),
    ],
)
async def test_what_no_model_could_be_asked_is_refused_with_its_field(
    gateway: Gateway, make_cluster: MakeCluster, models: FakeModels, body: dict[str, Any], field: str
) -> None:
    answer = await gateway.operator.post(f"{await path_of(make_cluster)}/qwen/invocations", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert models.asked == []


async def test_viewers_call_no_models(gateway: Gateway, make_cluster: MakeCluster, models: FakeModels) -> None:
    answer = await gateway.viewer.post(f"{await path_of(make_cluster)}/qwen/invocations", json={"prompt": "x"})
    assert answer.status_code == 403
    assert models.asked == []
