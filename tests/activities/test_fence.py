"""What Temporal has given up acts no more."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio import activity, workflow
from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities import fence as module
from activities import interceptor
from activities.fence import Fence, check, fence, guarded
from activities.interceptor import ActivityInterceptor
from activities.registry import Activities
from tests.activities.conftest import REGION, Sandbox, problem
from tests.activities.temporal import GONE, Temporal

HEARTBEAT = timedelta(seconds=1)


@workflow.defn(name="test-acting")
class Acting:
    """Has one effect; an attempt that is silent for a second is given up."""

    @workflow.run
    async def run(self) -> str:
        allocated: str = await workflow.execute_activity(
            "test.allocate",
            start_to_close_timeout=timedelta(minutes=1),
            heartbeat_timeout=HEARTBEAT,
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=3),
            result_type=str,
        )
        return allocated


class Frozen:
    """Its first attempt stands still, between looking and acting, until the second has acted."""

    def __init__(self, act: Callable[[], str]) -> None:
        self._act = act
        self.acted, self.thawed = threading.Event(), threading.Event()
        self.first: list[str | ApplicationError] = []

    @activity.defn(name="test.allocate", no_thread_cancel_exception=True)
    def allocate(self) -> str:
        if activity.info().attempt > 1:
            made = self._act()
            self.acted.set()
            return made
        assert self.acted.wait(30)
        try:
            self.first.append(self._act())
        except ApplicationError as error:
            self.first.append(error)
            raise
        finally:
            self.thawed.set()
        return "unreachable"


async def test_an_attempt_that_stood_still_until_another_took_its_place_allocates_no_second_address(
    dev_server: WorkflowEnvironment, activities: Activities, quiet: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptor, "HEARTBEAT_SECONDS", 60.0)
    clients = activities.aws
    frozen = Frozen(lambda: str(clients.act.ec2(REGION).allocate_address(Domain="vpc")["AllocationId"]))
    before, queue, client = quiet.mark(), f"fence-{uuid.uuid4()}", dev_server.client
    with ThreadPoolExecutor(2) as threads:
        async with Worker(
            client,
            task_queue=queue,
            workflows=[Acting],
            activities=[frozen.allocate],
            activity_executor=threads,
            interceptors=[ActivityInterceptor(client)],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ):
            made = await client.execute_workflow(Acting.run, id=queue, task_queue=queue)
            assert await asyncio.to_thread(frozen.thawed.wait, 30)
    (refused,) = frozen.first
    assert isinstance(refused, ApplicationError), refused
    assert "given this attempt up" in str(refused)
    (effect,) = quiet.effects("AllocateAddress", since=before)
    assert made.startswith("eipalloc-")
    clients.act.ec2(REGION).release_address(AllocationId=made)
    assert effect["operation"] == "AllocateAddress"


async def beside(temporal: Temporal, *acts: Callable[[], Any]) -> None:
    """Each act in a thread, behind the fence of one attempt."""
    info = ActivityEnvironment.default_info()
    fence.set(Fence(cast(Client, temporal), info, lambda: ({"polls": 3},)))
    try:
        for act in acts:
            await asyncio.to_thread(act)
    finally:
        fence.set(None)


AWAY = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (GONE, "given this attempt up"),
        (AWAY, "does not say whether this attempt still counts: UNAVAILABLE"),
        (AsyncActivityCancelledError(), "is being cancelled"),
    ],
)
async def test_who_is_not_told_to_go_on_sends_nothing_and_may_be_tried_again(answer: Exception, words: str) -> None:
    sent: list[str] = []
    with pytest.raises(ApplicationError) as caught:
        await beside(Temporal(answer), lambda: guarded(lambda method: sent.append(method))("PATCH"))
    assert words in problem(caught).detail
    assert (problem(caught).code, caught.value.non_retryable, sent) == ("unavailable", False, [])


async def test_an_answer_that_comes_too_late_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.02)
    temporal = Temporal(None, GONE, late=0.05)
    with pytest.raises(ApplicationError, match="given this attempt up"):
        await beside(temporal, check)
    assert len(temporal.heard) == 2


async def test_an_answer_is_good_for_a_while_of_its_attempt_and_asking_repeats_the_newest_details() -> None:
    temporal = Temporal()
    await beside(temporal, check, check, check)
    assert temporal.heard == [({"polls": 3},)]
    await beside(temporal, check)
    assert len(temporal.heard) == 2


async def test_who_was_told_to_go_on_and_then_stood_still_is_told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.2)
    with pytest.raises(ApplicationError, match="given this attempt up"):
        await beside(Temporal(None, GONE), check, lambda: time.sleep(0.3), check)


async def test_what_only_reads_asks_nobody() -> None:
    temporal, sent = Temporal(GONE), list[str]()
    await beside(temporal, lambda: guarded(lambda method: sent.append(method))("GET"))
    assert (temporal.heard, sent) == ([], ["GET"])


async def test_acting_in_the_event_loop_is_a_mistake_that_shows() -> None:
    fence.set(Fence(cast(Client, Temporal()), ActivityEnvironment.default_info(), tuple))
    try:
        with pytest.raises(RuntimeError, match="in a thread"):
            check()
    finally:
        fence.set(None)
