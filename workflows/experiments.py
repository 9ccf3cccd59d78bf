"""Tracking servers made and deleted, pods that may report to them, and experiments copied elsewhere."""

from __future__ import annotations

from typing import Any, TypeVar

from temporalio import workflow

from contracts.catalogue import (
    CONNECT_EXPERIMENTS,
    CREATE_TRACKING_SERVER,
    DELETE_TRACKING_SERVER,
    DISCONNECT_EXPERIMENTS,
    SYNC_EXPERIMENTS,
)
from contracts.experiments import (
    ENSURE_EXPERIMENT_ACCESS,
    PREPARE_SYNC,
    REMOVE_EXPERIMENT_ACCESS,
    CarrySync,
    ConnectExperiments,
    ConnectExperimentsSpec,
    DisconnectExperiments,
    DisconnectExperimentsSpec,
    PreparedSync,
    SyncExperiments,
    SyncExperimentsSpec,
)
from contracts.experiments import SYNC_EXPERIMENTS as COPY
from contracts.operation import Outcome, Start
from contracts.tracking_servers import (
    DELETE_SERVER_ROLE,
    ENSURE_SERVER_ROLE,
    ENSURE_TRACKING_SERVER,
    WAIT_FOR_TRACKING_SERVER,
    WAIT_FOR_TRACKING_SERVER_GONE,
    DeleteTrackingServer,
    DeleteTrackingServerSpec,
    EnsureTrackingServer,
    ServerRole,
    TrackingServerMade,
    TrackingServerRequest,
    TrackingServerSpec,
    WaitForTrackingServer,
)
from contracts.tracking_servers import DELETE_TRACKING_SERVER as DELETE_SERVER
from contracts.words import number_of
from workflows.engine import Operation, StagePlan, StageRun
from workflows.identity import own_bucket
from workflows.parts import control_plane_of, identity_of
from workflows.plans import checks, checks_stage

Access = TypeVar("Access", ConnectExperimentsSpec, DisconnectExperimentsSpec)
SERVER_INPUTS = ("size", "mlflow_version", "register_models", "maintenance_window")


def server_lease(name: str) -> str:
    return f"tracking-server/{name}"


def access_lease(namespace: str, account: str) -> str:
    return f"experiments/{namespace}/{account}"


@workflow.defn(name=CREATE_TRACKING_SERVER.name)
class CreateTrackingServer(Operation[TrackingServerSpec]):
    kind = CREATE_TRACKING_SERVER
    stages = (
        checks(*SERVER_INPUTS),
        StagePlan("role", "Role of the server", inputs=("register_models",)),
        StagePlan("server", "Tracking server", inputs=SERVER_INPUTS),
        StagePlan("ready", "Server answers"),
    )

    @workflow.init
    def __init__(self, start: Start[TrackingServerSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[TrackingServerSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (server_lease(self.spec.name),)

    async def runbook(self) -> dict[str, Any]:
        identity = identity_of(self)
        await checks_stage(self)

        def request(bucket: str) -> TrackingServerRequest:
            return TrackingServerRequest(scope=self.scope, spec=self.spec, account=identity.account, bucket=bucket)

        async def role(run: StageRun) -> tuple[ServerRole, str]:
            bucket = await own_bucket(run, self, identity)
            made = await run.act(ENSURE_SERVER_ROLE, request(bucket))
            run.detail(f"IAM role {made.name}")
            return made, bucket

        made, bucket = await self.stage("role", role)

        async def server(run: StageRun) -> TrackingServerMade:
            asked = EnsureTrackingServer(request=request(bucket), role_arn=made.arn)
            found = await run.act(ENSURE_TRACKING_SERVER, asked)
            run.detail(found.arn)
            return found

        await self.stage("server", server)

        async def ready(run: StageRun) -> dict[str, Any]:
            found = await run.wait(WAIT_FOR_TRACKING_SERVER, self._named())
            run.detail(f"MLflow {found.mlflow_version}, {found.size}")
            return found.model_dump(mode="json")

        return await self.stage("ready", ready)

    def _named(self) -> WaitForTrackingServer:
        return WaitForTrackingServer(scope=self.scope, name=self.spec.name)


@workflow.defn(name=DELETE_TRACKING_SERVER.name)
class DeleteTrackingServerOperation(Operation[DeleteTrackingServerSpec]):
    kind = DELETE_TRACKING_SERVER
    stages = (checks(), StagePlan("server", "Tracking server"), StagePlan("role", "Role of the server"))

    @workflow.init
    def __init__(self, start: Start[DeleteTrackingServerSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteTrackingServerSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (server_lease(self.spec.name),)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        request = DeleteTrackingServer(scope=self.scope, name=self.spec.name)

        async def server(run: StageRun) -> None:
            await run.act(DELETE_SERVER, request)
            await run.wait(WAIT_FOR_TRACKING_SERVER_GONE, WaitForTrackingServer(scope=self.scope, name=self.spec.name))
            run.detail(f"{self.spec.name} is gone; its artifacts stay in the bucket")

        await self.stage("server", server)

        async def role(run: StageRun) -> dict[str, Any]:
            gone = await run.act(DELETE_SERVER_ROLE, request)
            return gone.model_dump(mode="json")

        return await self.stage("role", role)


class _Access(Operation[Access]):
    """What a service account may report to."""

    stages = (checks(), StagePlan("access", "Service account, association and role"))

    def leases(self) -> tuple[str, ...]:
        return (access_lease(self.spec.namespace, self.spec.service_account),)

    async def runbook(self) -> dict[str, Any]:
        about = {
            **self.spec.model_dump(include={"namespace", "service_account", "tracking_server"}),
            "scope": self.scope,
            "eks_cluster": control_plane_of(self).name,
        }
        await checks_stage(self)
        return await self.stage("access", lambda run: self.change(run, about))

    async def change(self, run: StageRun, about: dict[str, Any]) -> dict[str, Any]:
        """``about``: what the activities' arguments have in common."""
        raise NotImplementedError


@workflow.defn(name=CONNECT_EXPERIMENTS.name)
class ConnectExperimentsOperation(_Access[ConnectExperimentsSpec]):
    kind = CONNECT_EXPERIMENTS

    @workflow.init
    def __init__(self, start: Start[ConnectExperimentsSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ConnectExperimentsSpec]) -> Outcome:
        return await self.carry_out()

    async def change(self, run: StageRun, about: dict[str, Any]) -> dict[str, Any]:
        made = await run.act(ENSURE_EXPERIMENT_ACCESS, ConnectExperiments(**about))
        run.detail(f"pods that run as {made.namespace}/{made.service_account} may report to {made.tracking_uri}")
        return made.model_dump(mode="json")


@workflow.defn(name=DISCONNECT_EXPERIMENTS.name)
class DisconnectExperimentsOperation(_Access[DisconnectExperimentsSpec]):
    kind = DISCONNECT_EXPERIMENTS

    @workflow.init
    def __init__(self, start: Start[DisconnectExperimentsSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DisconnectExperimentsSpec]) -> Outcome:
        return await self.carry_out()

    async def change(self, run: StageRun, about: dict[str, Any]) -> dict[str, Any]:
        gone = await run.act(REMOVE_EXPERIMENT_ACCESS, DisconnectExperiments(**about))
        still = (
            f"still reports to {number_of(len(gone.left), 'server')}" if gone.left else "reports to no server any more"
        )
        run.detail("; ".join([f"{self.spec.namespace}/{self.spec.service_account} {still}", *gone.kept]))
        return gone.model_dump(mode="json")


@workflow.defn(name=SYNC_EXPERIMENTS.name)
class SyncExperimentsOperation(Operation[SyncExperimentsSpec]):
    kind = SYNC_EXPERIMENTS
    stages = (
        checks("role_arn", "external_id"),
        StagePlan("ends", "Both experiments", inputs=("role_arn", "external_id")),
        StagePlan("copy", "Runs copied", inputs=("role_arn", "external_id")),
    )

    @workflow.init
    def __init__(self, start: Start[SyncExperimentsSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[SyncExperimentsSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"experiment-sync/{self.spec.target}",)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)

        async def ends(run: StageRun) -> PreparedSync:
            found = await run.act(PREPARE_SYNC, SyncExperiments(scope=self.scope, spec=self.spec))
            run.detail(f"experiment {found.destination_experiment_id} of {self.spec.destination}")
            return found

        prepared = await self.stage("ends", ends)

        async def copy(run: StageRun) -> dict[str, Any]:
            done = await run.wait(COPY, CarrySync(scope=self.scope, spec=self.spec, prepared=prepared))
            run.detail(
                f"{number_of(done.runs, 'run')}: {done.created} made, {done.updated} brought up to date, "
                f"{done.unchanged} unchanged; {number_of(done.metrics, 'point')} written"
            )
            return done.model_dump(mode="json")

        return await self.stage("copy", copy)
