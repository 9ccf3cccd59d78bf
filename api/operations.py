"""Reading operations: lists, one at a time, long polls, and event streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import StringConstraints
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from api import pages
from api.auth import Reader
from api.filters import ZONED, Moment, any_of, clause, phase_clause, started
from api.mapping import Linker, Seen, from_row
from api.past import never_begun
from api.problems import refuse, wrong_field
from api.rows import Row
from api.services import Parts, Services, reply, state_headers
from api.streams import event_stream
from contracts import queues, visibility
from contracts.answers import OperationPage, OperationSpec
from contracts.catalogue import KINDS
from contracts.durations import Durations
from contracts.model import Model
from contracts.operation import Operation, Phase
from contracts.problem import ProblemCode

router = APIRouter(prefix="/api/v1/operations", tags=["operations"])
durations_router = APIRouter(prefix="/api/v1/durations", tags=["operations"])

LONGEST_WAIT = 60
_RETRY_MILLISECONDS = 3000

OperationId = Annotated[
    str,
    Path(
        description="The operation's id. Its slashes may stand as they are or percent-encoded.",
        examples=["create-cluster/demo"],
        max_length=600,
    ),
]
RunId = Annotated[str | None, Query(description="One run of several with the same id; the newest if absent.")]
PageSize = Annotated[int, Query(ge=1, le=pages.MAXIMUM_PAGE_SIZE)]
PageToken = Annotated[str | None, Query(description="next_page_token of the page before.", max_length=2000)]
Kind = Annotated[str, Query(description="A kind of operation.", examples=["create-cluster"], max_length=100)]
OneWord = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f]*$")]
Word = Annotated[OneWord | None, Query()]


def page_reply(page: Model) -> Response:
    """A page; a token that is null is left out (the items keep their nulls)."""
    token = getattr(page, "next_page_token", None)
    content = page.model_dump_json(by_alias=True, exclude={"next_page_token"} if token is None else None)
    return Response(content, media_type="application/json")


async def list_page(
    services: Services, linker: Linker, conditions: list[str | None], size: int, token: str | None
) -> OperationPage:
    """A page of the operations that meet every condition. Raises ProblemError (422) for a token of another list."""
    kinds = ", ".join(f"'{name}'" for name in KINDS)
    query = " AND ".join([f"WorkflowType IN ({kinds})", *filter(None, conditions)])
    found = await services.temporal.list(query, size, pages.unseal(query, token))
    rows = await _operations(found.rows, linker)
    return OperationPage(operations=rows, next_page_token=pages.seal(query, found.position) if found.position else None)


async def _operations(rows: list[Row], linker: Linker) -> list[Operation]:
    seen = [await from_row(row) for row in rows]
    return [linker.on(each).operation for each in seen if each is not None]


@router.get("", operation_id="list_operations", response_model=OperationPage, summary="List operations")
async def list_operations(
    request: Request,
    services: Parts,
    _: Reader,
    cluster: Word = None,
    kind: Annotated[list[OneWord] | None, Query(max_length=50, description="Any of these kinds.")] = None,
    phase: Annotated[list[Phase] | None, Query(max_length=20, description="In any of these phases.")] = None,
    started_by: Word = None,
    needs_attention: bool | None = None,
    started_after: Annotated[Moment | None, Query(description=f"Started then or later. {ZONED}")] = None,
    started_before: Annotated[Moment | None, Query(description=f"Started earlier than then. {ZONED}")] = None,
    page_size: PageSize = 20,
    page_token: PageToken = None,
) -> Response:
    """Running operations first, the newest of them first; then ended ones, the last ended first. A start or a change
    shows after a moment."""
    attention = None
    if needs_attention is not None:
        waiting = f"{visibility.NEEDS_ATTENTION} = true AND ExecutionStatus = 'Running'"
        attention = waiting if needs_attention else f"NOT ({waiting})"
    conditions = [
        clause(visibility.CLUSTER, cluster),
        any_of(clause("WorkflowType", each) for each in kind or ()),
        any_of(phase_clause(each) for each in phase or ()),
        clause(visibility.STARTED_BY, started_by),
        attention,
        started(">=", started_after),
        started("<", started_before),
    ]
    return page_reply(await list_page(services, services.linker(request), conditions, page_size, page_token))


@durations_router.get("", operation_id="get_durations", response_model=Durations, summary="Get durations of operations")
async def get_durations(services: Parts, _: Reader, kind: Kind) -> Response:
    """How long the last operations of a kind that succeeded have taken, stage by stage, without what people took to
    answer. Without any, there are no stages."""
    if kind not in KINDS:
        raise wrong_field("/kind", f"there is no kind {kind!r} of operations", f"One of {', '.join(KINDS)}.")
    return reply(await services.durations.of(kind))


@router.get("/{id:path}/events", operation_id="watch_operation", summary="Watch an operation", tags=["streams"])
async def watch_operation(
    request: Request,
    services: Parts,
    _: Reader,
    id: OperationId,
    run_id: RunId = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> EventSourceResponse:
    """Server-sent events: ``progress`` with the operation whenever it changes, its version as the event's id; ``end``
    with the operation when it has ended. With ``Last-Event-ID``, begins behind what that reader has seen."""
    seen = await services.operation(unquote(id), run_id)
    return event_stream(services.settings, _events(services, services.linker(request), seen, last_event_id))


async def _events(
    services: Services, linker: Linker, first: Seen, last_event_id: str | None
) -> AsyncIterator[ServerSentEvent]:
    yield ServerSentEvent(comment="watching", retry=_RETRY_MILLISECONDS)
    if not first.open:
        if str(first.version) != last_event_id:
            yield _event("progress", first, linker)
        yield _event("end", first, linker)
        return
    async with services.hub.watch(first) as watch:
        seen = watch.latest
        if str(seen.version) != last_event_id or not seen.open:
            yield _event("progress", seen, linker)
        while seen.open:
            changed = await watch.change_from(seen)
            if changed is seen:  # the gateway stops, or the run is gone: the reader connects again
                return
            known, seen = seen, changed
            if seen.open or (seen.version, seen.operation.phase) != (known.version, known.operation.phase):
                yield _event("progress", seen, linker)
        yield _event("end", seen, linker)


def _event(name: str, seen: Seen, linker: Linker) -> ServerSentEvent:
    document = linker.on(seen).operation.model_dump_json(by_alias=True)
    return ServerSentEvent(document, event=name, id=str(seen.version))


@router.get(
    "/{id:path}/spec",
    operation_id="get_operation_spec",
    response_model=OperationSpec,
    summary="Get its spec",
)
async def get_operation_spec(services: Parts, _: Reader, id: OperationId, run_id: RunId = None) -> Response:
    """What is carried out, with every default, correction and answer since. A worker tells: without one, 503."""
    seen = await services.operation(unquote(id), run_id)
    run, queue = seen.operation.run_id, queues.WORKFLOWS
    spec = await services.temporal.query(seen.operation.id, queue, "spec", dict[str, Any], run)
    if spec is None and run is not None and not seen.open:
        spec = await never_begun(services.temporal, seen.operation.id, run)
    if spec is None:
        raise await services.temporal.no_answer()
    return reply(OperationSpec(kind=seen.operation.kind, cluster=seen.operation.cluster, spec=spec))


@router.get("/{id:path}", operation_id="get_operation", response_model=Operation, summary="Get an operation")
async def get_operation(
    request: Request,
    services: Parts,
    _: Reader,
    id: OperationId,
    run_id: RunId = None,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the next change (long poll).")
    ] = 0,
    since: Annotated[
        str | None,
        Query(
            max_length=20,
            pattern=r"^\d+$",
            description="With wait: the version (header Operation-Version) known; a newer one is answered at once.",
        ),
    ] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The operation as it is now. With ``wait``: at its next change (of anything but live details, unless
    If-None-Match is sent), or when the wait is over. 304 if If-None-Match still matches."""
    linker = services.linker(request)
    seen = await services.operation(unquote(id), run_id)
    known = _tags(if_none_match)
    if wait and seen.open and not seen.operation.phase.ended:
        seen = await _next_change(services, linker, seen, wait, int(since) if since is not None else None, known)
    linked = linker.on(seen)
    headers = state_headers(linked)
    if seen.open:
        headers["Retry-After"] = "5"
    if linked.etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return reply(linked.operation, headers=headers)


def _tags(header: str | None) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in (header or "").split(",") if tag.strip()}


async def _next_change(
    services: Services, linker: Linker, seen: Seen, wait: float, since: int | None, known: set[str]
) -> Seen:
    before = seen

    def changed(now: Seen) -> bool:
        if not now.open or now.operation.phase.ended:
            return True
        if since is not None:
            return now.version != since
        if known:
            return linker.on(now).etag not in known
        return now.moment != before.moment

    if changed(seen):
        return seen
    async with services.hub.watch(seen) as watch:
        seen = watch.latest
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not changed(seen):
                    following = await watch.change_from(seen)
                    if following is seen:
                        break
                    seen = following
        return watch.latest


def must_be_open(seen: Seen) -> None:
    """Raises ProblemError (409) with the phase if the operation has ended."""
    if not seen.open:
        raise refuse(
            ProblemCode.CONFLICT,
            f"{seen.operation.id} has ended: {seen.operation.phase}",
            operation=seen.operation.id,
            remedy="Start it again if there is more to do; finished stages are not done again.",
        )
