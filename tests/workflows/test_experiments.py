"""Tracking servers, connections and copies: what their stages promise, with an account that answers at once."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError

from contracts import experiments, queues, tracking_servers
from contracts.catalogue import (
    CONNECT_EXPERIMENTS,
    CREATE_TRACKING_SERVER,
    DELETE_TRACKING_SERVER,
    DISCONNECT_EXPERIMENTS,
    SYNC_EXPERIMENTS,
    OperationKind,
)
from contracts.decision import Resolution
from contracts.eks import ControlPlane
from contracts.identity import Identity
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import ProblemCode, problem
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

ARN = "arn:aws:sagemaker:us-west-2:444455556666:mlflow-tracking-server/shared"
COPY = {"source": "research", "experiment": "qwen", "destination": ARN, "role_arn": "arn:aws:iam::444455556666:role/w"}


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34"),
        "identity": Identity(
            account="111122223333", platform_principal_arn="arn:me", cluster_role_arn="arn:role", bucket="bucket"
        ),
    }
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        tracking_servers.ENSURE_SERVER_ROLE.name: lambda a: tracking_servers.ServerRole(
            name=f"role-of-{a.spec.name}", arn="arn:server-role"
        ),
        tracking_servers.ENSURE_TRACKING_SERVER.name: lambda a: tracking_servers.TrackingServerMade(
            name=a.request.spec.name, arn=ARN
        ),
        tracking_servers.WAIT_FOR_TRACKING_SERVER.name: lambda a: tracking_servers.TrackingServerReady(
            name=a.name, arn=ARN, mlflow_version="3.0", size="Small"
        ),
        tracking_servers.DELETE_TRACKING_SERVER.name: lambda a: tracking_servers.TrackingServerGone(name=a.name),
        tracking_servers.WAIT_FOR_TRACKING_SERVER_GONE.name: lambda a: tracking_servers.TrackingServerGone(name=a.name),
        tracking_servers.DELETE_SERVER_ROLE.name: lambda a: tracking_servers.TrackingServerGone(name=a.name),
        experiments.ENSURE_EXPERIMENT_ACCESS.name: lambda a: experiments.ExperimentsConnected(
            service_account=a.service_account,
            namespace=a.namespace,
            role_arn="arn:role",
            tracking_uri=ARN,
            region=REGION,
        ),
        experiments.REMOVE_EXPERIMENT_ACCESS.name: lambda a: experiments.ExperimentsDisconnected(
            service_account=a.service_account, namespace=a.namespace
        ),
        experiments.PREPARE_SYNC.name: lambda _: experiments.PreparedSync(
            source_arn="arn:source", source_experiment_id="1", destination_experiment_id="2"
        ),
        experiments.SYNC_EXPERIMENTS.name: lambda _: experiments.ExperimentsSynced(
            runs=3, created=2, updated=1, unchanged=0, metrics=100
        ),
    }


async def start(client: Client, kind: OperationKind[Any], spec: dict[str, Any]) -> WorkflowHandle[Any, Any]:
    wanted = kind.spec.model_validate(spec)
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=wanted,
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(kind.name, "demo", kind.target(wanted)),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


async def test_a_server_is_made_with_its_role_in_the_clusters_bucket(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, CREATE_TRACKING_SERVER, {"name": "research", "size": "Medium"}))
    assert done.phase is Phase.SUCCEEDED
    assert done.result["arn"] == ARN
    (made,) = asked(account, tracking_servers.ENSURE_TRACKING_SERVER)
    assert (made.role_arn, made.request.bucket, made.request.account) == ("arn:server-role", "bucket", "111122223333")


async def test_a_servers_role_goes_after_the_server(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, DELETE_TRACKING_SERVER, {"name": "research"}))
    assert done.phase is Phase.SUCCEEDED
    called = [name for name, _ in account.arguments]
    order = [
        tracking_servers.DELETE_TRACKING_SERVER.name,
        tracking_servers.WAIT_FOR_TRACKING_SERVER_GONE.name,
        tracking_servers.DELETE_SERVER_ROLE.name,
    ]
    assert [each for each in called if each in order] == order


async def test_a_namespace_is_connected_and_disconnected(client: Client, account: FakeAccount) -> None:
    spec = {"tracking_server": "research", "namespace": "team"}
    done = await outcome(await start(client, CONNECT_EXPERIMENTS, spec))
    assert (done.result["service_account"], done.result["tracking_uri"]) == ("experiments", ARN)
    gone = await outcome(await start(client, DISCONNECT_EXPERIMENTS, {"namespace": "team"}))
    assert gone.phase is Phase.SUCCEEDED
    (left,) = asked(account, experiments.REMOVE_EXPERIMENT_ACCESS)
    assert (left.namespace, left.tracking_server) == ("team", None)


async def test_a_copy_that_may_not_write_is_retried_with_another_role(client: Client, account: FakeAccount) -> None:
    ready = account.answers[experiments.PREPARE_SYNC.name]

    def denied(_: Any) -> Any:
        found = problem(ProblemCode.DENIED, "the role cannot be taken", field="/role_arn")
        raise ApplicationError(found.detail, found.model_dump(mode="json"), type=found.code.value, non_retryable=True)

    account.answers[experiments.PREPARE_SYNC.name] = denied
    handle = await start(client, SYNC_EXPERIMENTS, COPY)
    await until(handle, lambda seen: seen.phase is Phase.BLOCKED)
    account.answers[experiments.PREPARE_SYNC.name] = ready
    another = "arn:aws:iam::444455556666:role/other"
    retry = Resolution(by="alice", stage="ends", attempt=1, action="retry", corrections={"role_arn": another})
    await handle.execute_update("resolve", retry)
    done = await outcome(handle)
    assert done.phase is Phase.SUCCEEDED
    assert done.result["metrics"] == 100
    (copied,) = asked(account, experiments.SYNC_EXPERIMENTS)
    assert (copied.spec.role_arn, copied.prepared.destination_experiment_id) == (another, "2")


async def test_nothing_is_made_where_the_plan_has_a_blocker(client: Client, account: FakeAccount) -> None:
    blocked = PlanDraft.model_validate({"blockers": [{"field": "/name", "detail": "taken", "code": "foreign"}]})
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=blocked)
    handle = await start(client, CREATE_TRACKING_SERVER, {"name": "research"})
    await until(handle, lambda seen: seen.phase is Phase.BLOCKED)
    assert (await progress(handle)).stages[0].name == "checks"
    assert not asked(account, tracking_servers.ENSURE_SERVER_ROLE)
    await handle.terminate()
