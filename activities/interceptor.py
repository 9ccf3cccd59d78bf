"""What every activity gets: errors classified in one place, a heartbeat, a fence, and a context for logs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import CancelledError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from activities.context import Bound, bound
from activities.errors import classify
from activities.fence import Fence, fence
from activities.settings import Settings
from contracts import measures
from contracts.model import Ensured
from contracts.problem import ProblemCode
from telemetry import metrics, tracing

HEARTBEAT_SECONDS = 4.0


class ActivityInterceptor(Interceptor):
    """Give to the worker (or to its plugin) with the worker's own client."""

    def __init__(self, client: Client, settings: Settings | None = None) -> None:
        self._client, self._settings = client, settings or Settings()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Inbound(next, self._client, self._settings)


class _Remembering(ActivityOutboundInterceptor):
    """Knows what was last said in a heartbeat, so that saying it again loses nothing."""

    def __init__(self, next: ActivityOutboundInterceptor) -> None:
        super().__init__(next)
        self.last: Sequence[Any] | None = None

    def heartbeat(self, *details: Any) -> None:
        self.last = details
        super().heartbeat(*details)

    def newest(self) -> Sequence[Any]:
        """The newest details: this attempt's, else an earlier attempt's."""
        return self.info().heartbeat_details if self.last is None else self.last

    def repeat(self) -> None:
        """Heartbeat with the newest details."""
        super().heartbeat(*self.newest())


class _Inbound(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, client: Client, settings: Settings) -> None:
        super().__init__(next)
        self._client = client
        self._pace = settings.poll_seconds
        self._outbound: _Remembering | None = None

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._outbound = _Remembering(outbound)
        super().init(self._outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        bound.set(_bound(input.args, info))
        put_up = None
        if self._outbound is not None:
            put_up = Fence(self._client, info, self._outbound.newest)
            fence.set(put_up)
        tracing.annotate(
            temporal__activity_attempt=info.attempt,
            temporal__task_queue=info.task_queue,
            instantstart__request_id=bound.get().request_id,
        )
        beating = asyncio.create_task(self._beat())
        try:
            return _honest(await super().execute_activity(input), info.attempt)
        except (asyncio.CancelledError, CancelledError):
            raise
        except Exception as error:
            classified = classify(error, attempt=info.attempt, pace=self._pace)
            metrics.count(
                measures.ACTIVITY_FAILURES, activity=info.activity_type, code=classified.type or ProblemCode.INTERNAL
            )
            if classified is error:
                raise
            defect = error if classified.type == ProblemCode.INTERNAL else None
            activity.logger.warning("%s: %s (%s)", info.activity_type, classified, classified.type, exc_info=defect)
            # Not "from error": the cause would go into the history as it is, with whatever secret its text holds.
            raise classified from None
        finally:
            if put_up is not None:
                put_up.end()
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating

    async def _beat(self) -> None:
        """Say every few seconds that this worker lives; a worker that died is noticed within the heartbeat timeout, and
        only an activity that heartbeats learns of its cancellation."""
        while self._outbound is not None:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._outbound.repeat()


def _honest(result: Any, attempt: int) -> Any:
    """A later attempt may have found what an earlier one made before it was lost: that is no "nothing to do"."""
    if isinstance(result, Ensured) and attempt > 1:
        return result.model_copy(update={"changed": True})
    return result


def _bound(args: Sequence[Any], info: activity.Info) -> Bound:
    given = args[0] if args else None
    scope = getattr(given, "scope", None)
    cluster = getattr(scope, "cluster", None) or getattr(given, "cluster", None) or "-"
    return Bound(str(cluster), info.workflow_id or "-", getattr(scope, "request_id", None) or "-")
