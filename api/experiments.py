"""Experiments: the history of runs, runs beside each other, the way to a tracking server, and copies elsewhere."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

from api import pages
from api.auth import Reader
from api.managed import STARTS, Start, Tag, asking, known
from api.operations import page_reply
from api.run_table import table
from api.services import Parts, Services, reply
from api.tracking_servers import parsed
from contracts import catalogue
from contracts.catalogue import (
    COMPARE_RUNS_WORKFLOW,
    LIST_EXPERIMENTS_WORKFLOW,
    READ_RUN_WORKFLOW,
    SEARCH_RUNS_WORKFLOW,
    TRY_CONNECTION_WORKFLOW,
)
from contracts.cluster import ClusterRecord
from contracts.experiment_runs import (
    MOST_COMPARED,
    MOST_METRICS,
    MOST_POINTS,
    CompareRuns,
    ExperimentList,
    ExperimentsRead,
    ListExperiments,
    ReadRun,
    RunComparison,
    RunDetail,
    RunId,
    RunList,
    RunsRead,
    RunsWanted,
    RunView,
    SearchRuns,
)
from contracts.experiments import (
    ConnectExperimentsSpec,
    ConnectionTest,
    ConnectionTestRequest,
    DisconnectExperimentsSpec,
    ExperimentName,
    SyncExperimentsSpec,
    TryConnection,
)
from contracts.model import Model
from contracts.tracking_servers import ServerReference

router = APIRouter(prefix="/api/v1/clusters/{tag}/experiments", tags=["experiments"])

MOST_EXPORTED = 5000
EXPORT_PAGE = 200
TRUNCATED = "InstantStart-Truncated"

Server = Annotated[
    str,
    Query(
        description="A tracking server of the cluster's region by name, or any tracking server or MLflow app by ARN.",
        examples=["research"],
        max_length=400,
    ),
]
Wanted = Annotated[RunsWanted, Query(description="Active ones, deleted ones, or all.")]
Names = Annotated[
    list[str] | None, Query(alias="experiment", max_length=20, description="Of these experiments; absent: of all.")
]
Filter = Annotated[
    str | None,
    Query(description="In MLflow's search syntax, e.g. ``metrics.loss < 1 and params.lr = '0.1'``.", max_length=2000),
]
Order = Annotated[
    list[str] | None,
    Query(max_length=5, description="In MLflow's syntax, e.g. ``metrics.loss ASC``; absent: the newest first."),
]
RunsPageSize = Annotated[int, Query(ge=1, le=pages.MAXIMUM_PAGE_SIZE)]
RunsPageToken = Annotated[str | None, Query(description="next_page_token of the page before.", max_length=4000)]
Metrics = Annotated[list[str] | None, Query(alias="metric", max_length=MOST_METRICS, description="Of these metrics.")]
Points = Annotated[int, Query(ge=2, le=MOST_POINTS, description="At most so many of a metric of a run.")]


class Search(Model):
    """What a query asks for, held to the rules of a body."""

    tracking_server: ServerReference
    experiment: list[ExperimentName] = Field(default_factory=list)


class Runs(Model):
    tracking_server: ServerReference
    run: list[RunId] = Field(min_length=1, max_length=MOST_COMPARED)


@router.get("", operation_id="list_experiments", response_model=ExperimentList, summary="List experiments")
async def list_experiments(
    services: Parts,
    principal: Reader,
    tag: Tag,
    tracking_server: Server,
    wanted: Wanted = "active",
    page_size: RunsPageSize = 50,
    page_token: RunsPageToken = None,
) -> Response:
    """Experiments of a tracking server, the last changed first."""
    record = await known(services, tag)
    server = parsed(Search, tracking_server=tracking_server).tracking_server
    listing = json.dumps(["experiments", tag, server, wanted])
    position = pages.unseal(listing, page_token)
    question = ListExperiments(
        scope=asking(record, principal.name, LIST_EXPERIMENTS_WORKFLOW),
        tracking_server=server,
        wanted=wanted,
        position=None if position is None else position.decode(errors="replace"),
        size=page_size,
    )
    found = await services.lookups.read(LIST_EXPERIMENTS_WORKFLOW, tag, question, ExperimentsRead)
    return page_reply(
        ExperimentList(
            tracking_server=found.server,
            experiments=found.experiments,
            next_page_token=None if found.position is None else pages.seal(listing, found.position.encode()),
            read_at=found.read_at,
        )
    )


@router.get("/runs", operation_id="search_runs", response_model=RunList, summary="Search runs")
async def search_runs(
    services: Parts,
    principal: Reader,
    tag: Tag,
    tracking_server: Server,
    experiments: Names = None,
    filter: Filter = None,
    order_by: Order = None,
    wanted: Wanted = "active",
    page_size: RunsPageSize = 50,
    page_token: RunsPageToken = None,
) -> Response:
    """Runs with their last metrics, parameters and tags. A page may hold fewer than asked for where runs are large."""
    record = await known(services, tag)
    asked = parsed(Search, tracking_server=tracking_server, experiment=experiments or [])
    order = order_by or []
    listing = json.dumps(["runs", tag, asked.tracking_server, asked.experiment, filter, order, wanted])
    position = pages.unseal(listing, page_token)
    question = _search(record, principal.name, asked, filter, order, wanted).model_copy(
        update={"position": None if position is None else position.decode(errors="replace"), "size": page_size}
    )
    found = await services.lookups.read(SEARCH_RUNS_WORKFLOW, tag, question, RunsRead)
    return page_reply(
        RunList(
            tracking_server=found.server,
            runs=found.runs,
            next_page_token=None if found.position is None else pages.seal(listing, found.position.encode()),
            read_at=found.read_at,
        )
    )


@router.get(
    "/runs.csv",
    operation_id="export_runs",
    summary="Export runs",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def export_runs(
    services: Parts,
    principal: Reader,
    tag: Tag,
    tracking_server: Server,
    experiments: Names = None,
    filter: Filter = None,
    order_by: Order = None,
    wanted: Wanted = "active",
    limit: Annotated[int, Query(ge=1, le=MOST_EXPORTED, description="At most so many runs.")] = MOST_EXPORTED,
) -> Response:
    """Runs as CSV (RFC 4180, UTF-8): a column for every metric, parameter and tag that any of them has. Cells that a
    spreadsheet would take for formulas begin with an apostrophe. Where there are more runs than ``limit``, the header
    InstantStart-Truncated says so."""
    record = await known(services, tag)
    asked = parsed(Search, tracking_server=tracking_server, experiment=experiments or [])
    question = _search(record, principal.name, asked, filter, order_by or [], wanted)
    runs, more = await _all(services, tag, question, limit)
    headers = {"Content-Disposition": f'attachment; filename="{record.tag}-runs.csv"'}
    if more:
        headers[TRUNCATED] = "true"
    return Response(table(runs), media_type="text/csv; charset=utf-8", headers=headers)


def _search(
    record: ClusterRecord, by: str, asked: Search, filter: str | None, order: list[str], wanted: RunsWanted
) -> SearchRuns:
    return SearchRuns(
        scope=asking(record, by, SEARCH_RUNS_WORKFLOW),
        tracking_server=asked.tracking_server,
        experiments=asked.experiment,
        filter=filter or None,
        order_by=order,
        wanted=wanted,
    )


async def _all(services: Services, tag: str, question: SearchRuns, limit: int) -> tuple[list[RunView], bool]:
    """Up to ``limit`` runs over all pages, and whether there are more."""
    runs: list[RunView] = []
    position: str | None = None
    while len(runs) < limit:
        size = min(EXPORT_PAGE, limit - len(runs))
        page = question.model_copy(update={"position": position, "size": size})
        found = await services.lookups.read(SEARCH_RUNS_WORKFLOW, tag, page, RunsRead)
        runs += found.runs
        if (position := found.position) is None:
            return runs, False
    return runs, True


@router.get("/runs/{run_id}", operation_id="get_run", response_model=RunDetail, summary="Get a run")
async def get_run(
    services: Parts,
    principal: Reader,
    tag: Tag,
    run_id: Annotated[str, Path(description="MLflow's ID of the run.", max_length=64)],
    tracking_server: Server,
    metrics: Metrics = None,
    points: Points = MOST_POINTS,
) -> Response:
    """A run with the histories of its metrics, sampled where they are long."""
    record = await known(services, tag)
    asked = parsed(Runs, tracking_server=tracking_server, run=[run_id])
    question = ReadRun(
        scope=asking(record, principal.name, READ_RUN_WORKFLOW),
        tracking_server=asked.tracking_server,
        run_id=run_id,
        metrics=metrics or [],
        points=points,
    )
    return reply(await services.lookups.read(READ_RUN_WORKFLOW, tag, question, RunDetail))


@router.get("/comparison", operation_id="compare_runs", response_model=RunComparison, summary="Compare runs")
async def compare_runs(
    services: Parts,
    principal: Reader,
    tag: Tag,
    tracking_server: Server,
    run: Annotated[list[str], Query(max_length=MOST_COMPARED, description="IDs of runs.")],
    metrics: Metrics = None,
    points: Points = MOST_POINTS,
) -> Response:
    """Metrics of several runs over the same steps, and the parameters in which they differ."""
    record = await known(services, tag)
    asked = parsed(Runs, tracking_server=tracking_server, run=list(dict.fromkeys(run)))
    question = CompareRuns(
        scope=asking(record, principal.name, COMPARE_RUNS_WORKFLOW),
        tracking_server=asked.tracking_server,
        run_ids=asked.run,
        metrics=metrics or [],
        points=points,
    )
    return reply(await services.lookups.read(COMPARE_RUNS_WORKFLOW, tag, question, RunComparison))


@router.post("/test", operation_id="test_experiments", response_model=ConnectionTest, summary="Test a connection")
async def test_experiments(services: Parts, principal: Reader, tag: Tag, body: ConnectionTestRequest) -> Response:
    """The way to a tracking server step by step; the first step that fails says what to do. Changes nothing."""
    record = await known(services, tag)
    question = TryConnection(
        scope=asking(record, principal.name, TRY_CONNECTION_WORKFLOW),
        eks_cluster=None if record.control_plane is None else record.control_plane.name,
        tracking_server=body.tracking_server,
        namespace=body.namespace,
        service_account=body.service_account,
    )
    return reply(await services.lookups.read(TRY_CONNECTION_WORKFLOW, tag, question, ConnectionTest))


@router.post("/connections", operation_id="connect_experiments", summary="Let training report", **STARTS)
async def connect_experiments(start: Start, tag: Tag, body: ConnectExperimentsSpec) -> Response:
    """Pods of a namespace that run as the service account may report to the tracking server, and to no other."""
    return await start.on(catalogue.CONNECT_EXPERIMENTS, tag, body)


@router.delete(
    "/connections/{namespace}", operation_id="disconnect_experiments", summary="Let training report no more", **STARTS
)
async def disconnect_experiments(
    start: Start,
    tag: Tag,
    namespace: Annotated[str, Path(description="The namespace of the pods.", max_length=63)],
    service_account: Annotated[str | None, Query(max_length=63, description="Absent: ``experiments``.")] = None,
    tracking_server: Annotated[str | None, Query(max_length=400, description="Absent: from all.")] = None,
) -> Response:
    """With the last tracking server go the service account, its association and its role."""
    given: dict[str, Any] = {"namespace": namespace, "service_account": service_account}
    given["tracking_server"] = tracking_server
    members = {key: value for key, value in given.items() if value is not None}
    return await start.on(catalogue.DISCONNECT_EXPERIMENTS, tag, parsed(DisconnectExperimentsSpec, **members))


@router.post("/sync", operation_id="sync_experiments", summary="Copy an experiment", **STARTS)
async def sync_experiments(start: Start, tag: Tag, body: SyncExperimentsSpec) -> Response:
    """Runs with metrics, parameters and tags to another tracking server, also of another account; what was copied
    before is brought up to date."""
    return await start.on(catalogue.SYNC_EXPERIMENTS, tag, body)
