"""``python -m worker.deployment``: which build of the workers gets new work, and which may go.

With ``INSTANTSTART_BUILD_ID`` every worker process belongs to one version of one Worker Deployment: all task queues of
a build together, so that an operation's activities run on the build that the operation runs on.
Source: https://docs.temporal.io/worker-versioning
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import TaskQueueType, WorkerDeploymentVersionStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    DescribeWorkerDeploymentResponse,
    DescribeWorkerDeploymentVersionRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from temporal.admission import namespace_is_there
from temporal.running import Status, run_once
from worker.platform import queue_names
from worker.settings import WorkerSettings

log = logging.getLogger(__name__)

PAUSE = 0.5
PATIENCE = timedelta(minutes=2)
"""How long a build's workers may take to come up, and Temporal to tell all task queues of it."""
POLLER_AGE = timedelta(seconds=90)
"""A worker polls again within about a minute; the server remembers pollers for longer."""
_OF_THE_BUILD = (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.NOT_FOUND)
"""How Temporal refuses to give a build work."""


class DeploymentFaultError(Exception):
    """A build cannot get work. The text says why."""


@dataclass(frozen=True)
class Version:
    """A build of the deployment. ``status``: ``inactive``, ``current``, ``ramping``, ``draining`` or ``drained``."""

    build_id: str
    status: str
    open_runs: int
    """Workflows that are carried on by this build alone, entities not counted: they follow the current one."""


class Deployment:
    """The Worker Deployment of this platform in the client's namespace."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    async def versions(self) -> list[Version]:
        """All builds that Temporal knows, the newest first."""
        found = await self._describe()
        if found is None:
            return []
        summaries = sorted(
            found.worker_deployment_info.version_summaries, key=lambda each: each.create_time.ToDatetime(), reverse=True
        )
        return [
            Version(
                build_id=each.deployment_version.build_id,
                status=WorkerDeploymentVersionStatus.Name(each.status).rpartition("STATUS_")[2].lower(),
                open_runs=await self._open_runs(each.deployment_version.build_id),
            )
            for each in summaries
        ]

    async def current(self) -> str | None:
        """The build that gets new work; None where workers without a build do."""
        found = await self._describe()
        if found is None:
            return None
        return found.worker_deployment_info.routing_config.current_deployment_version.build_id or None

    async def complete(self, build_id: str, queues: Sequence[str], patience: timedelta | None = PATIENCE) -> None:
        """Wait until workers of the build poll all these task queues; ``patience`` None: for as long as it takes.

        Raises DeploymentFaultError.
        """
        deadline = None if patience is None else time.monotonic() + patience.total_seconds()
        while missing := set(queues) - await self._queues(build_id):
            if deadline is not None and time.monotonic() > deadline:
                raise DeploymentFaultError(
                    f"no worker of build {build_id} polls {', '.join(sorted(missing))}: start workers with "
                    f"INSTANTSTART_BUILD_ID={build_id} for all roles and regions"
                )
            await asyncio.sleep(PAUSE)

    async def promote(self, build_id: str) -> None:
        """From now on new operations begin on this build, and entities move to it.

        Raises DeploymentFaultError where Temporal refuses this build; RPCError for all else.
        """
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=self._client.namespace,
            deployment_name=self.name,
            build_id=build_id,
            identity=self._client.identity,
        )
        try:
            await self._client.workflow_service.set_worker_deployment_current_version(request, retry=True)
        except RPCError as error:
            if error.status not in _OF_THE_BUILD:
                raise
            raise DeploymentFaultError(f"build {build_id} cannot become current: {error.message}") from error

    async def ramp(self, build_id: str, percent: float) -> None:
        """Begin ``percent`` of new operations on this build. Raises as :meth:`promote` does."""
        request = SetWorkerDeploymentRampingVersionRequest(
            namespace=self._client.namespace,
            deployment_name=self.name,
            build_id=build_id,
            percentage=percent,
            identity=self._client.identity,
        )
        try:
            await self._client.workflow_service.set_worker_deployment_ramping_version(request, retry=True)
        except RPCError as error:
            if error.status not in _OF_THE_BUILD:
                raise
            raise DeploymentFaultError(f"build {build_id} cannot be ramped: {error.message}") from error

    async def lead_if_first(self, build_id: str, queues: Sequence[str]) -> None:
        """Become current where no build is: the first one of a deployment waits for nobody's word.

        Every other build waits to be promoted, and this says so.
        """
        await self.complete(build_id, queues, patience=None)
        found = await self._describe()
        current = await self.current()
        if found is None or current is not None:
            if current != build_id:
                log.warning(
                    "build %s gets no new operations yet: %s is current. `python -m worker.deployment promote %s`",
                    *(build_id, current, build_id),
                )
            return
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=self._client.namespace,
            deployment_name=self.name,
            build_id=build_id,
            identity=self._client.identity,
            # Another process may do the same for another build: one of them wins.
            conflict_token=found.conflict_token,
        )
        try:
            await self._client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError as error:
            if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                raise
        else:
            log.info("build %s is the first one, and current", build_id)

    async def _describe(self) -> DescribeWorkerDeploymentResponse | None:
        request = DescribeWorkerDeploymentRequest(namespace=self._client.namespace, deployment_name=self.name)
        try:
            return await self._client.workflow_service.describe_worker_deployment(request, retry=True)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise

    async def _queues(self, build_id: str) -> set[str]:
        """What the build's workers poll. Temporal keeps a build's queues when its workers have gone: that they are the
        build's says nothing of who asks for tasks there now."""
        request = DescribeWorkerDeploymentVersionRequest(
            namespace=self._client.namespace,
            deployment_version=WorkerDeploymentVersion(deployment_name=self.name, build_id=build_id),
        )
        try:
            found = await self._client.workflow_service.describe_worker_deployment_version(request, retry=True)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return set()
            raise
        known = [(each.name, each.type) for each in found.worker_deployment_version_info.task_queue_infos]
        polled = await asyncio.gather(*(self._polls(build_id, name, kind) for name, kind in known))
        return {name for (name, _), is_polled in zip(known, polled, strict=True) if is_polled}

    async def _polls(self, build_id: str, queue: str, kind: TaskQueueType.ValueType) -> bool:
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
        found = await self._client.workflow_service.describe_task_queue(request, retry=True)
        oldest = datetime.now(UTC) - POLLER_AGE
        return any(
            (each.deployment_options.deployment_name, each.deployment_options.build_id) == (self.name, build_id)
            and each.last_access_time.ToDatetime(UTC) >= oldest
            for each in found.pollers
        )

    async def _open_runs(self, build_id: str) -> int:
        pinned = "TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'"
        counted = await self._client.count_workflows(
            f"{pinned} AND TemporalWorkerDeploymentVersion = '{self.name}:{build_id}'"
        )
        return counted.count


async def run(client: Client, arguments: argparse.Namespace) -> Status:
    """Do what is asked for, and print what has become of each build. Raises RPCError."""
    settings = WorkerSettings()
    if not await namespace_is_there(client):
        print(f"there is no namespace {client.namespace}: python -m temporal.setup makes it", file=sys.stderr)
        return Status.REFUSED
    deployment = Deployment(client, settings.deployment)
    try:
        if arguments.action == "promote":
            # A share is also taken back from a build whose workers have failed.
            if arguments.percent != 0:
                await deployment.complete(arguments.build, queue_names(settings))
            if arguments.percent is None:
                await deployment.promote(arguments.build)
            else:
                await deployment.ramp(arguments.build, arguments.percent)
    except DeploymentFaultError as error:
        print(error, file=sys.stderr)
        return Status.REFUSED
    for each in await deployment.versions():
        print(f"{each.build_id}\t{each.status}\t{each.open_runs} open")
    return Status.DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 where the build cannot get work, 2 where Temporal cannot be used as it is configured,
    3 where it does not answer."""
    parser = argparse.ArgumentParser(prog="python -m worker.deployment", description=__doc__)
    parser.add_argument("--wait", type=float, default=60.0, metavar="SECONDS", help="for Temporal to answer (60)")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("status", help="all builds, and how many operations each still carries on")
    promote = actions.add_parser("promote", help="let new operations begin on a build")
    promote.add_argument("build", help="its INSTANTSTART_BUILD_ID")
    promote.add_argument("--percent", type=float, help="only so many of them; the others stay on the current one")
    chosen = parser.parse_args(argv)
    return run_once(lambda client: run(client, chosen), chosen.wait)


if __name__ == "__main__":
    sys.exit(main())
