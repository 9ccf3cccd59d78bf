"""Operations on managed endpoints and autoscalers, with an account that answers at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import autoscalers, managed_endpoints, queues
from contracts.autoscalers import Autoscaler, AutoscalerApplied, AutoscalerGone, AutoscalerSpec, AutoscalerState
from contracts.catalogue import (
    CREATE_AUTOSCALER,
    CREATE_ENDPOINT,
    DELETE_AUTOSCALER,
    DELETE_ENDPOINT,
    UPDATE_ENDPOINT,
    OperationKind,
)
from contracts.decision import Abort, Resolution
from contracts.eks import ControlPlane
from contracts.managed_endpoints import (
    EndpointAnswer,
    EndpointApplied,
    EndpointGone,
    EndpointState,
    ManagedEndpoint,
)
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount
from workflows.autoscalers import CreateAutoscaler

ENDPOINT: dict[str, Any] = {
    "name": "qwen",
    "source": {"type": "s3", "bucket": "models-bucket"},
    "worker": {"image": "vllm/vllm-openai:v0.11.0", "gpu_count": 1},
    "instance_types": ["ml.g5.8xlarge"],
}
AUTOSCALER: dict[str, Any] = {
    "target": "chat",
    "triggers": [{"type": "prometheus", "workspace_id": "ws-1", "query": "load", "threshold": 5}],
}


class Account:
    """What the cluster would answer."""

    def __init__(self, account: FakeAccount) -> None:
        self.ready = 2
        plane = ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34")
        account.record = {"control_plane": plane}
        gone = AutoscalerGone(name="chat", target="chat", replicas=3)
        account.answers |= {
            MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
            managed_endpoints.APPLY_ENDPOINT.name: lambda a: EndpointApplied(
                name=a.spec.name, namespace=a.spec.namespace, kind=a.spec.kind, generation=4
            ),
            managed_endpoints.WAIT_FOR_ENDPOINT.name: lambda a: self.endpoint(),
            managed_endpoints.WAIT_FOR_ENDPOINT_ANSWER.name: lambda _: EndpointAnswer(
                model="qwen", text="Hello", seconds=0.2
            ),
            managed_endpoints.START_ENDPOINT_DELETION.name: lambda a: EndpointGone(
                name=a.name, kind="InferenceEndpointConfig"
            ),
            managed_endpoints.WAIT_FOR_ENDPOINT_GONE.name: lambda a: EndpointGone(name=a.name, kind=a.kind),
            autoscalers.APPLY_AUTOSCALER.name: lambda a: AutoscalerApplied(name=a.spec.called, namespace="default"),
            autoscalers.WAIT_FOR_AUTOSCALER.name: lambda a: Autoscaler(
                namespace="default",
                name=a.name,
                target="chat",
                state=AutoscalerState.ACTIVE,
                min_replicas=1,
                max_replicas=5,
                replicas=3,
            ),
            autoscalers.START_AUTOSCALER_DELETION.name: lambda _: gone,
            autoscalers.WAIT_FOR_AUTOSCALER_GONE.name: lambda a: AutoscalerGone(name=a.name),
        }

    def endpoint(self) -> ManagedEndpoint:
        return ManagedEndpoint(
            namespace="default",
            name="qwen",
            kind="InferenceEndpointConfig",
            state=EndpointState.READY,
            replicas=2,
            ready_replicas=self.ready,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )


@pytest.fixture
def cluster(account: FakeAccount) -> Account:
    return Account(account)


async def start(client: Client, kind: OperationKind[Any], document: dict[str, Any]) -> WorkflowHandle[Any, Any]:
    spec = kind.spec.model_validate(document)
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo", region=REGION, spec=spec, origin=Origin(by="alice", role="operator", request_id="r-1")
        ),
        id=operation_id(kind.name, "demo", kind.target(spec)),
        task_queue=queues.WORKFLOWS,
        result_type=Outcome,
    )


@pytest.mark.parametrize("kind", [CREATE_ENDPOINT, UPDATE_ENDPOINT])
async def test_an_endpoint_is_done_when_it_answers(
    client: Client, account: FakeAccount, cluster: Account, kind: OperationKind[Any]
) -> None:
    handle = await start(client, kind, ENDPOINT)
    outcome = await handle.result()
    assert outcome.phase is Phase.SUCCEEDED
    assert outcome.result["answer"]["model"] == "qwen"
    assert outcome.result["endpoint"]["ready_replicas"] == 2
    waited = [a for name, a in account.arguments if name == managed_endpoints.WAIT_FOR_ENDPOINT.name]
    assert [each.generation for each in waited] == [4]
    assert [stage.name for stage in (await progress(handle)).stages] == ["checks", "endpoint", "answers"]


async def test_an_endpoint_at_rest_is_not_asked(client: Client, account: FakeAccount, cluster: Account) -> None:
    cluster.ready = 0
    outcome = await (await start(client, CREATE_ENDPOINT, ENDPOINT)).result()
    assert (outcome.phase, outcome.result["answer"]) == (Phase.SUCCEEDED, None)
    assert account.calls[managed_endpoints.WAIT_FOR_ENDPOINT_ANSWER.name] == 0


async def test_a_deployment_that_fails_is_retried_with_a_correction(
    client: Client, account: FakeAccount, cluster: Account
) -> None:
    account.fail(managed_endpoints.WAIT_FOR_ENDPOINT, ProblemCode.NOT_READY)
    handle = await start(client, CREATE_ENDPOINT, ENDPOINT)
    found = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert found.problem is not None
    assert found.problem.code is ProblemCode.NOT_READY
    corrections = {"worker": {"image": "vllm/vllm-openai:v0.12.0"}}
    resolution = Resolution(stage="endpoint", attempt=1, action="retry", by="bob", corrections=corrections)
    await handle.execute_update("resolve", resolution)
    assert (await handle.result()).phase is Phase.SUCCEEDED
    applied = [a.spec for name, a in account.arguments if name == managed_endpoints.APPLY_ENDPOINT.name]
    assert [spec.worker.image for spec in applied] == ["vllm/vllm-openai:v0.11.0", "vllm/vllm-openai:v0.12.0"]


async def test_an_answer_that_does_not_come_may_be_left_out(
    client: Client, account: FakeAccount, cluster: Account
) -> None:
    account.fail(managed_endpoints.WAIT_FOR_ENDPOINT_ANSWER, ProblemCode.NOT_READY)
    handle = await start(client, CREATE_ENDPOINT, ENDPOINT)
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    await handle.execute_update("resolve", Resolution(stage="answers", attempt=1, action="skip", by="bob"))
    outcome = await handle.result()
    assert (outcome.phase, outcome.result["answer"]) == (Phase.SUCCEEDED, None)


async def test_blockers_stop_an_endpoint_before_anything_is_made(
    client: Client, account: FakeAccount, cluster: Account
) -> None:
    blocker = FieldError(field="/source/location", detail="it holds nothing")
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[blocker]))
    handle = await start(client, CREATE_ENDPOINT, ENDPOINT)
    found = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert found.problem is not None
    assert found.problem.field == "/source/location"
    assert account.calls[managed_endpoints.APPLY_ENDPOINT.name] == 0
    await handle.execute_update("abort", Abort(by="bob"))
    assert (await handle.result()).phase is Phase.ABORTED


async def test_a_deletion_waits_until_nothing_is_left(client: Client, account: FakeAccount, cluster: Account) -> None:
    outcome = await (await start(client, DELETE_ENDPOINT, {"name": "qwen"})).result()
    assert outcome.result == {"endpoint": "qwen", "namespace": "default"}
    waited = [a for name, a in account.arguments if name == managed_endpoints.WAIT_FOR_ENDPOINT_GONE.name]
    assert [each.kind for each in waited] == ["InferenceEndpointConfig"]


async def test_an_autoscaler_is_done_when_it_follows_its_metric(
    client: Client, account: FakeAccount, cluster: Account
) -> None:
    handle = await start(client, CREATE_AUTOSCALER, AUTOSCALER)
    outcome = await handle.result()
    assert (outcome.phase, outcome.result["state"]) == (Phase.SUCCEEDED, "active")
    stages = {stage.name: stage for stage in (await progress(handle)).stages}
    assert stages["autoscaler"].state is StageState.DONE
    assert stages["autoscaler"].detail == "active: 3 replicas, of 1 to 5"


def test_an_autoscaler_holds_its_deployment_while_it_is_made() -> None:
    operation = CreateAutoscaler.__new__(CreateAutoscaler)
    operation.spec = AutoscalerSpec.model_validate({**AUTOSCALER, "name": "own", "namespace": "ml"})
    assert operation.leases() == ("autoscalers/ml/own", "deployments/ml/chat")


async def test_a_deleted_autoscaler_says_what_the_deployment_keeps(
    client: Client, account: FakeAccount, cluster: Account
) -> None:
    handle = await start(client, DELETE_AUTOSCALER, {"name": "chat"})
    outcome = await handle.result()
    assert outcome.result == {"autoscaler": "chat", "target": "chat", "replicas": 3}
    (_, stage) = (await progress(handle)).stages
    assert stage.detail == "chat is gone; chat keeps 3 replicas"
