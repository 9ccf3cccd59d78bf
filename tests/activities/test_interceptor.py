"""What every activity gets, seen through the interceptor's own seams."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from typing import Any, cast

import pytest
from temporalio import activity
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, DefaultPayloadConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ActivityOutboundInterceptor, ExecuteActivityInput

from activities import interceptor as module
from activities.context import about, bound
from activities.fence import check
from activities.interceptor import ActivityInterceptor
from activities.polling import worker_stops
from contracts.network import Scope
from contracts.storage import WaitForClaim
from telemetry.logs import Bind
from tests.activities.conftest import settings
from tests.activities.temporal import Temporal
from tests.activities.test_errors import aws_error

REQUEST = WaitForClaim(
    scope=Scope(cluster="demo", region="us-west-2", created_by="tests", request_id="req-9"),
    eks_cluster="e",
    claim="c",
    namespace="default",
)


class Root(ActivityInboundInterceptor):
    """The end of the chain: runs the function, and keeps what is heartbeat."""

    def __init__(self) -> None:
        self.beats: list[Any] = []

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self.outbound = outbound

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return await input.fn(self.outbound, *input.args)


class Outbound(ActivityOutboundInterceptor):
    def __init__(self, root: Root) -> None:
        self._root = root

    def info(self) -> activity.Info:
        return activity.info()

    def heartbeat(self, *details: Any) -> None:
        self._root.beats.append(details)


async def execute(function: Any, **info: Any) -> Root:
    root = Root()
    chain = ActivityInterceptor(cast(Any, Temporal()), settings()).intercept_activity(root)
    chain.init(Outbound(root))
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, **{"workflow_id": "create-cluster/demo", **info})

    async def run() -> None:
        await chain.execute_activity(ExecuteActivityInput(fn=function, args=[REQUEST], executor=None, headers={}))

    await environment.run(run)
    return root


async def test_a_thread_that_an_attempt_leaves_behind_acts_no_more() -> None:
    acted, over = threading.Event(), threading.Event()
    left: list[asyncio.Task[None]] = []

    def act() -> None:
        check()
        acted.set()
        assert over.wait(30)
        check()

    async def waits(outbound: Any, request: WaitForClaim) -> None:
        left.append(asyncio.create_task(asyncio.to_thread(act)))
        assert await asyncio.to_thread(acted.wait, 30)
        raise worker_stops()

    with pytest.raises(ApplicationError, match="the worker stops"):
        await execute(waits)
    over.set()
    with pytest.raises(ApplicationError, match="attempt has ended"):
        await left[0]


async def test_errors_are_classified() -> None:
    async def refused(outbound: Any, request: Any) -> None:
        raise aws_error("AccessDeniedException", 403)

    with pytest.raises(ApplicationError) as caught:
        await execute(refused)
    assert (caught.value.type, caught.value.non_retryable) == ("denied", True)


async def test_what_an_error_said_reaches_no_history_as_it_was() -> None:
    async def refused(outbound: Any, request: Any) -> None:
        raise ConnectionError("no answer to Bearer k8s-aws-v1.c2VjcmV0")

    with pytest.raises(ApplicationError) as caught:
        await execute(refused)
    failure = Failure()
    DefaultFailureConverter().to_failure(caught.value, DefaultPayloadConverter(), failure)
    assert b"c2VjcmV0" not in failure.SerializeToString()


async def test_a_silent_activity_is_heard_and_loses_no_details(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.01)

    async def silent(outbound: Any, request: Any) -> None:
        await asyncio.sleep(0.05)
        outbound.heartbeat({"polls": 8})
        await asyncio.sleep(0.05)

    root = await execute(silent, heartbeat_details=[{"polls": 7}])
    assert root.beats[0] == ({"polls": 7},)
    assert root.beats[-1] == ({"polls": 8},)
    assert len(root.beats) > 3


async def test_logs_say_for_whom() -> None:
    record = logging.makeLogRecord({})

    async def logs(outbound: Any, request: Any) -> None:
        Bind(about).filter(record)
        assert bound.get().request_id == "req-9"

    await execute(logs)
    assert (record.cluster, record.operation) == ("demo", "create-cluster/demo")  # type: ignore[attr-defined]
