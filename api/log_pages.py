"""Pages of logs: a short workflow whose activity tells the page in its heartbeat, and is told when it was taken.

The text is in no history: see ``contracts/logs.py``.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import WorkflowExecutionDescription, WorkflowHandle
from temporalio.service import RPCError

from api.problems import ProblemError, wrong_field
from api.temporal import Temporal
from contracts.catalogue import READ_LOGS_WORKFLOW
from contracts.log_lines import Line, LogLine, Positions, level_of, stamp, unpack
from contracts.logs import LONGEST_READ, LogPage, LogsRead, LogStream, PageTold, ReadLogs

_LOOK_SECONDS = (0.03, 0.05, 0.1, 0.2)
"""Between looks for the page; the last goes on."""
_RPC = timedelta(seconds=5)
_MORE = timedelta(seconds=20)


async def read_page(temporal: Temporal, question: ReadLogs) -> tuple[list[Line], PageTold]:
    """Ask for a page. Raises ProblemError with the activity's problem, 503 where no worker would read."""
    identifier = f"{READ_LOGS_WORKFLOW}/{question.source.cluster}/{uuid.uuid4()}"
    handle = await temporal.begin(READ_LOGS_WORKFLOW, question, identifier, LogsRead, LONGEST_READ + _MORE)
    finished = asyncio.ensure_future(temporal.result(handle))
    try:
        looks = 0
        while not finished.done():
            await asyncio.wait([finished], timeout=_LOOK_SECONDS[min(looks, len(_LOOK_SECONDS) - 1)])
            looks += 1
            if finished.done():
                break
            with suppress(ProblemError):
                if (told := await _told(await temporal.find(identifier))) is not None:
                    return unpack(told.lines), told
        finished.result()
        raise await temporal.no_answer()
    finally:
        if not finished.done():
            finished.cancel()
            await _taken(handle)


async def all_pages(temporal: Temporal, question: ReadLogs) -> AsyncIterator[tuple[list[Line], PageTold]]:
    """Everything that there is, page by page. Raises ProblemError."""
    while True:
        lines, told = await read_page(temporal, question)
        yield lines, told
        if told.end:
            return
        question = question.model_copy(update={"position": told.position})


def shown(lines: list[Line], told: PageTold) -> LogPage:
    """A page as callers get it."""
    ranks = ranks_of(told.streams)
    return LogPage(
        lines=[
            LogLine(
                at=stamp(line.position.at),
                pod=line.stream.pod,
                container=line.stream.container,
                rank=ranks.get((line.stream.pod, line.stream.container)),
                restart=line.position.restart,
                level=level_of(line.text),
                text=line.text,
            )
            for line in lines
        ],
        cursor=told.position,
        end=told.end,
        streams=told.streams,
        gaps=told.gaps,
        read_at=datetime.now(UTC),
    )


def ranks_of(streams: list[LogStream]) -> dict[tuple[str, str], int | None]:
    return {(each.pod, each.container): each.rank for each in streams}


def opened(cursor: str | None, field: str) -> Positions | None:
    """A position that a caller sends back. Raises ProblemError (422) for a text that is none."""
    if cursor is None:
        return None
    try:
        return Positions.opened(cursor) if cursor else Positions()
    except ValueError as error:
        remedy = "Send the cursor of a page, or the id of an event, as it came; or none to begin."
        raise wrong_field(field, "this is no position in a log", remedy) from error


async def heartbeat(found: WorkflowExecutionDescription | None) -> bytes | None:
    """What the running activity last told, as JSON; None where it has told nothing."""
    if found is not None:
        for pending in found.raw_description.pending_activities:
            if pending.HasField("heartbeat_details"):
                payloads = pending.heartbeat_details.payloads[:1]
                codec = found.data_converter.payload_codec
                # Decrypted alone: the JSON is read once, as what it is.
                told: bytes = (payloads if codec is None else await codec.decode(payloads))[0].data
                return told
    return None


async def _told(found: WorkflowExecutionDescription | None) -> PageTold | None:
    told = await heartbeat(found)
    return None if told is None else PageTold.model_validate_json(told)


async def _taken(handle: WorkflowHandle[Any, Any]) -> None:
    """Let the activity end; without hearing of it, it does so by itself."""
    with suppress(RPCError, RuntimeError):
        await asyncio.shield(handle.signal("taken", rpc_timeout=_RPC))
