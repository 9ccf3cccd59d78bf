"""Logs of pods and of training runs: pages, live streams and downloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query
from sse_starlette import EventSourceResponse
from starlette.responses import Response, StreamingResponse

from api import log_pages
from api.auth import Reader
from api.filters import ZONED, Moment
from api.log_watch import Watch, begin, guarded_events
from api.managed import NAMESPACE, Tag, with_control_plane
from api.problems import parse, refuse
from api.services import Parts, Services, reply
from api.streams import EVENTS, event_stream
from contracts import names
from contracts.catalogue import RUN_TRAINING
from contracts.log_lines import Level, Line, stamp
from contracts.logs import MOST_LINES, KeptPlace, LogPage, LogSearch, LogSource, OwnerRef, PageTold, ReadLogs
from contracts.names import KUBERNETES_NAME, LABEL_TRAINING, TRAINING_NAME, namespaced
from contracts.problem import ProblemCode

router = APIRouter(prefix="/api/v1/clusters/{tag}/pods/{namespace}/{pod}/logs", tags=["logs"])
runs_router = APIRouter(prefix="/api/v1/clusters/{tag}/training-runs/{name}/logs", tags=["logs"])

OBJECT: dict[str, Any] = {"max_length": 253, "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
RUN_OWNERS = (("sagemaker.amazonaws.com/v1", "hyperpodpytorchjobs"), ("ray.io/v1", "rayjobs"))
"""What the pods of a run may work for, by its submission path."""

Namespace = Annotated[str, Path(description="The pod's namespace.", examples=["default"], **NAMESPACE)]
Pod = Annotated[str, Path(description="The pod's name.", examples=["qwen3-sft-pods-0"], **OBJECT)]
Name = Annotated[
    str,
    Path(
        description="The run's name.",
        examples=["qwen3-sft"],
        max_length=TRAINING_NAME.maximum,
        pattern=f"^{TRAINING_NAME.pattern}$",
    ),
]
RunNamespace = Annotated[str, Query(description="The run's namespace.", **NAMESPACE)]
Container = Annotated[
    str | None,
    Query(
        description="Without it: of a pod its main container, of a run all.",
        max_length=KUBERNETES_NAME.maximum,
        pattern=f"^{KUBERNETES_NAME.pattern}$",
    ),
]
OnlyPod = Annotated[str | None, Query(description="Only this pod of the run.", **OBJECT)]
Run = Annotated[
    str | None,
    Query(
        description="The execution (run_id of its operation) whose kept logs are read; without it the newest.",
        max_length=64,
        pattern=r"^[0-9a-zA-Z-]+$",
    ),
]
Rank = Annotated[int | None, Query(ge=0, description="Only the pod of this rank.")]
Previous = Annotated[bool, Query(description="Of the container's start before its last one.")]
Cursor = Annotated[str | None, Query(max_length=20_000, description="Read on behind a page: its `cursor`.")]
Tail = Annotated[int | None, Query(ge=0, le=MOST_LINES, description="Only so many of the newest lines.")]
Since = Annotated[Moment | None, Query(description=f"Nothing from before then. {ZONED}")]
Limit = Annotated[int, Query(ge=1, le=MOST_LINES, description="Lines of a page.")]
LastEventId = Annotated[str | None, Header(max_length=20_000)]
Timestamps = Annotated[bool, Query(description="Begin each line with its time.")]

PLAIN: dict[int | str, dict[str, Any]] = {
    200: {"description": "The log.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`lines` with `{lines: [LogLine]}`; `pods` with the containers and what they do; `gap` where "
        "lines were lost; at last `end` with a `reason`, or `problem`.",
        "content": EVENTS,
    }
}


def _wanted(
    search: Annotated[
        str | None, Query(min_length=1, max_length=500, description="Only lines with this text, whatever its case.")
    ] = None,
    regex: Annotated[bool, Query(description="`search` is a regular expression.")] = False,
    level: Annotated[
        Level | None, Query(description="Only lines that say that they are this grave, or graver.")
    ] = None,
) -> LogSearch:
    return parse(LogSearch, {"search": search, "regex": regex, "level": level})


Wanted = Annotated[LogSearch, Depends(_wanted)]


@dataclass(frozen=True)
class Log:
    """Whose log is asked for."""

    services: Services
    source: LogSource

    async def page(self, question: ReadLogs) -> tuple[list[Line], PageTold]:
        return await log_pages.read_page(self.services.temporal, question)

    async def answer(self, question: ReadLogs) -> Response:
        lines, told = await self.page(question)
        await self.must_be(told)
        return reply(log_pages.shown(lines, told))

    async def must_be(self, told: PageTold) -> None:
        """Raises ProblemError (404) where there is neither a pod nor a kept log nor a run of the name, or not the
        execution that is asked for."""
        name = self.source.selector.get(LABEL_TRAINING)
        if told.streams or name is None:
            return
        target = namespaced(name, self.source.namespace)
        operation = names.operation_id(RUN_TRAINING.name, self.source.cluster, target)
        newest = await self.services.temporal.find(operation)
        if newest is None:
            remedy = f"GET /api/v1/clusters/{self.source.cluster}/training-runs lists those in the cluster."
            raise refuse(ProblemCode.NOT_FOUND, f"there is no training run {target}, nor a log of it", remedy=remedy)
        run = self.source.run
        if run is not None and await self.services.temporal.find(operation, run) is None:
            detail = f"the training run {target} has no execution {run}, nor is a log of it kept"
            remedy = f"Its newest is {newest.run_id}; leave `run` out to read that."
            raise refuse(ProblemCode.NOT_FOUND, detail, remedy=remedy, field="/run")

    async def stream(self, question: ReadLogs, wanted: LogSearch, last_event_id: str | None) -> EventSourceResponse:
        resumed = log_pages.opened(last_event_id, "/Last-Event-ID")
        begun = await begin(self.services.logs, question, resumed)
        if begun.told is not None:
            await self.must_be(begun.told)
        whole = self.source.model_copy(update={"pod": None}) if self.source.selector else self.source
        pod = self.source.pod if self.source.selector else None
        watch = Watch(self.services.logs, whole, wanted, pod, begun)
        return event_stream(self.services.settings, guarded_events(watch))

    async def download(self, question: ReadLogs, timestamps: bool, name: str) -> Response:
        """The first page is read before the answer begins, so that what is not there is a problem. Where a later one
        cannot be read, the answer breaks off: no half log looks like a whole one."""
        pages = log_pages.all_pages(self.services.temporal, question)
        first, told = await anext(pages)
        await self.must_be(told)
        labelled = bool(self.source.selector) and self.source.pod is None

        async def text() -> AsyncIterator[bytes]:
            yield _text(first, timestamps, labelled)
            async for lines, _ in pages:
                yield _text(lines, timestamps, labelled)

        headers = {"Content-Disposition": f'attachment; filename="{name}.log"', "X-Content-Type-Options": "nosniff"}
        return StreamingResponse(text(), media_type="text/plain; charset=utf-8", headers=headers)


def _text(lines: list[Line], timestamps: bool, labelled: bool) -> bytes:
    rows = []
    for line in lines:
        begin = f"{stamp(line.position.at)} " if timestamps else ""
        begin += f"[{line.stream.pod}/{line.stream.container}] " if labelled else ""
        rows.append(f"{begin}{line.text}\n")
    return "".join(rows).encode(errors="replace")


async def _pod_log(
    services: Parts, _: Reader, tag: Tag, namespace: Namespace, pod: Pod, container: Container = None
) -> Log:
    record, control_plane = await with_control_plane(services, tag, f"pod {namespace}/{pod}")
    source = LogSource(
        cluster=tag,
        region=record.region,
        eks_cluster=control_plane.name,
        namespace=namespace,
        pod=pod,
        container=container,
    )
    return Log(services, source)


async def _run_log(
    services: Parts,
    _: Reader,
    tag: Tag,
    name: Name,
    namespace: RunNamespace = "default",
    pod: OnlyPod = None,
    container: Container = None,
    run: Run = None,
) -> Log:
    record, control_plane = await with_control_plane(services, tag, "training runs")
    bucket = record.identity.bucket if record.identity is not None else None
    kept = None
    if bucket is not None:
        prefix = names.training_run_prefix(namespace, name, "").rstrip("/")
        kept = KeptPlace(bucket=bucket, prefix=prefix)
    source = LogSource(
        cluster=tag,
        region=record.region,
        eks_cluster=control_plane.name,
        namespace=namespace,
        pod=pod,
        container=container,
        selector={LABEL_TRAINING: name},
        owners=[OwnerRef(api_version=version, plural=plural, name=name) for version, plural in RUN_OWNERS],
        run=run,
        kept=kept,
    )
    return Log(services, source)


PodLog = Annotated[Log, Depends(_pod_log)]
RunLog = Annotated[Log, Depends(_run_log)]


@router.get("", operation_id="read_pod_log", response_model=LogPage, summary="Read a pod's log")
async def read_pod_log(
    log: PodLog,
    wanted: Wanted,
    previous: Previous = False,
    since: Since = None,
    tail: Tail = None,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Response:
    """A page of what a container has printed, from its first line or from ``since`` on, or (``tail``) its newest lines.
    It goes over the last restart of the container. What looks like a secret is taken out."""
    return await log.answer(
        ReadLogs(
            source=log.source,
            wanted=wanted,
            previous=previous,
            since=since,
            tail=tail,
            lines=limit,
            position=_checked(cursor),
        )
    )


@router.get("/stream", operation_id="watch_pod_log", summary="Watch a pod's log", responses=STREAM)
async def watch_pod_log(
    log: PodLog,
    wanted: Wanted,
    since: Since = None,
    tail: Tail = 100,
    last_event_id: LastEventId = None,
) -> EventSourceResponse:
    """What a container prints, as server-sent events, over its restarts and until its pod is over; a pod that has not
    started is waited for. Begins with the newest lines (``tail``), or behind what ``Last-Event-ID`` says was seen."""
    question = ReadLogs(source=log.source, wanted=wanted, since=since, tail=None if since is not None else tail)
    return await log.stream(question, wanted, last_event_id)


@router.get("/download", operation_id="download_pod_log", summary="Download a pod's log", responses=PLAIN)
async def download_pod_log(
    log: PodLog, wanted: Wanted, previous: Previous = False, since: Since = None, timestamps: Timestamps = True
) -> Response:
    """All that a container has printed up to now, as text."""
    question = ReadLogs(source=log.source, wanted=wanted, previous=previous, since=since, lines=MOST_LINES)
    return await log.download(question, timestamps, f"{log.source.pod}")


@runs_router.get("", operation_id="read_training_log", response_model=LogPage, summary="Read a run's log")
async def read_training_log(
    log: RunLog,
    wanted: Wanted,
    rank: Rank = None,
    since: Since = None,
    tail: Tail = None,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Response:
    """A page of the logs of all pods of a training run, merged in the order of their times; of pods that are gone, what
    was kept."""
    return await log.answer(
        ReadLogs(
            source=log.source,
            wanted=wanted.model_copy(update={"rank": rank}),
            since=since,
            tail=tail,
            lines=limit,
            position=_checked(cursor),
        )
    )


@runs_router.get("/stream", operation_id="watch_training_log", summary="Watch a run's log", responses=STREAM)
async def watch_training_log(
    log: RunLog,
    wanted: Wanted,
    rank: Rank = None,
    since: Since = None,
    tail: Tail = 100,
    last_event_id: LastEventId = None,
) -> EventSourceResponse:
    """What the pods of a run print, merged, as server-sent events, until the run has ended: also of pods that come
    later."""
    wanted = wanted.model_copy(update={"rank": rank})
    question = ReadLogs(source=log.source, wanted=wanted, since=since, tail=None if since is not None else tail)
    return await log.stream(question, wanted, last_event_id)


@runs_router.get("/download", operation_id="download_training_log", summary="Download a run's log", responses=PLAIN)
async def download_training_log(
    log: RunLog, wanted: Wanted, rank: Rank = None, since: Since = None, timestamps: Timestamps = True
) -> Response:
    """All that the pods of a run have printed up to now, and what was kept of those that are gone, as text."""
    wanted = wanted.model_copy(update={"rank": rank})
    question = ReadLogs(source=log.source, wanted=wanted, since=since, lines=MOST_LINES)
    return await log.download(question, timestamps, log.source.selector[LABEL_TRAINING])


def _checked(cursor: str | None) -> str | None:
    log_pages.opened(cursor, "/cursor")
    return cursor
