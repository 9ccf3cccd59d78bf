"""Questions to tracking servers that the gateway asks and waits for; see ``workflows/lookups.py``."""

from __future__ import annotations

from temporalio import workflow

from contracts.catalogue import (
    COMPARE_RUNS_WORKFLOW,
    LIST_EXPERIMENTS_WORKFLOW,
    LIST_TRACKING_SERVERS_WORKFLOW,
    OPEN_TRACKING_SERVER_WORKFLOW,
    READ_RUN_WORKFLOW,
    READ_TRACKING_SERVER_WORKFLOW,
    SEARCH_RUNS_WORKFLOW,
    TRY_CONNECTION_WORKFLOW,
)
from contracts.experiment_runs import (
    COMPARE_RUNS,
    LIST_EXPERIMENTS,
    READ_RUN,
    SEARCH_RUNS,
    CompareRuns,
    ExperimentsRead,
    ListExperiments,
    ReadRun,
    RunComparison,
    RunDetail,
    RunsRead,
    SearchRuns,
)
from contracts.experiments import TRY_CONNECTION, ConnectionTest, TryConnection
from contracts.tracking_servers import (
    LIST_TRACKING_SERVERS,
    OPEN_TRACKING_SERVER,
    READ_TRACKING_SERVER,
    ListTrackingServers,
    OpenTrackingServer,
    ReadTrackingServer,
    SealedLink,
    TrackingServerDetail,
    TrackingServerList,
)
from workflows.lookups import answer


@workflow.defn(name=LIST_TRACKING_SERVERS_WORKFLOW, sandboxed=False)
class ListTrackingServersWorkflow:
    @workflow.run
    async def run(self, question: ListTrackingServers) -> TrackingServerList:
        return await answer(LIST_TRACKING_SERVERS, question, question.scope.region)


@workflow.defn(name=READ_TRACKING_SERVER_WORKFLOW, sandboxed=False)
class ReadTrackingServerWorkflow:
    @workflow.run
    async def run(self, question: ReadTrackingServer) -> TrackingServerDetail:
        return await answer(READ_TRACKING_SERVER, question, question.scope.region)


@workflow.defn(name=OPEN_TRACKING_SERVER_WORKFLOW, sandboxed=False)
class OpenTrackingServerWorkflow:
    @workflow.run
    async def run(self, question: OpenTrackingServer) -> SealedLink:
        return await answer(OPEN_TRACKING_SERVER, question, question.scope.region)


@workflow.defn(name=LIST_EXPERIMENTS_WORKFLOW, sandboxed=False)
class ListExperimentsWorkflow:
    @workflow.run
    async def run(self, question: ListExperiments) -> ExperimentsRead:
        return await answer(LIST_EXPERIMENTS, question, question.scope.region)


@workflow.defn(name=SEARCH_RUNS_WORKFLOW, sandboxed=False)
class SearchRunsWorkflow:
    @workflow.run
    async def run(self, question: SearchRuns) -> RunsRead:
        return await answer(SEARCH_RUNS, question, question.scope.region)


@workflow.defn(name=READ_RUN_WORKFLOW, sandboxed=False)
class ReadRunWorkflow:
    @workflow.run
    async def run(self, question: ReadRun) -> RunDetail:
        return await answer(READ_RUN, question, question.scope.region)


@workflow.defn(name=COMPARE_RUNS_WORKFLOW, sandboxed=False)
class CompareRunsWorkflow:
    @workflow.run
    async def run(self, question: CompareRuns) -> RunComparison:
        return await answer(COMPARE_RUNS, question, question.scope.region)


@workflow.defn(name=TRY_CONNECTION_WORKFLOW, sandboxed=False)
class TryConnectionWorkflow:
    @workflow.run
    async def run(self, question: TryConnection) -> ConnectionTest:
        return await answer(TRY_CONNECTION, question, question.scope.region)
