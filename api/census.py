"""Gauges that no single process knows: open operations, who waits for a person, and whether somebody works.

Each gateway looks them up in Temporal now and then, and tells the same as every other: they are right after a restart,
and however many there are of gateways and workers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from datetime import UTC, datetime

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.service import RPCError

from api.mapping import Seen, from_row
from api.problems import ProblemError
from api.settings import Settings
from api.temporal import POLLER_AGE, RPC, Temporal, guarded
from contracts import measures, queues, visibility
from contracts.operation import Operation, Phase, StageState
from telemetry import metrics

logger = logging.getLogger("instantstart.api")

PACE = 15.0
"""Seconds from look to look: about as often as Prometheus asks."""
MOST = 3000
"""Open operations that are looked at one by one. More are only counted."""
_PAGE = 500
_WAITING = (Phase.BLOCKED, Phase.WAITING_FOR_DECISION, Phase.WAITING_FOR_APPROVAL)
_OPEN = f"ExecutionStatus = 'Running' AND {visibility.KIND} IS NOT NULL"


class Census:
    """Tells the gauges of one gateway."""

    def __init__(self, temporal: Temporal, settings: Settings) -> None:
        self._temporal = temporal
        self._settings = settings
        self._told: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Look again and again. While Temporal does not answer, the gauges stay as they were, and their time too."""
        while True:
            try:
                await self.look()
            except (ProblemError, RPCError) as error:
                logger.info("the gauges stay as they were: %s", error)
            except Exception:
                logger.exception("the gauges stay as they were")
            await asyncio.sleep(PACE)

    async def look(self) -> None:
        """Look once. Raises ProblemError and RPCError where Temporal does not answer."""
        await self._operations()
        await asyncio.gather(
            self._queue(queues.WORKFLOWS, "workflow"),
            self._queue(queues.ENTITIES, "workflow"),
            *(
                self._queue(name, "activity")
                for name in (queues.PLATFORM, queues.WAIT, queues.KUBERNETES, *map(queues.aws, self._settings.regions))
            ),
        )
        metrics.level(measures.LOOKED_AT, time.time())

    async def _operations(self) -> None:
        found, unseen = await self._open()
        now = datetime.now(UTC)
        counted = Counter((each.operation.kind, each.operation.phase.value) for each in found)
        for kind, phase in self._told - counted.keys():
            metrics.level(measures.OPERATIONS, 0, kind=kind, phase=phase)
        self._told = set(counted)
        for (kind, phase), number in counted.items():
            metrics.level(measures.OPERATIONS, number, kind=kind, phase=phase)
        metrics.level(measures.OPERATIONS_UNSEEN, unseen)
        for phase in _WAITING:
            since = [waits_since(each.operation) for each in found if each.operation.phase is phase]
            oldest = max(((now - moment).total_seconds() for moment in since), default=0.0)
            metrics.level(measures.WAITING_SECONDS, max(0.0, oldest), phase=phase.value)

    async def _open(self) -> tuple[list[Seen], int]:
        """Open operations, and how many there are beyond :data:`MOST`."""
        found: list[Seen] = []
        position: bytes | None = None
        while len(found) < MOST:
            page = await self._temporal.list(_OPEN, _PAGE, position)
            found += [seen for row in page.rows if (seen := await from_row(row)) is not None]
            position = page.position
            if position is None:
                return found, 0
        counted = await guarded(self._temporal.client.count_workflows(_OPEN, rpc_timeout=RPC))
        return found, max(0, counted.count - len(found))

    async def _queue(self, name: str, tasks: str) -> None:
        kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW if tasks == "workflow" else TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
        client = self._temporal.client
        request = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=name), task_queue_type=kind, report_stats=True
        )
        answer = await guarded(client.workflow_service.describe_task_queue(request, retry=True, timeout=RPC))
        oldest = datetime.now(UTC) - POLLER_AGE
        pollers = {each.identity for each in answer.pollers if each.last_access_time.ToDatetime(UTC) >= oldest}
        metrics.level(measures.QUEUE_POLLERS, len(pollers), task_queue=name, tasks=tasks)
        metrics.level(measures.QUEUE_BACKLOG, answer.stats.approximate_backlog_count, task_queue=name, tasks=tasks)


def waits_since(operation: Operation) -> datetime:
    """Since when an operation waits for a person: for the one that was asked first, where it waits for several."""
    match operation.phase:
        case Phase.WAITING_FOR_DECISION if operation.decision is not None:
            return operation.decision.asked_at
        case Phase.BLOCKED:
            stopped = [each.finished_at for each in operation.stages if each.state is StageState.BLOCKED]
            return min((moment for moment in stopped if moment is not None), default=operation.updated_at)
        case Phase.WAITING_FOR_APPROVAL:
            return operation.started_at
    return operation.updated_at
