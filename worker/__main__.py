"""``python -m worker``: hosts workflows and activities until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from temporalio.common import VersioningBehavior
from temporalio.worker import Worker

from activities.cluster import ClusterActivities
from activities.context import BindContext
from activities.interceptor import ActivityInterceptor
from activities.registry import Activities
from contracts import queues
from contracts.activity import Queue
from worker.platform import WorkerFactory, connect
from worker.settings import WorkerSettings
from workflows.registry import ENTITIES, LOOKUPS, OPERATIONS

log = logging.getLogger("worker")


async def run(settings: WorkerSettings) -> None:
    """Host what ``settings.roles`` names. Returns after SIGTERM or SIGINT; raises when a worker cannot go on."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(settings.wait_threads, thread_name_prefix="wait"))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = await connect(settings.metrics_address)
    factory = WorkerFactory(client, settings, [ActivityInterceptor()])
    hosted = workers(factory, settings, ClusterActivities(client))
    log.info("hosting %s", ", ".join(worker.task_queue for worker in hosted))
    running = [asyncio.ensure_future(worker.run()) for worker in hosted]
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.gather(*(worker.shutdown() for worker in hosted))
    # A worker that ended by itself has failed: its exception ends the process, and whoever supervises it starts anew.
    await asyncio.gather(*running)


def workers(factory: WorkerFactory, settings: WorkerSettings, cluster: ClusterActivities) -> list[Worker]:
    roles = set(settings.roles.split(","))
    hosted: list[Worker] = []
    activities = Activities()
    if "workflows" in roles:
        hosted.append(factory.workflows(queues.WORKFLOWS, [*OPERATIONS, *LOOKUPS], VersioningBehavior.PINNED))
        hosted.append(factory.workflows(queues.ENTITIES, ENTITIES, VersioningBehavior.AUTO_UPGRADE))
    if "platform" in roles:
        platform: list[Callable[..., Any]] = [cluster.acquire_leases, cluster.holder_state, cluster.abort_holders]
        hosted.append(factory.waits(queues.PLATFORM, platform, 100))
    if "aws" in roles:
        for region in settings.region_list:
            hosted.append(
                factory.threads(
                    queues.aws(region), activities.on(Queue.AWS), settings.aws_threads, settings.aws_calls_per_second
                )
            )
    if "wait" in roles:
        hosted.append(factory.waits(queues.WAIT, activities.on(Queue.WAIT), settings.wait_slots))
    if "kubernetes" in roles:
        hosted.append(factory.threads(queues.KUBERNETES, activities.on(Queue.KUBERNETES), settings.kubernetes_threads))
    return hosted


def main() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(BindContext())
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(cluster)s %(operation)s %(request_id)s] %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    asyncio.run(run(WorkerSettings()))
    # temporalio's native threads may still be ending; leaving at once crashes now and then (sdk-python issue 300).
    time.sleep(0.1)


if __name__ == "__main__":
    main()
