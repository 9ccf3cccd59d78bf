"""Fake workflows of tracking servers and experiments."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.experiment_runs import (
    CompareRuns,
    ExperimentsRead,
    ExperimentView,
    ListExperiments,
    ReadRun,
    RunComparison,
    RunDetail,
    RunsRead,
    RunView,
    SearchRuns,
)
from contracts.experiments import ConnectionStep, ConnectionTest, TryConnection
from contracts.problem import ProblemCode
from contracts.tracking_servers import (
    Connection,
    ListTrackingServers,
    OpenTrackingServer,
    ReadTrackingServer,
    SealedLink,
    ServerKind,
    ServerState,
    TrackingServerDetail,
    TrackingServerList,
    TrackingServerView,
)
from tests.api.fake_readings import refuse

ARN = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/research"
APP = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/app-ABC123"
RUNS = [f"{number:032x}" for number in range(7)]
SEALED: dict[str, str] = {}
"""What a worker has sealed, by server; a test puts it there."""


def view(name: str) -> TrackingServerView:
    arn = name if name.startswith("arn:") else ARN
    kind = ServerKind.APP if "mlflow-app" in arn else ServerKind.TRACKING_SERVER
    return TrackingServerView(
        name=arn.rpartition("/")[2], arn=arn, kind=kind, state=ServerState.READY, status="Created"
    )


def run(identifier: str) -> RunView:
    number = int(identifier, 16)
    return RunView(
        run_id=identifier, experiment_id="1", status="FINISHED", metrics={"loss": 1.0 * number}, name=f"=run-{number}"
    )


@workflow.defn(name="list-tracking-servers")
class ListTrackingServersOf:
    @workflow.run
    async def run(self, asked: ListTrackingServers) -> TrackingServerList:
        return TrackingServerList(servers=[view("research")], read_at=workflow.now())


@workflow.defn(name="read-tracking-server")
class ReadTrackingServerOf:
    @workflow.run
    async def run(self, asked: ReadTrackingServer) -> TrackingServerDetail:
        if asked.server == "none":
            raise refuse(ProblemCode.NOT_FOUND, "there is no tracking server or MLflow app none in us-west-2")
        connected = Connection(namespace="default", service_account="experiments", role_arn="arn:role", servers=[ARN])
        return TrackingServerDetail(
            server=view(asked.server),
            connections=[connected] if asked.eks_cluster is not None else [],
            read_at=workflow.now(),
        )


@workflow.defn(name="open-tracking-server", sandboxed=False)
class OpenTrackingServerOf:
    @workflow.run
    async def run(self, asked: OpenTrackingServer) -> SealedLink:
        return SealedLink(arn=view(asked.server).arn, sealed=SEALED[asked.server])


@workflow.defn(name="list-experiments")
class ListExperimentsOf:
    @workflow.run
    async def run(self, asked: ListExperiments) -> ExperimentsRead:
        found = [ExperimentView(id="1", name="qwen"), ExperimentView(id="0", name="Default")]
        begin = int(asked.position or 0)
        end = begin + asked.size
        return ExperimentsRead(
            server=ARN,
            experiments=found[begin:end],
            position=str(end) if end < len(found) else None,
            read_at=workflow.now(),
        )


@workflow.defn(name="search-experiment-runs")
class SearchRunsOf:
    """Seven runs, at most three on a page."""

    @workflow.run
    async def run(self, asked: SearchRuns) -> RunsRead:
        if asked.filter == "nonsense":
            raise refuse(ProblemCode.INVALID, "Invalid clause(s) in filter string: 'nonsense'")
        begin = int(asked.position or 0)
        end = begin + min(asked.size, 3)
        return RunsRead(
            server=ARN,
            runs=[run(each) for each in RUNS[begin:end]],
            position=str(end) if end < len(RUNS) else None,
            read_at=workflow.now(),
        )


@workflow.defn(name="read-experiment-run")
class ReadRunOf:
    @workflow.run
    async def run(self, asked: ReadRun) -> RunDetail:
        return RunDetail(run=run(asked.run_id), read_at=workflow.now())


@workflow.defn(name="compare-experiment-runs")
class CompareRunsOf:
    @workflow.run
    async def run(self, asked: CompareRuns) -> RunComparison:
        return RunComparison(runs=[run(each) for each in asked.run_ids], read_at=workflow.now())


@workflow.defn(name="try-experiment-connection")
class TryConnectionOf:
    @workflow.run
    async def run(self, asked: TryConnection) -> ConnectionTest:
        step = ConnectionStep(name="server", passed=True, detail="tracking-server")
        return ConnectionTest(
            tracking_server=asked.tracking_server, passed=True, steps=[step], tested_at=workflow.now()
        )


EXPERIMENTS: list[Any] = [
    ListTrackingServersOf,
    ReadTrackingServerOf,
    OpenTrackingServerOf,
    ListExperimentsOf,
    SearchRunsOf,
    ReadRunOf,
    CompareRunsOf,
    TryConnectionOf,
]
