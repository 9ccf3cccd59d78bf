"""How we host workflows and activities, in one place: the workflow sandbox and the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior
from temporalio.worker import Interceptor, Worker, WorkerDeploymentConfig, WorkerDeploymentVersion
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from contracts import queues
from worker.settings import WorkerSettings

SHUTDOWN_PATIENCE = timedelta(seconds=10)
TELLING = timedelta(seconds=0.2)
"""Heartbeats of waits are sent at once, in effect: readers follow a model's answer by them. All others are rare."""


SHARED = ("contracts", "pydantic", "annotated_types")
"""What passes through Temporal's sandbox anywhere: a model's type is the same on both sides."""


def restrictions(*passing: str) -> SandboxRestrictions:
    """Temporal's own, on all modules but ``SHARED`` and ``passing``."""
    return SandboxRestrictions.default.with_passthrough_modules(*SHARED, *passing)


def workflow_runner() -> SandboxedWorkflowRunner:
    """Temporal's sandbox with our workflows passed through: imported once, and not for each run.

    Anew for each run they would take some 20 ms and hundreds of KiB of every run, and two seconds of a worker's start.
    That they are deterministic is seen to before: the tests of workflows run them in the sandbox with all of its
    restrictions, and what they must not import or call is forbidden in ``pyproject.toml``. None keeps anything outside
    its own object.
    """
    return SandboxedWorkflowRunner(restrictions=restrictions("workflows"))


class WorkerFactory:
    """Makes the workers of one process, all with the same client, interceptors and versioning."""

    def __init__(self, client: Client, settings: WorkerSettings, interceptors: Sequence[Interceptor]) -> None:
        self._client = client
        self._settings = settings
        self._interceptors = interceptors

    def workflows(self, task_queue: str, workflows: Sequence[type], behavior: VersioningBehavior) -> Worker:
        """A worker of workflows. ``behavior``: what a new build does with runs that an older one started."""
        return Worker(
            self._client,
            task_queue=task_queue,
            workflows=workflows,
            workflow_runner=workflow_runner(),
            interceptors=self._interceptors,
            max_concurrent_workflow_tasks=self._settings.workflow_tasks,
            graceful_shutdown_timeout=SHUTDOWN_PATIENCE,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=self._settings.sticky_seconds),
            deployment_config=self._deployment(behavior),
        )

    def threads(
        self, task_queue: str, activities: Sequence[Callable[..., Any]], threads: int, rate: float | None = None
    ) -> Worker:
        """A worker of sync activities, as many at a time as it has threads."""
        return Worker(
            self._client,
            task_queue=task_queue,
            activities=activities,
            activity_executor=ThreadPoolExecutor(threads, thread_name_prefix=task_queue),
            max_concurrent_activities=threads,
            max_concurrent_activity_task_polls=2,
            max_task_queue_activities_per_second=rate,
            interceptors=self._interceptors,
            graceful_shutdown_timeout=SHUTDOWN_PATIENCE,
            max_heartbeat_throttle_interval=timedelta(seconds=5),
            default_heartbeat_throttle_interval=timedelta(seconds=5),
            disable_eager_activity_execution=True,
            deployment_config=self._deployment(),
        )

    def waits(self, task_queue: str, activities: Sequence[Callable[..., Any]], slots: int) -> Worker:
        """A worker of async activities that mostly sleep."""
        return Worker(
            self._client,
            task_queue=task_queue,
            activities=activities,
            max_concurrent_activities=slots,
            interceptors=self._interceptors,
            graceful_shutdown_timeout=SHUTDOWN_PATIENCE,
            max_heartbeat_throttle_interval=TELLING,
            default_heartbeat_throttle_interval=TELLING,
            disable_eager_activity_execution=True,
            deployment_config=self._deployment(),
        )

    def _deployment(
        self, behavior: VersioningBehavior = VersioningBehavior.UNSPECIFIED
    ) -> WorkerDeploymentConfig | None:
        """All task queues of a build are one version of one deployment: with one for each queue, an operation that is
        pinned to its build would have its activities done by whichever build is current for theirs."""
        if not self._settings.build_id:
            return None
        version = WorkerDeploymentVersion(deployment_name=self._settings.deployment, build_id=self._settings.build_id)
        # Never on @workflow.defn: a worker without versioning could complete none of its tasks then.
        return WorkerDeploymentConfig(version=version, use_worker_versioning=True, default_versioning_behavior=behavior)


def queue_names(settings: WorkerSettings) -> list[str]:
    """Every task queue that a complete deployment polls."""
    return [
        queues.WORKFLOWS,
        queues.ENTITIES,
        queues.PLATFORM,
        queues.WAIT,
        queues.KUBERNETES,
        *(queues.aws(region) for region in settings.region_list),
    ]
