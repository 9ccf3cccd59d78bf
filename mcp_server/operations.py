"""Operations: read, followed, and answered."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from pydantic import Field

from contracts import endpoints
from contracts.answers import OperationPage
from contracts.model import Model
from contracts.operation import Operation, Phase
from mcp_server.asker import ClusterTag, Who
from mcp_server.started import what_next
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

LONGEST_WAIT = 50
"""Seconds: many clients give a call up after 60."""

OperationId = Annotated[
    str, Field(description="The operation's ID as tools answer it, e.g. create-cluster/demo-1130a.", max_length=600)
]


class Followed(Model):
    """An operation as it is now."""

    operation: Operation
    ended: bool
    """True: ``operation.phase`` says how; the result is verified where it says succeeded."""
    next: str
    """What to do now."""


class Waited(Model):
    """How long nothing was done."""

    seconds: float


def followed(operation: Operation) -> Followed:
    return Followed(operation=operation, ended=operation.phase.ended, next=what_next(operation))


@tools.tool("Get an operation", endpoints.GET_OPERATION)
async def operation_get(who: Who, operation: OperationId) -> Followed:
    """One operation with its stages, its question or problem, and its result. Decides whether it is complete.

    Use it after every tool that starts something, and before answering a decision. To follow one that runs, use
    operation_wait: it needs fewer calls.
    """
    return followed(await who.get(endpoints.GET_OPERATION, id=operation))


@tools.tool("Wait for an operation", endpoints.GET_OPERATION)
async def operation_wait(
    who: Who,
    operation: OperationId,
    timeout_seconds: Annotated[
        float, Field(ge=0, le=LONGEST_WAIT, description="How long to wait for its end or its next question.")
    ] = 45,
) -> Followed:
    """Wait until the operation has ended or needs somebody, or the time is over; progress is reported meanwhile.

    Use it again and again until `ended` is true or `next` asks for something. An operation goes on whether or not
    anybody waits for it.
    """
    until = time.monotonic() + timeout_seconds
    reply = await who.gateway.reply(endpoints.GET_OPERATION, id=operation)
    while True:
        now = reply.answer
        finished = sum(stage.state.finished for stage in now.stages)
        await who.context.report_progress(finished, len(now.stages) or None, _line(now))
        left = until - time.monotonic()
        if now.phase.ended or now.phase.needs_attention or left <= 0:
            return followed(now)
        wait = min(left, 20.0)
        reply = await who.gateway.reply(
            endpoints.GET_OPERATION, id=operation, wait=round(wait, 1), since=reply.version, timeout=wait + 10
        )


def _line(operation: Operation) -> str:
    running = [stage.title for stage in operation.stages if not stage.state.finished and stage.started_at]
    return operation.detail or (", ".join(running) if running else operation.phase.value)


@tools.tool("List operations", endpoints.LIST_OPERATIONS)
async def operation_list(
    who: Who,
    cluster: ClusterTag = None,
    kind: Annotated[str | None, Field(description="e.g. create-cluster, scale-instance-group.")] = None,
    phase: Annotated[Phase | None, Field(description="Only operations in this phase.")] = None,
    needs_attention: Annotated[
        bool | None, Field(description="true: only those that wait for a decision or an approval, or are blocked.")
    ] = None,
    page_size: Annotated[int, Field(description="Operations in one answer, 1 to 200.")] = 20,
    page_token: Annotated[str | None, Field(description="next_page_token of the answer before.")] = None,
) -> OperationPage:
    """Operations of all clusters, or of the one that is named: running ones first, then ended ones, the newest first.

    Use it to find where a task stands after a break, and what waits for somebody. Here an absent cluster means all.
    """
    return await who.get(
        endpoints.LIST_OPERATIONS,
        cluster=cluster,
        kind=kind,
        phase=phase,
        needs_attention=needs_attention,
        page_size=page_size,
        page_token=page_token,
    )


@tools.tool("Wait some seconds")
async def wait_seconds(who: Who, seconds: Annotated[float, Field(ge=0, le=300, description="At most 300.")]) -> Waited:
    """Do nothing for a while. To wait for an operation use operation_wait instead: it returns at the first news."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 10.0))
        await who.context.report_progress(seconds - max(0.0, until - time.monotonic()), seconds, "waiting")
    return Waited(seconds=seconds)
