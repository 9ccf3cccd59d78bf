"""Operations on Ray clusters: what their stages promise, with a cluster that answers at once."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import queues, ray_clusters
from contracts.catalogue import CREATE_RAY_CLUSTER, DELETE_RAY_CLUSTER, OperationKind
from contracts.decision import Resolution
from contracts.eks import ControlPlane
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from contracts.ray_clusters import DashboardAnswered, RayClusterGone, RayClusterObject, RayClusterRuns
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

SPEC = {"name": "notebooks", "gpus_per_worker": 1, "workers": 2}
ADDRESS = "http://notebooks-head-svc.default.svc:8265"


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34")
    }
    gone = RayClusterGone(name="notebooks", namespace="default")
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        ray_clusters.APPLY_RAY_CLUSTER.name: lambda _: RayClusterObject(
            name="notebooks", namespace="default", generation=3
        ),
        ray_clusters.WAIT_FOR_RAY_CLUSTER.name: lambda asked: RayClusterRuns(
            name="notebooks", namespace="default", workers=asked.workers, nodes=["node-1"]
        ),
        ray_clusters.WAIT_FOR_DASHBOARD.name: lambda _: DashboardAnswered(address=ADDRESS, ray_version="2.52.0"),
        ray_clusters.START_RAY_CLUSTER_DELETION.name: lambda _: gone,
        ray_clusters.WAIT_FOR_RAY_CLUSTER_GONE.name: lambda _: gone,
    }


async def start(client: Client, kind: OperationKind[Any], **spec: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=kind.spec.model_validate(spec),
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(kind.name, "demo", "notebooks"),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


async def test_it_is_made_when_its_head_has_answered(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, CREATE_RAY_CLUSTER, **SPEC))
    assert done.phase is Phase.SUCCEEDED
    assert (done.result["workers"], done.result["dashboard"], done.result["ray_version"]) == (2, ADDRESS, "2.52.0")
    (watched,) = asked(account, ray_clusters.WAIT_FOR_RAY_CLUSTER)
    assert (watched.generation, watched.workers) == (3, 2)
    (dashboard,) = asked(account, ray_clusters.WAIT_FOR_DASHBOARD)
    assert dashboard.ray_version == "2.52.0", "as the image's tag tells"


async def test_what_stands_in_the_way_blocks_before_anything_is_made(client: Client, account: FakeAccount) -> None:
    blocker = FieldError(field="/gpus_per_worker", detail="no node has so many", code=ProblemCode.CAPACITY)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[blocker]))
    handle = await start(client, CREATE_RAY_CLUSTER, **SPEC)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert (blocked.problem.field, account.calls[ray_clusters.APPLY_RAY_CLUSTER.name]) == ("/gpus_per_worker", 0)
    await handle.terminate()


async def test_pods_that_do_not_come_up_are_asked_for_otherwise_and_checked_again(
    client: Client, account: FakeAccount
) -> None:
    account.fail(ray_clusters.WAIT_FOR_RAY_CLUSTER, ProblemCode.CAPACITY)
    handle = await start(client, CREATE_RAY_CLUSTER, **SPEC)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    attempt = {each.name: each.attempt for each in (await progress(handle)).stages}["ray_cluster"]
    wish = Resolution(action="retry", stage="ray_cluster", attempt=attempt, by="alice", corrections={"workers": 1})
    await handle.execute_update("resolve", wish)
    done = await outcome(handle)
    assert (done.phase, done.result["workers"]) == (Phase.SUCCEEDED, 1)
    assert [each.spec.workers for each in asked(account, ray_clusters.APPLY_RAY_CLUSTER)] == [2, 1]
    assert account.calls[MAKE_PLAN.name] == 2


async def test_it_is_deleted_when_nothing_of_it_is_left(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, DELETE_RAY_CLUSTER, name="notebooks"))
    assert done.phase is Phase.SUCCEEDED
    order = [name for name, _ in account.arguments if name.startswith("ray_clusters.")]
    assert order == [
        ray_clusters.START_RAY_CLUSTER_DELETION.name,
        ray_clusters.WAIT_FOR_RAY_CLUSTER_GONE.name,
    ]
