"""``python -m worker``: hosts workflows and activities until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import ValidationError
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import VersioningBehavior
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities.cluster import ClusterActivities
from activities.context import about
from activities.drift.managed import DriftChecks, ensure_drift_schedules
from activities.interceptor import ActivityInterceptor
from activities.registry import Activities
from activities.settings import Settings
from contracts import queues
from contracts.activity import Queue
from telemetry import process, tracing
from temporal.admission import admit
from temporal.connection import connect
from temporal.faults import ConnectionFaultError
from temporal.running import run_program
from worker.deployment import Deployment
from worker.platform import WorkerFactory
from worker.settings import WorkerSettings
from workflows.registry import ENTITIES, LOOKUPS, OPERATIONS

log = logging.getLogger("worker")


async def run(settings: WorkerSettings) -> None:
    """Host what ``settings.roles`` names. Returns after SIGTERM or SIGINT; raises when a worker cannot go on."""
    # Threads of activities that compute keep the event loop, which takes every step of every workflow, from the
    # interpreter for as long as this, once for each of them: by Python's own 5 ms a step waits 80 ms beside sixteen.
    sys.setswitchinterval(0.0005)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(settings.wait_threads, thread_name_prefix="wait"))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = await connect(interceptors=tracing.interceptors())
    await admit(client)
    factory = WorkerFactory(client, settings, [ActivityInterceptor(client)])
    hosted = workers(factory, settings, ClusterActivities(client), DriftChecks(client))
    log.info("hosting %s", ", ".join(worker.task_queue for worker in hosted))
    running = [asyncio.ensure_future(worker.run()) for worker in hosted]
    stopping = asyncio.ensure_future(stop.wait())
    leading = asyncio.ensure_future(_lead(client, settings, hosted))
    scheduling = asyncio.ensure_future(_schedule(client, settings))
    await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    leading.cancel()
    scheduling.cancel()
    await asyncio.gather(*(worker.shutdown() for worker in hosted))
    # A worker that ended by itself has failed: its exception ends the process, and whoever supervises it starts anew.
    await asyncio.gather(*running)


async def _lead(client: Client, settings: WorkerSettings, hosted: Sequence[Worker]) -> None:
    """Where builds are told apart, get new work if this is the first one, or say that it gets none yet."""
    if not settings.build_id:
        return
    deployment = Deployment(client, settings.deployment)
    while True:
        try:
            await deployment.lead_if_first(settings.build_id, [worker.task_queue for worker in hosted])
            return
        except RPCError as error:
            log.warning("build %s cannot be told apart from others yet: %s", settings.build_id, error)
        await asyncio.sleep(5)


async def _schedule(client: Client, settings: WorkerSettings) -> None:
    """Give every cluster the drift checks that the settings ask for, also those that are from before."""
    if "platform" not in settings.roles.split(","):
        return
    try:
        changed = await ensure_drift_schedules(client, Settings())
    except RPCError as error:
        log.error("schedules of drift checks are left as they are: %s", error)
        return
    if changed:
        log.info("%d schedules of drift checks were made or changed", changed)


def workers(
    factory: WorkerFactory, settings: WorkerSettings, cluster: ClusterActivities, drift: DriftChecks
) -> list[Worker]:
    roles = set(settings.roles.split(","))
    hosted: list[Worker] = []
    activities = Activities()
    if "workflows" in roles:
        hosted.append(factory.workflows(queues.WORKFLOWS, [*OPERATIONS, *LOOKUPS], VersioningBehavior.PINNED))
        hosted.append(factory.workflows(queues.ENTITIES, ENTITIES, VersioningBehavior.AUTO_UPGRADE))
    if "platform" in roles:
        platform: list[Callable[..., Any]] = [
            cluster.acquire_leases,
            cluster.holder_state,
            cluster.abort_holders,
            cluster.end_waiting,
            drift.read_managed,
            drift.ensure_schedule,
            drift.remove_schedule,
        ]
        hosted.append(factory.waits(queues.PLATFORM, platform, 100))
    if "aws" in roles:
        for region in settings.region_list:
            hosted.append(
                factory.threads(
                    queues.aws(region), activities.on(Queue.AWS), settings.aws_threads, settings.aws_calls_per_second
                )
            )
    if "wait" in roles:
        waits = [*activities.on(Queue.WAIT), cluster.wait_for_holder]
        hosted.append(factory.waits(queues.WAIT, waits, settings.wait_slots))
    if "kubernetes" in roles:
        hosted.append(factory.threads(queues.KUBERNETES, activities.on(Queue.KUBERNETES), settings.kubernetes_threads))
    return hosted


def main() -> int:
    """Run until stopped; returns the exit status."""
    try:
        process.begin("instantstart-worker", about)
        settings = WorkerSettings()
    except (ValidationError, process.TelemetryFaultError) as error:
        print(error, file=sys.stderr)
        return 2
    # They say it in every line; the handler's filter says it once, and in the same place.
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False
    try:
        run_program(run(settings))
    except ConnectionFaultError as error:
        log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
