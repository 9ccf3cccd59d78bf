"""Operations on model servers: what their stages promise, with a cluster that answers at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import deployments, queues
from contracts.catalogue import (
    CREATE_DEPLOYMENT,
    DELETE_DEPLOYMENT,
    SCALE_DEPLOYMENT,
    UPDATE_DEPLOYMENT,
    OperationKind,
)
from contracts.decision import Abort, Resolution, Supersede
from contracts.deployments import (
    Answered,
    DeploymentGone,
    DeploymentObject,
    FormerDeployment,
    PublicAddress,
    RolledOut,
    ServicesMade,
)
from contracts.eks import ControlPlane
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

SPEC = {"name": "chat", "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1}
RAN = RolledOut(name="chat", namespace="default", replicas=1, ready=1, nodes=["node-1"])


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34")
    }
    made = DeploymentObject(name="chat", namespace="default", generation=1, replicas=1)
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft(facts={"startup_minutes": 42})),
        deployments.APPLY_DEPLOYMENT.name: lambda _: made,
        deployments.WAIT_FOR_ROLLOUT.name: lambda _: RAN,
        deployments.APPLY_SERVICES.name: lambda _: ServicesMade(names=["chat"]),
        deployments.WAIT_FOR_ADDRESS.name: lambda _: PublicAddress(service="chat-public", hostname="nlb.example.com"),
        deployments.WAIT_FOR_ANSWERS.name: lambda _: Answered(verified="it answers", model="m", sample=" world"),
        deployments.REMEMBER_DEPLOYMENT.name: lambda _: FormerDeployment(
            name="chat", namespace="default", spec={"template": {"former": True}}, healthy=True
        ),
        deployments.RESTORE_DEPLOYMENT.name: lambda _: made.model_copy(update={"generation": 3}),
        deployments.SET_REPLICAS.name: lambda a: made.model_copy(update={"replicas": a.replicas}),
        deployments.DELETE_SERVICES.name: lambda _: ServicesMade(removed=["chat"]),
        deployments.START_DEPLOYMENT_DELETION.name: lambda _: DeploymentGone(name="chat", namespace="default"),
        deployments.WAIT_FOR_DEPLOYMENT_GONE.name: lambda _: DeploymentGone(name="chat", namespace="default"),
    }


async def start(client: Client, kind: OperationKind[Any], **spec: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=kind.spec.model_validate(spec or SPEC),
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(kind.name, "demo", "chat"),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


async def retry(handle: WorkflowHandle[Any, Any], stage: str, **corrections: Any) -> None:
    attempt = {each.name: each.attempt for each in (await progress(handle)).stages}[stage]
    wish = Resolution(action="retry", stage=stage, attempt=attempt, by="alice", corrections=corrections or None)
    await handle.execute_update("resolve", wish)


async def test_a_server_is_created_when_its_model_has_answered(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, CREATE_DEPLOYMENT))
    assert done.phase is Phase.SUCCEEDED
    assert (done.result["services"], done.result["address"]) == (["chat"], None)
    assert done.result["answer"]["sample"] == " world"
    assert account.calls[deployments.WAIT_FOR_ADDRESS.name] == 0
    (watched,) = asked(account, deployments.WAIT_FOR_ROLLOUT)
    assert (watched.generation, watched.limit_minutes) == (1, 42)


async def test_a_public_server_is_created_when_it_has_an_address(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, CREATE_DEPLOYMENT, **SPEC, service="public"))
    assert done.result["address"] == "nlb.example.com"
    assert account.calls[deployments.WAIT_FOR_ADDRESS.name] == 1


async def test_what_stands_in_the_way_blocks_before_anything_is_made(client: Client, account: FakeAccount) -> None:
    blocker = FieldError(field="/gpu_count", detail="no node is so large", code=ProblemCode.CAPACITY)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[blocker]))
    handle = await start(client, CREATE_DEPLOYMENT)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert (blocked.problem.field, account.calls[deployments.APPLY_DEPLOYMENT.name]) == ("/gpu_count", 0)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft())
    await retry(handle, "checks", gpu_count=2, command="vllm serve Qwen/Qwen3-0.6B --port 8000 -tp 2")
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert asked(account, deployments.APPLY_DEPLOYMENT)[0].spec.gpu_count == 2


async def test_a_failed_start_is_corrected_checked_again_and_applied_anew(client: Client, account: FakeAccount) -> None:
    account.fail(deployments.WAIT_FOR_ROLLOUT, ProblemCode.NOT_READY)
    handle = await start(client, CREATE_DEPLOYMENT)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    await retry(handle, "deployment", image="vllm/vllm-openai:v0.27.1")
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert [each.spec.image for each in asked(account, deployments.APPLY_DEPLOYMENT)] == [
        None,
        "vllm/vllm-openai:v0.27.1",
    ]
    assert account.calls[MAKE_PLAN.name] == 2


async def test_an_aborted_creation_tells_what_exists(client: Client, account: FakeAccount) -> None:
    account.fail(deployments.WAIT_FOR_ANSWERS, ProblemCode.NOT_READY)
    handle = await start(client, CREATE_DEPLOYMENT)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    await handle.execute_update("abort", Abort(by="alice"))
    done = await outcome(handle)
    assert done.phase is Phase.ABORTED
    assert done.result["exists"] == {
        "deployment/deployments.apply": "chat",
        "services/deployments.apply_services": "chat",
    }


async def test_an_update_that_serves_ends_with_its_answer(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, UPDATE_DEPLOYMENT))
    # A new replica is asked itself: its Service has the former port still.
    assert asked(account, deployments.WAIT_FOR_ANSWERS)[0].service is None
    assert (done.phase, done.result["answer"]["model"]) == (Phase.SUCCEEDED, "m")
    assert asked(account, deployments.APPLY_DEPLOYMENT)[0].update
    assert account.calls[deployments.RESTORE_DEPLOYMENT.name] == 0


@pytest.mark.parametrize("signature", [deployments.WAIT_FOR_ROLLOUT, deployments.WAIT_FOR_ANSWERS])
async def test_an_update_that_does_not_serve_goes_back_before_it_blocks(
    client: Client, account: FakeAccount, signature: Any
) -> None:
    account.fail(signature, ProblemCode.NOT_READY)
    handle = await start(client, UPDATE_DEPLOYMENT)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert "The former form runs again" in blocked.problem.detail
    (restored,) = asked(account, deployments.RESTORE_DEPLOYMENT)
    assert restored.former.spec == {"template": {"former": True}}
    assert asked(account, deployments.WAIT_FOR_ROLLOUT)[-1].generation == 3
    await retry(handle, "deployment", gpu_count=2)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert account.calls[deployments.REMEMBER_DEPLOYMENT.name] == 1


async def test_without_room_for_both_the_way_back_ends_the_new_form_first(client: Client, account: FakeAccount) -> None:
    account.fail(deployments.WAIT_FOR_ANSWERS, ProblemCode.NOT_READY)
    handle = await start(client, UPDATE_DEPLOYMENT, **SPEC, strategy="recreate")
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert [each.recreate for each in asked(account, deployments.RESTORE_DEPLOYMENT)] == [True, False]
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED


async def test_an_update_that_found_no_room_names_the_strategy_that_needs_none(
    client: Client, account: FakeAccount
) -> None:
    account.fail(deployments.WAIT_FOR_ROLLOUT, ProblemCode.CAPACITY)
    handle = await start(client, UPDATE_DEPLOYMENT)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert "The former form runs again" in blocked.problem.detail
    assert "strategy recreate" in (blocked.problem.remedy or "")
    await retry(handle, "deployment", strategy="recreate")
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert asked(account, deployments.APPLY_DEPLOYMENT)[-1].spec.strategy == "recreate"


async def test_a_way_back_that_fails_is_told_as_well(client: Client, account: FakeAccount) -> None:
    account.fail(deployments.WAIT_FOR_ANSWERS, ProblemCode.NOT_READY)
    account.fail(deployments.RESTORE_DEPLOYMENT, ProblemCode.DENIED)
    handle = await start(client, UPDATE_DEPLOYMENT)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert "deployments.wait_for_answers" in blocked.problem.detail
    assert "Going back failed as well: deployments.restore" in blocked.problem.detail
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED


async def test_an_aborted_update_stays_as_it_is(client: Client, account: FakeAccount) -> None:
    hold = account.hold[deployments.WAIT_FOR_ROLLOUT.name] = asyncio.Event()
    handle = await start(client, UPDATE_DEPLOYMENT)
    await until(handle, lambda _: account.calls[deployments.WAIT_FOR_ROLLOUT.name] == 1)
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED
    assert account.calls[deployments.RESTORE_DEPLOYMENT.name] == 0
    hold.set()


async def test_the_last_number_of_replicas_wins(client: Client, account: FakeAccount) -> None:
    account.fail(deployments.WAIT_FOR_ROLLOUT, ProblemCode.CAPACITY)
    handle = await start(client, SCALE_DEPLOYMENT, name="chat", replicas=9)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    await handle.execute_update("supersede", Supersede(spec={"name": "chat", "replicas": 2}, by="bob"))
    done = await outcome(handle)
    assert done.phase is Phase.SUCCEEDED
    assert [each.replicas for each in asked(account, deployments.SET_REPLICAS)] == [9, 2]
    assert done.result["asked_anew"] == ["bob: replicas 9 → 2"]


async def test_a_server_is_deleted_services_first(client: Client, account: FakeAccount) -> None:
    handle = await start(client, DELETE_DEPLOYMENT, name="chat")
    done = await outcome(handle)
    assert (done.phase, done.result) == (Phase.SUCCEEDED, {"deployment": "chat", "services": ["chat"]})
    order = [name for name, _ in account.arguments if name.startswith("deployments.")]
    assert order == ["deployments.delete_services", "deployments.delete", "deployments.wait_until_gone"]
    assert all(each.state is StageState.DONE for each in (await progress(handle)).stages)
