"""Operations: read, followed, and answered."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from client.aio import GatewayProblem, Reply
from contracts import endpoints
from contracts.answers import OperationPage, OperationSpec
from contracts.catalogue import OperationKind
from contracts.model import Model
from contracts.names import operation_id
from contracts.operation import Operation, Phase
from contracts.problem import ProblemCode, problem
from mcp_server.asker import Asker, ClusterTag, Who
from mcp_server.started import what_next
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)

LONGEST_WAIT = 50
"""Seconds: many clients give a call up after 60."""
LONGEST_PAUSE = 300
"""Seconds that wait_seconds waits at most."""
_POLL = 10.0
"""Seconds of one long poll: how old reported progress gets, since live details alone do not end one."""
_AGAIN = 0.5
"""Seconds until a gateway that did not answer is asked again."""
_GRACE = 5.0
"""Seconds that the gateway may take beyond a wait to answer."""

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


class Listed(Model):
    """An operation in a list; operation_get has its stages, options and result."""

    id: str
    kind: str
    cluster: str
    phase: Phase
    detail: str | None = None
    stage: str | None = None
    """The one that it is at; null: at none."""
    started_by: str
    started_at: datetime
    updated_at: datetime


class Listing(Model):
    """A page of operations."""

    operations: list[Listed]
    next_page_token: str | None = None


class Waited(Model):
    """How long nothing was done."""

    seconds: float
    asked: float
    """Seconds that were asked for: more than 300 are capped."""


def listing(page: OperationPage) -> Listing:
    """The page as short as a list can be: an agent reads all of it."""
    return Listing(operations=[_listed(each) for each in page.operations], next_page_token=page.next_page_token)


def _listed(operation: Operation) -> Listed:
    at = (stage.name for stage in operation.stages if not stage.state.finished and stage.started_at is not None)
    why = operation.problem.detail if operation.problem is not None else None
    return Listed(
        id=operation.id,
        kind=operation.kind,
        cluster=operation.cluster,
        phase=operation.phase,
        detail=operation.detail or why,
        stage=next(at, None),
        started_by=operation.started_by,
        started_at=operation.started_at,
        updated_at=operation.updated_at,
    )


def followed(operation: Operation) -> Followed:
    return Followed(operation=operation, ended=operation.phase.ended, next=what_next(operation))


async def newest(who: Asker, cluster: str, *kinds: OperationKind[Any], target: str | None = None) -> Followed:
    """The last operation of these kinds on the cluster. ``target``: of the first kind, what it is about.

    Raises GatewayProblem (not_found) if nothing is known of any.
    """
    found = await newest_if_any(who, cluster, *kinds, target=target)
    if found is None:
        names = " or ".join(kind.name for kind in kinds)
        raise GatewayProblem(
            problem(
                ProblemCode.NOT_FOUND,
                f"no {names} of cluster {cluster!r} is known",
                remedy="Look with cluster_get_status what there is of the cluster: it may be long done, or imported.",
            )
        )
    return followed(found)


async def newest_if_any(
    who: Asker, cluster: str, *kinds: OperationKind[Any], target: str | None = None
) -> Operation | None:
    """The last operation of these kinds on the cluster; None if nothing is known of any. Raises GatewayProblem."""
    ids = [operation_id(kind.name, cluster, None if position else target) for position, kind in enumerate(kinds)]
    found = [await who.get_if_there(endpoints.GET_OPERATION, id=each) for each in ids]
    return max((each for each in found if each is not None), key=lambda each: each.started_at, default=None)


@tools.tool("Get an operation", endpoints.GET_OPERATION)
async def operation_get(who: Who, operation: OperationId) -> Followed:
    """One operation with its stages, its question or problem, and its result. Decides whether it is complete.

    Use it after every tool that starts something, and before answering a decision. To follow one that runs, use
    operation_wait: it needs fewer calls.
    """
    return followed(await who.get(endpoints.GET_OPERATION, id=operation))


@tools.tool("What an operation carries out", endpoints.GET_OPERATION_SPEC, toolset=Toolset.STAGES)
async def operation_get_spec(who: Who, operation: OperationId) -> OperationSpec:
    """What an operation carries out: its kind, cluster and specification.

    Use it before correcting a blocked operation (operation_retry), and to start or plan the same again (plan_make).
    """
    return await who.get(endpoints.GET_OPERATION_SPEC, id=operation)


@tools.tool("Wait for an operation", endpoints.GET_OPERATION)
async def operation_wait(
    who: Who,
    operation: OperationId,
    timeout_seconds: Annotated[
        float,
        Field(
            ge=0, le=LONGEST_WAIT, description="How long to wait for its end or its next question, 50 seconds at most."
        ),
    ] = 45,
) -> Followed:
    """Wait until the operation has ended, asks a question or is blocked, or the time is over; progress is reported
    meanwhile. A person's approval is waited for like any other step.

    Use it again and again until `ended` is true or `next` asks for something. An operation goes on whether or not
    anybody waits for it.
    """
    watch = _Watch(who, operation, time.monotonic() + timeout_seconds)
    while True:
        now = await watch.next()
        await watch.report(now)
        if now.phase.ended or now.decision is not None or now.phase is Phase.BLOCKED or watch.left <= 0:
            return followed(now)


class _Watch:
    """One wait for an operation, until a moment of the monotonic clock."""

    def __init__(self, who: Asker, operation: str, until: float) -> None:
        self._who = who
        self._operation = operation
        self._until = until
        self._reply: Reply[Operation] | None = None
        self._reported = -1.0

    @property
    def left(self) -> float:
        return self._until - time.monotonic()

    async def next(self) -> Operation:
        """The operation now, then at its next change or after a few seconds. A gateway that does not answer is asked
        again while there is time; what was seen last stands where there is none. Raises GatewayProblem."""
        while True:
            try:
                self._reply = await self._ask()
                return self._reply.answer
            except GatewayProblem as error:
                if error.problem.code is not ProblemCode.UNAVAILABLE:
                    raise
                if self.left <= 0:
                    if self._reply is None:
                        raise
                    return self._reply.answer
                await asyncio.sleep(min(_AGAIN, self.left))

    async def _ask(self) -> Reply[Operation]:
        poll: dict[str, Any] = {}
        if self._reply is not None:
            wait = round(max(0.0, min(self.left, _POLL)), 1)
            poll = {"wait": wait, "since": self._reply.version, "timeout": wait + _GRACE}
        try:
            async with asyncio.timeout(max(0.0, self.left) + _GRACE):
                return await self._who.gateway.reply(endpoints.GET_OPERATION, id=self._operation, **poll)
        except TimeoutError:
            raise GatewayProblem(
                problem(
                    ProblemCode.UNAVAILABLE,
                    "the gateway did not answer in time",
                    remedy="Nothing is lost: operations go on. Wait again.",
                )
            ) from None

    async def report(self, now: Operation) -> None:
        """Tell the client how far it is. Progress grows with every report, as the protocol has it: between two stages
        by less and less."""
        finished = sum(stage.state.finished for stage in now.stages)
        between = self._reported + (finished + 1 - self._reported) / 16
        self._reported = max(float(finished), between)
        await self._who.context.report_progress(self._reported, len(now.stages) or None, line(now))


def line(operation: Operation) -> str:
    """What it does now, in one line."""
    running = [stage for stage in operation.stages if not stage.state.finished and stage.started_at]
    return operation.detail or (
        "; ".join(f"{stage.title}: {stage.detail}" if stage.detail else stage.title for stage in running)
        or operation.phase.value
    )


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
) -> Listing:
    """Operations of all clusters, or of the one that is named: running ones first, then ended ones, the newest first.

    Use it to find where a task stands after a break, and what waits for somebody. Here an absent cluster means all.
    """
    page = await who.get(
        endpoints.LIST_OPERATIONS,
        cluster=cluster,
        kind=kind,
        phase=phase,
        needs_attention=needs_attention,
        page_size=page_size,
        page_token=page_token,
    )
    return listing(page)


@tools.tool("Wait some seconds")
async def wait_seconds(
    who: Who,
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False, description="More than 300 are capped to 300.")],
) -> Waited:
    """Do nothing for a while, 300 seconds at most; the answer says how long it was. To wait for an operation use
    operation_wait instead: it returns at the first news."""
    pause = min(seconds, float(LONGEST_PAUSE))
    until = time.monotonic() + pause
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 10.0))
        await who.context.report_progress(pause - max(0.0, until - time.monotonic()), pause, "waiting")
    return Waited(seconds=pause, asked=seconds)
