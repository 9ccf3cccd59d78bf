"""A build gets work where its workers are there to take it."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.deployment.v1 import WorkerDeploymentVersionInfo
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    DescribeWorkerDeploymentRequest,
    DescribeWorkerDeploymentResponse,
    DescribeWorkerDeploymentVersionRequest,
    DescribeWorkerDeploymentVersionResponse,
    SetWorkerDeploymentRampingVersionRequest,
)

from temporal.running import Status
from worker import deployment
from worker.deployment import POLLER_AGE, Deployment, DeploymentFaultError

QUEUES = {
    "steps": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "calls": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}
NOW = timedelta()
LONG_AGO = POLLER_AGE + timedelta(seconds=5)


class Server:
    """Stands for Temporal: both queues are build ``two``'s, since its workers have polled them once."""

    namespace, identity = "default", "tests"

    def __init__(self, **polled: list[tuple[str, timedelta]]) -> None:
        """``polled``: for each queue the builds that polled it, and how long ago."""
        self.workflow_service = self
        self._polled = polled
        self.shares: list[tuple[str, float]] = []

    async def describe_worker_deployment_version(
        self, request: DescribeWorkerDeploymentVersionRequest, **_: Any
    ) -> DescribeWorkerDeploymentVersionResponse:
        infos = [
            WorkerDeploymentVersionInfo.VersionTaskQueueInfo(name=name, type=kind) for name, kind in QUEUES.items()
        ]
        found = WorkerDeploymentVersionInfo(task_queue_infos=infos)
        return DescribeWorkerDeploymentVersionResponse(worker_deployment_version_info=found)

    async def describe_task_queue(self, request: DescribeTaskQueueRequest, **_: Any) -> DescribeTaskQueueResponse:
        name = request.task_queue.name
        assert request.task_queue_type == QUEUES[name]
        pollers = []
        for build, ago in self._polled.get(name, ()):
            poller = PollerInfo()
            poller.deployment_options.deployment_name, poller.deployment_options.build_id = "instantstart", build
            poller.last_access_time.FromDatetime(datetime.now(UTC) - ago)
            pollers.append(poller)
        return DescribeTaskQueueResponse(pollers=pollers)

    async def describe_worker_deployment(
        self, request: DescribeWorkerDeploymentRequest, **_: Any
    ) -> DescribeWorkerDeploymentResponse:
        return DescribeWorkerDeploymentResponse()

    async def set_worker_deployment_ramping_version(
        self, request: SetWorkerDeploymentRampingVersionRequest, **_: Any
    ) -> None:
        self.shares.append((request.build_id, request.percentage))


async def complete(server: Any) -> None:
    await Deployment(server, "instantstart").complete("two", list(QUEUES), patience=timedelta())


async def test_a_build_whose_workers_poll_every_queue_gets_work() -> None:
    await complete(Server(steps=[("one", NOW), ("two", NOW)], calls=[("two", NOW)]))


@pytest.mark.parametrize(
    "calls",
    [[], [("two", LONG_AGO)], [("one", NOW)], [("one", NOW), ("two", LONG_AGO)]],
    ids=["nobody", "gone", "others", "others and gone"],
)
async def test_a_build_whose_workers_have_gone_gets_no_work(calls: list[tuple[str, timedelta]]) -> None:
    with pytest.raises(DeploymentFaultError, match="no worker of build two polls calls: start workers"):
        await complete(Server(steps=[("two", NOW)], calls=calls))


async def test_the_share_of_a_build_whose_workers_have_gone_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def there(client: Any) -> bool:
        return True

    async def nobody(self: Deployment, build_id: str, queues: list[str]) -> None:
        raise DeploymentFaultError("nobody polls")

    monkeypatch.setattr(deployment, "namespace_is_there", there)
    monkeypatch.setattr(Deployment, "complete", nobody)
    server: Any = Server()
    asked = Namespace(action="promote", build="two", percent=0.0)
    assert await deployment.run(server, asked) is Status.DONE
    assert server.shares == [("two", 0.0)]
