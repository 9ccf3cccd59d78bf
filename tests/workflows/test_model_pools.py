"""Operations on model pools and routers, and a pool's keeper, with a cluster that answers at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from contracts import deployments, model_pools, queues, routers
from contracts.catalogue import (
    ASSIGN_MODEL_POOL,
    CLUSTER_WORKFLOW,
    CREATE_MODEL_POOL,
    CREATE_ROUTER,
    DELETE_MODEL_POOL,
    DELETE_ROUTER,
    MODEL_POOL_WORKFLOW,
    SCALE_MODEL_POOL,
    OperationKind,
)
from contracts.cluster import Acquire, ClusterRecord, ClusterView, EntityState, Holder
from contracts.decision import Supersede
from contracts.deployments import Answered, DeploymentObject, PublicAddress, RolledOut
from contracts.eks import ControlPlane
from contracts.lease import WAIT_FOR_HOLDER, LeaseRequest
from contracts.model_pools import (
    Keeper,
    KeeperState,
    KeepPool,
    MovePod,
    PodMoved,
    PoolGone,
    PoolNews,
    PoolSeen,
    PoolServices,
    SetWish,
    Wish,
    WishSet,
)
from contracts.names import cluster_id, operation_id, pool_keeper_id
from contracts.network import Scope
from contracts.operation import Origin, Outcome, Phase, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.pool_moves import UNASSIGNED, PoolPod
from contracts.problem import ProblemCode
from contracts.routers import RouterAccess, RouterGone, RouterServices, WorkersListed
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

POOL = {"name": "pool", "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1, "replicas": 2}
ROUTER = {"name": "front", "target": {"deployment": "chat"}}
KEEPER = pool_keeper_id("demo", "default", "pool")
GONE = PoolNews(gone=True, detail="gone")


class Pool:
    """Pods of a pool, moved by the activities that the workflows call."""

    def __init__(self) -> None:
        self.business = {"p0": UNASSIGNED, "p1": UNASSIGNED}
        self.wish = Wish()
        self.problem: str | None = None

    def seen(self, _: Any) -> PoolSeen:
        pods = [PoolPod(name=name, uid=name, business=at, ready=True) for name, at in self.business.items()]
        return PoolSeen(
            name="pool",
            namespace="default",
            replicas=len(pods),
            wish=self.wish,
            wish_problem=self.problem,
            pods=pods,
            services=list(self.wish.assignments),
        )

    def set_wish(self, asked: SetWish) -> WishSet:
        self.wish = asked.wish
        return WishSet(name="pool")

    def detach(self, asked: MovePod) -> PodMoved:
        self.business[asked.move.pod] = "leaving"
        return PodMoved(pod=asked.move.pod)

    def attach(self, asked: MovePod) -> PodMoved:
        self.business[asked.move.pod] = asked.move.target
        return PodMoved(pod=asked.move.pod)


@pytest.fixture
def pool(account: FakeAccount) -> Pool:
    pool = Pool()
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34")
    }
    made = DeploymentObject(name="pool", namespace="default", generation=1, replicas=2)
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft(facts={"startup_minutes": 42, "worker_port": 8000})),
        model_pools.APPLY_POOL.name: lambda _: made,
        model_pools.SCALE_POOL.name: lambda _: made,
        deployments.WAIT_FOR_ROLLOUT.name: lambda _: RolledOut(name="pool", namespace="default", replicas=2, ready=2),
        deployments.WAIT_FOR_ANSWERS.name: lambda _: Answered(verified="it answers", model="m"),
        deployments.WAIT_FOR_ADDRESS.name: lambda a: PublicAddress(service=a.name, hostname=f"{a.name}.example.com"),
        model_pools.SURVEY_POOL.name: pool.seen,
        model_pools.SET_WISH.name: pool.set_wish,
        model_pools.APPLY_POOL_SERVICES.name: lambda a: PoolServices(
            names=sorted(a.wish.assignments), removed=["old"] if a.delete_others else []
        ),
        model_pools.DETACH_POD.name: pool.detach,
        model_pools.WAIT_FOR_DRAINED_POD.name: lambda a: PodMoved(pod=a.move.pod),
        model_pools.ATTACH_POD.name: pool.attach,
        model_pools.WAIT_FOR_SERVING_POD.name: lambda a: PodMoved(pod=a.move.pod),
        model_pools.WAIT_FOR_WORKERS.name: lambda _: PoolNews(work=True, detail="ready"),
        model_pools.WATCH_POOL.name: lambda _: GONE,
        model_pools.START_POOL_DELETION.name: lambda _: PoolGone(name="pool", namespace="default"),
        model_pools.WAIT_FOR_POOL_GONE.name: lambda _: PoolGone(name="pool", namespace="default"),
        routers.ENSURE_ROUTER_ACCESS.name: lambda _: RouterAccess(name="front"),
        routers.APPLY_ROUTER.name: lambda _: made,
        routers.APPLY_ROUTER_SERVICES.name: lambda _: RouterServices(names=["front"]),
        routers.WAIT_FOR_ROUTER_WORKERS.name: lambda _: WorkersListed(workers=2),
        routers.START_ROUTER_DELETION.name: lambda _: RouterGone(name="front", namespace="default"),
        routers.WAIT_FOR_ROUTER_GONE.name: lambda _: RouterGone(name="front", namespace="default"),
    }
    return pool


async def start(client: Client, kind: OperationKind[Any], **spec: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=kind.spec.model_validate(spec),
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(kind.name, "demo", spec["name"]),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


def order(account: FakeAccount) -> list[str]:
    return [name for name, _ in account.arguments if name.startswith(("model_pools.", "routers."))]


async def test_a_pool_is_made_when_a_pod_has_answered_and_is_looked_after(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    done = await outcome(await start(client, CREATE_MODEL_POOL, **POOL))
    assert (done.phase, done.result["answer"]["model"]) == (Phase.SUCCEEDED, "m")
    assert asked(account, deployments.WAIT_FOR_ANSWERS)[0].service is None
    await client.get_workflow_handle(KEEPER).result()
    assert account.calls[model_pools.WATCH_POOL.name] == 1


async def test_a_move_is_out_drained_in_and_serving(client: Client, account: FakeAccount, pool: Pool) -> None:
    pool.business["p0"] = "chat"
    done = await outcome(await start(client, ASSIGN_MODEL_POOL, name="pool", assignments={"search": 2}))
    assert (done.result["assigned"], done.result["removed"]) == ({"search": 2}, ["old"])
    steps = [(name, argument.move.pod) for name, argument in account.arguments if isinstance(argument, MovePod)]
    assert [name for name, moved in steps if moved == "p0"] == [
        "model_pools.detach",
        "model_pools.wait_until_drained",
        "model_pools.attach",
        "model_pools.wait_until_serving",
    ]
    assert [name for name, moved in steps if moved == "p1"] == ["model_pools.attach", "model_pools.wait_until_serving"]
    # The wish is written before the first pod moves.
    assert order(account).index("model_pools.set_wish") < order(account).index("model_pools.detach")


async def test_services_with_load_balancers_have_addresses_and_empty_ones_stay_where_asked(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    wish = {"assignments": {"chat": 1}, "public": {"chat": "internal"}, "keep_services": True}
    done = await outcome(await start(client, ASSIGN_MODEL_POOL, name="pool", **wish))
    assert done.result["addresses"] == {"chat": "chat.example.com"}
    assert not any(each.delete_others for each in asked(account, model_pools.APPLY_POOL_SERVICES))


async def test_the_last_wish_wins(client: Client, account: FakeAccount, pool: Pool) -> None:
    hold = account.hold[model_pools.WAIT_FOR_SERVING_POD.name] = asyncio.Event()
    handle = await start(client, ASSIGN_MODEL_POOL, name="pool", assignments={"chat": 1})
    await until(handle, lambda _: account.calls[model_pools.WAIT_FOR_SERVING_POD.name] == 1)
    await handle.execute_update("supersede", Supersede(spec={"name": "pool", "assignments": {"search": 2}}, by="bob"))
    hold.set()
    done = await outcome(handle)
    assert (done.phase, done.result["assigned"]) == (Phase.SUCCEEDED, {"search": 2})
    assert set(pool.business.values()) == {"search"}


async def test_a_wish_that_cannot_be_read_blocks(client: Client, account: FakeAccount, pool: Pool) -> None:
    pool.problem = "the annotation is not understood"
    handle = await start(client, SCALE_MODEL_POOL, name="pool", replicas=2)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.field == "/assignments"
    pool.problem = None
    attempt = {each.name: each.attempt for each in (await progress(handle)).stages}["assigned"]
    resolution = {"action": "retry", "stage": "assigned", "attempt": attempt, "by": "alice"}
    await handle.execute_update("resolve", resolution)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED


async def test_an_assigned_pod_that_went_with_a_scale_down_is_replaced_and_named(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    pool.wish, pool.business = Wish(assignments={"chat": 1}), {"p0": "chat", "p1": UNASSIGNED}

    def scaled(_: Any) -> DeploymentObject:
        del pool.business["p0"]
        return DeploymentObject(name="pool", namespace="default", generation=2, replicas=1)

    account.answers[model_pools.SCALE_POOL.name] = scaled
    done = await outcome(await start(client, SCALE_MODEL_POOL, name="pool", replicas=1))
    assert (done.result["assigned"], done.result["replaced"]) == ({"chat": 1}, ["p0"])


async def test_a_pool_is_deleted_services_first_and_its_keeper_ends(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    hold = account.hold[model_pools.WATCH_POOL.name] = asyncio.Event()
    keeper = await keep(client)
    done = await outcome(await start(client, DELETE_MODEL_POOL, name="pool"))
    assert (done.phase, done.result["services"]) == (Phase.SUCCEEDED, ["old"])
    await keeper.result()
    assert [name for name in order(account) if name != "model_pools.watch"] == [
        "model_pools.apply_services",
        "model_pools.delete",
        "model_pools.wait_until_gone",
    ]
    hold.set()


async def keep(client: Client) -> WorkflowHandle[Any, Any]:
    scope = Scope(cluster="demo", region=REGION, created_by="alice", request_id="r-1")
    return await client.start_workflow(
        MODEL_POOL_WORKFLOW,
        KeepPool(scope=scope, eks_cluster="eks", name="pool", namespace="default"),
        id=KEEPER,
        task_queue=queues.ENTITIES,
    )


def news(account: FakeAccount, *told: PoolNews) -> None:
    """What the watch tells, one after the other; then that the pool is gone."""
    following = iter(told)
    account.answers[model_pools.WATCH_POOL.name] = lambda _: next(following, GONE)


async def test_the_keeper_hands_out_what_came_anew(client: Client, account: FakeAccount, pool: Pool) -> None:
    pool.wish = Wish(assignments={"chat": 2})
    news(account, PoolNews(detail="nothing new"), PoolNews(work=True, detail="chat 0 of 2"))
    keeper = await keep(client)
    await keeper.result()
    assert set(pool.business.values()) == {"chat"}
    shown = await keeper.query("keeper", result_type=Keeper)
    assert (shown.state, shown.repairs) == (KeeperState.WATCHING, 1)
    assert [each.known for each in asked(account, model_pools.WATCH_POOL)] == [None, "nothing new", None]


@pytest.mark.real_server
async def test_a_keeper_that_is_to_renew_itself_goes_on_as_new_and_watches_anew(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    hold = account.hold[model_pools.WATCH_POOL.name] = asyncio.Event()
    keeper = await keep(client)
    async with asyncio.timeout(20):
        while not account.calls[model_pools.WATCH_POOL.name]:
            await asyncio.sleep(0.02)
    await keeper.signal("renew")
    async with asyncio.timeout(20):
        while account.calls[model_pools.WATCH_POOL.name] < 2:
            await asyncio.sleep(0.02)
    assert (await client.get_workflow_handle(KEEPER).describe()).run_id != keeper.first_execution_run_id
    hold.set()
    await client.get_workflow_handle(KEEPER).result()


async def test_the_keeper_ends_with_its_cluster_and_goes_on_after_other_failures(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    account.fail(model_pools.WATCH_POOL, ProblemCode.DENIED)
    account.fail(model_pools.WATCH_POOL, ProblemCode.NOT_FOUND)
    keeper = await keep(client)
    await keeper.result()
    assert account.calls[model_pools.WATCH_POOL.name] == 2
    assert (await keeper.describe()).status is WorkflowExecutionStatus.COMPLETED


@pytest.mark.real_server
async def test_while_an_operation_has_the_say_the_keeper_waits_for_its_end_and_then_shows_what_is_so(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    pool.wish = Wish(assignments={"chat": 2})
    account.refusals, account.holder = [ProblemCode.BUSY], "assign-model-pool/demo/pool"
    ended = account.hold[WAIT_FOR_HOLDER.name] = asyncio.Event()
    gone = asyncio.Event()
    told = iter([PoolNews(work=True, detail="chat 0 of 2"), PoolNews(detail="chat 2 of 2")])

    def watched(_: Any) -> PoolNews:
        found = next(told, GONE)
        if found is GONE:
            gone.set()
        return found

    account.answers[model_pools.WATCH_POOL.name] = watched
    keeper = await keep(client)
    async with asyncio.timeout(20):
        while (shown := await keeper.query("keeper", result_type=Keeper)).state is not KeeperState.WAITING:
            await asyncio.sleep(0.02)
    assert shown.detail == "assign-model-pool/demo/pool has the say"
    assert (await keeper.describe()).status is WorkflowExecutionStatus.RUNNING
    ended.set()
    # On a server that skips no time: it ends only if nothing is waited for but the operation.
    async with asyncio.timeout(8):
        await gone.wait()
        await keeper.result()
    assert set(pool.business.values()) == {UNASSIGNED}
    assert [each.operation for each in asked(account, WAIT_FOR_HOLDER)] == ["assign-model-pool/demo/pool"]
    shown = await keeper.query("keeper", result_type=Keeper)
    assert (shown.state, shown.detail) == (KeeperState.WATCHING, "chat 2 of 2")


async def test_a_router_is_made_when_a_model_has_answered_through_it(
    client: Client, account: FakeAccount, pool: Pool
) -> None:
    done = await outcome(await start(client, CREATE_ROUTER, **ROUTER))
    assert (done.phase, done.result["workers"], done.result["address"]) == (Phase.SUCCEEDED, 2, None)
    assert asked(account, routers.APPLY_ROUTER)[0].worker_port == 8000
    (watched,) = asked(account, deployments.WAIT_FOR_ANSWERS)
    assert (watched.service, watched.port) == ("front", 30_000)
    assert order(account)[:2] == ["routers.ensure_access", "routers.apply"]


async def test_a_router_that_sees_nobody_blocks(client: Client, account: FakeAccount, pool: Pool) -> None:
    account.fail(routers.WAIT_FOR_ROUTER_WORKERS, ProblemCode.TIMEOUT)
    handle = await start(client, CREATE_ROUTER, **ROUTER)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    attempt = {each.name: each.attempt for each in (await progress(handle)).stages}["workers"]
    resolution = {"action": "retry", "stage": "workers", "attempt": attempt, "by": "alice"}
    await handle.execute_update("resolve", resolution)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED


async def test_a_router_is_deleted_until_it_is_gone(client: Client, account: FakeAccount, pool: Pool) -> None:
    done = await outcome(await start(client, DELETE_ROUTER, name="front"))
    assert (done.phase, order(account)) == (Phase.SUCCEEDED, ["routers.delete", "routers.wait_until_gone"])


async def test_a_keeper_gives_its_lease_back_and_leaves_no_line_in_the_history(client: Client, pool: Pool) -> None:
    record = ClusterRecord(
        tag="demo",
        region=REGION,
        created_by="alice",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        updated_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    entity = await client.start_workflow(
        CLUSTER_WORKFLOW, EntityState(record=record), id=cluster_id("demo"), task_queue=queues.ENTITIES
    )
    request = LeaseRequest(
        operation=KEEPER, run_id="r-1", kind=MODEL_POOL_WORKFLOW, by="alice", leases=("model-pools/default/pool",)
    )
    await entity.execute_update("acquire", Acquire(record=record, request=request))
    held = await entity.query("view", result_type=ClusterView)
    assert [each.operation for each in held.holding] == [KEEPER]
    await entity.signal("released", Holder(operation=KEEPER, run_id="r-1"))
    after = await entity.query("view", result_type=ClusterView)
    assert (after.holding, after.history) == ([], [])
