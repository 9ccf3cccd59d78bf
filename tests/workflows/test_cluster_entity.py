"""The cluster's entity on a real server: leases, record, history."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from temporalio.worker import Worker

from activities.cluster import ClusterActivities
from contracts import queues
from contracts.capacity import InstanceGroupSpec
from contracts.catalogue import CREATE_CLUSTER, CREATE_STORAGE, VERIFY_CLUSTER, OperationKind
from contracts.cluster import (
    MEMO_RECORD,
    MEMO_SUMMARY,
    AbortHolders,
    ClusterSpec,
    ClusterSummary,
    ClusterView,
    RecordChange,
)
from contracts.decision import Abort, Resolution
from contracts.lease import HeldBy
from contracts.names import cluster_id, operation_id
from contracts.operation import Origin, Outcome, Phase, Start
from contracts.problem import ProblemCode
from contracts.storage import ENSURE_CLAIM, WAIT_FOR_CLAIM, Claim, StorageSpec
from contracts.teardown import EndWaiting
from contracts.visibility import CLUSTER, PHASE
from tests.workflows.conftest import create, runner, until
from tests.workflows.fakes import REGION, FakeAccount
from workflows.registry import WORKFLOWS

GROUPS = [InstanceGroupSpec(instance_type="ml.g5.8xlarge", count=1)]


@pytest.fixture
async def client(dev_server: WorkflowEnvironment, account: FakeAccount) -> AsyncIterator[Client]:
    leases = ClusterActivities(dev_server.client)
    others = [
        each for each in account.activities() if not each.__temporal_activity_definition.name.startswith("cluster.")
    ]
    async with AsyncExitStack() as stack:
        for queue in (queues.WORKFLOWS, queues.ENTITIES):
            await stack.enter_async_context(
                Worker(dev_server.client, task_queue=queue, workflows=WORKFLOWS, workflow_runner=runner())
            )
        for queue in (queues.WAIT, queues.KUBERNETES, queues.aws(REGION)):
            await stack.enter_async_context(Worker(dev_server.client, task_queue=queue, activities=others))
        await stack.enter_async_context(
            Worker(
                dev_server.client,
                task_queue=queues.PLATFORM,
                activities=[leases.acquire_leases, leases.holder_state, *others],
            )
        )
        yield dev_server.client


@pytest.fixture
def tag() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


async def view(client: Client, tag: str) -> ClusterView:
    found: ClusterView = await client.get_workflow_handle(cluster_id(tag)).query("view", result_type=ClusterView)
    return found


async def add_storage(client: Client, tag: str, claim: str, wait: bool = True):  # type: ignore[no-untyped-def]
    return await client.start_workflow(
        CREATE_STORAGE.name,
        Start[StorageSpec](
            cluster=tag,
            region=REGION,
            spec=StorageSpec(claim=claim),
            origin=Origin(by="bob", role="operator", request_id="r-2"),
            wait_for_leases=wait,
        ),
        id=operation_id(CREATE_STORAGE.name, tag, claim),
        task_queue=queues.WORKFLOWS,
    )


async def test_the_record_says_what_was_verified_and_the_history_who_did_what(client: Client, tag: str) -> None:
    handle = await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))
    await handle.result()
    async with asyncio.timeout(60):
        while not (found := await view(client, tag)).history:
            await asyncio.sleep(0.05)
    record = found.record
    assert record.control_plane is not None
    assert record.control_plane.status == "ACTIVE"
    assert [node.ready for node in record.nodes] == [True]
    assert [claim.phase for claim in record.storage] == ["Bound"]
    assert (found.history[0].operation, found.history[0].phase) == (f"create-cluster/{tag}", Phase.SUCCEEDED)
    assert found.history[0].by == "alice"
    assert not found.holding
    description = await client.get_workflow_handle(cluster_id(tag)).describe()
    summary = ClusterSummary.model_validate((await description.memo())[MEMO_SUMMARY])
    assert (summary.nodes, summary.nodes_ready, summary.accelerators) == (1, 1, record.nodes[0].accelerators)


async def test_a_second_operation_queues_behind_the_first_says_so_and_goes_on_by_itself(
    client: Client, account: FakeAccount, tag: str
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    account.fail(ENSURE_CLAIM, ProblemCode.CONFLICT)
    first = await add_storage(client, tag, "one")
    await until(first, lambda p: p.phase is Phase.BLOCKED)
    creating = await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))
    queued = await until(creating, lambda p: p.phase is Phase.QUEUED)
    assert f"create-storage/{tag}/one" in (queued.detail or "")
    await first.execute_update("resolve", Resolution(action="retry", stage="storage", attempt=1, by="bob"))
    assert Outcome.model_validate(await creating.result()).phase is Phase.SUCCEEDED


async def test_operations_that_share_nothing_run_side_by_side(client: Client, account: FakeAccount, tag: str) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    account.fail(ENSURE_CLAIM, ProblemCode.CONFLICT)
    one = await add_storage(client, tag, "one")
    await until(one, lambda p: p.phase is Phase.BLOCKED)
    two = await add_storage(client, tag, "two")
    assert Outcome.model_validate(await two.result()).phase is Phase.SUCCEEDED
    await one.execute_update("abort", Abort(by="bob"))
    await one.result()


async def test_the_record_keeps_what_operations_side_by_side_have_made(
    client: Client, account: FakeAccount, tag: str
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()

    def made(name: str) -> Claim:
        return Claim(claim=name, namespace="default", volume=f"v-{name}", phase="Bound", bucket="own")

    account.answers[ENSURE_CLAIM.name] = lambda asked: made(asked.spec.claim)
    account.answers[WAIT_FOR_CLAIM.name] = lambda asked: made(asked.claim)
    account.fail(ENSURE_CLAIM, ProblemCode.CONFLICT)
    one = await add_storage(client, tag, "one")
    await until(one, lambda p: p.phase is Phase.BLOCKED)
    await (await add_storage(client, tag, "two")).result()
    await one.execute_update("resolve", Resolution(action="retry", stage="storage", attempt=1, by="bob"))
    await one.result()
    assert {each.claim for each in (await view(client, tag)).record.storage} >= {"one", "two"}


async def test_who_may_not_wait_is_refused_at_once_with_the_holders_name(
    client: Client, account: FakeAccount, tag: str
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    account.fail(ENSURE_CLAIM, ProblemCode.CONFLICT)
    one = await add_storage(client, tag, "one")
    await until(one, lambda p: p.phase is Phase.BLOCKED)
    creating = await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS), wait_for_leases=False)
    assert Outcome.model_validate(await creating.result()).phase is Phase.ABORTED
    found = await until(creating, lambda p: p.phase.ended)
    assert found.problem is not None
    assert found.problem.code is ProblemCode.BUSY
    assert found.problem.operation == f"create-storage/{tag}/one"

    await one.terminate("an operator killed it")
    again = await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS), wait_for_leases=False)
    assert Outcome.model_validate(await again.result()).phase is Phase.SUCCEEDED, "a dead holder holds nothing"


async def test_the_leases_of_a_holder_that_was_terminated_are_taken_back(
    client: Client, account: FakeAccount, tag: str
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    account.fail(ENSURE_CLAIM, ProblemCode.CONFLICT)
    one = await add_storage(client, tag, "one")
    await until(one, lambda p: p.phase is Phase.BLOCKED)
    creating = await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))
    await until(creating, lambda p: p.phase is Phase.QUEUED)
    await one.terminate("an operator killed it")
    async with asyncio.timeout(30):
        assert Outcome.model_validate(await creating.result()).phase is Phase.SUCCEEDED


async def test_an_entity_that_continues_as_new_forgets_nothing(client: Client, account: FakeAccount, tag: str) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    account.fail(ENSURE_CLAIM, ProblemCode.CONFLICT)
    one = await add_storage(client, tag, "one")
    await until(one, lambda p: p.phase is Phase.BLOCKED)
    before = await view(client, tag)
    entity = client.get_workflow_handle(cluster_id(tag))
    first_run = (await entity.describe()).run_id
    await entity.signal("renew")
    async with asyncio.timeout(60):
        while (await entity.describe()).run_id == first_run:
            await asyncio.sleep(0.05)
    assert await view(client, tag) == before
    assert {MEMO_RECORD, MEMO_SUMMARY} <= await begun_with(entity)
    await one.execute_update("resolve", Resolution(action="retry", stage="storage", attempt=1, by="bob"))
    await one.result()
    async with asyncio.timeout(60):
        while (await view(client, tag)).holding:
            await asyncio.sleep(0.05)
    assert [entry.kind for entry in (await view(client, tag)).history] == ["create-storage", "create-cluster"]


async def begun_with(entity: WorkflowHandle[Any, Any]) -> set[str]:
    """What the newest run tells readers before its first step: a busy worker may let them wait for that."""
    history = await entity.fetch_history()
    return set(history.events[0].workflow_execution_started_event_attributes.memo.fields)


async def test_one_tag_cannot_be_in_two_regions(client: Client, tag: str) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    elsewhere = await client.start_workflow(
        CREATE_CLUSTER.name,
        Start[ClusterSpec](
            cluster=tag,
            region="eu-west-1",
            spec=ClusterSpec(tag=tag),
            origin=Origin(by="alice", role="operator", request_id="r-3"),
        ),
        id=operation_id(CREATE_CLUSTER.name, tag),
        task_queue=queues.WORKFLOWS,
    )
    assert Outcome.model_validate(await elsewhere.result()).phase is Phase.ABORTED
    found = await until(elsewhere, lambda p: p.phase.ended)
    assert found.problem is not None
    assert found.problem.field == "/region"


async def test_operations_and_clusters_are_found_by_what_they_are(
    client: Client, account: FakeAccount, tag: str
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    query = f"HpCluster = '{tag}' AND WorkflowType = 'cluster'"
    async with asyncio.timeout(60):
        while not (found := [each.id async for each in client.list_workflows(query)]):
            await asyncio.sleep(0.1)
    assert found == [cluster_id(tag)]


async def test_the_entity_of_a_deleted_cluster_ends_and_its_tag_is_free_again(
    client: Client, tag: str, account: FakeAccount
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    entity = client.get_workflow_handle(cluster_id(tag))
    await entity.signal("retire", RecordChange(changes={}, by=f"delete-cluster/{tag}"))
    async with asyncio.timeout(60):
        await entity.result()

    handle = await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))
    assert Outcome.model_validate(await handle.result()).phase is Phase.SUCCEEDED
    assert (await view(client, tag)).record.hyperpod is not None


async def test_an_entity_does_not_end_while_somebody_waits_for_its_cluster(
    client: Client, tag: str, account: FakeAccount
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    hold = account.hold[ENSURE_CLAIM.name] = asyncio.Event()
    running = await add_storage(client, tag, "one")
    await until(running, lambda found: found.stages[0].attempt == 1)
    entity = client.get_workflow_handle(cluster_id(tag))
    await entity.signal("retire", RecordChange(changes={}, by=f"delete-cluster/{tag}"))
    assert [each.operation for each in (await view(client, tag)).holding] == [running.id]
    hold.set()
    await running.result()
    async with asyncio.timeout(60):
        await entity.result()


async def test_who_comes_after_the_deletion_leaves_no_empty_cluster_behind(
    client: Client, tag: str, account: FakeAccount
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    entity = client.get_workflow_handle(cluster_id(tag))
    await entity.signal("retire", RecordChange(changes={}, by=f"delete-cluster/{tag}"))
    async with asyncio.timeout(60):
        await entity.result()

    late = await (await add_storage(client, tag, "late")).result()
    assert Outcome.model_validate(late).phase is Phase.ABORTED
    async with asyncio.timeout(60):
        await entity.result()


async def test_holders_are_asked_to_end_by_who_needs_the_cluster(
    client: Client, tag: str, account: FakeAccount
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    account.hold[ENSURE_CLAIM.name] = asyncio.Event()
    running = await add_storage(client, tag, "one")
    await until(running, lambda found: found.stages[0].attempt == 1)
    environment = ActivityEnvironment(client=client)
    wish = AbortHolders(cluster=tag, by="alice", except_run="another")
    asked = await environment.run(ClusterActivities(client).abort_holders, wish)
    assert asked.operations == [running.id]
    account.hold[ENSURE_CLAIM.name].set()
    assert Outcome.model_validate(await running.result()).phase is Phase.ABORTED


async def test_a_holder_is_waited_for_until_it_has_ended_and_one_that_is_unknown_has(
    client: Client, tag: str, account: FakeAccount
) -> None:
    await (await create(client, ClusterSpec(tag=tag, instance_groups=GROUPS))).result()
    leases, environment = ClusterActivities(client), ActivityEnvironment(client=client)
    unknown = HeldBy(operation=f"create-storage/{tag}/never")
    assert await environment.run(leases.wait_for_holder, unknown) == unknown

    hold = account.hold[ENSURE_CLAIM.name] = asyncio.Event()
    running = await add_storage(client, tag, "one")
    waiting = asyncio.ensure_future(environment.run(leases.wait_for_holder, HeldBy(operation=running.id)))
    await until(running, lambda found: found.stages[0].attempt == 1)
    assert not waiting.done()
    hold.set()
    async with asyncio.timeout(20):
        await waiting
    assert (await running.describe()).status is WorkflowExecutionStatus.COMPLETED


async def test_what_waits_for_an_approval_is_ended_with_the_reason_and_a_new_creation_is_not(
    client: Client, tag: str
) -> None:
    async def agents(kind: OperationKind[Any], spec: Any, *parts: str) -> WorkflowHandle[Any, Any]:
        attributes = {CLUSTER: tag, PHASE: Phase.WAITING_FOR_APPROVAL.value}
        return await client.start_workflow(
            kind.name,
            Start[kind.spec](  # type: ignore[name-defined]
                cluster=tag,
                region=REGION,
                spec=spec,
                origin=Origin(by="bot", role="agent", request_id="r-3"),
                needs_approval=True,
            ),
            id=operation_id(kind.name, tag, *parts),
            task_queue=queues.WORKFLOWS,
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(SearchAttributeKey.for_keyword(name), at) for name, at in attributes.items()]
            ),
        )

    storage = await agents(CREATE_STORAGE, StorageSpec(claim="late"), "late")
    creation = await agents(CREATE_CLUSTER, ClusterSpec(tag=tag, instance_groups=GROUPS))
    leases, environment = ClusterActivities(client), ActivityEnvironment(client=client)
    wish = EndWaiting(cluster=tag, by="alice", reason=f"cluster {tag} is gone")
    async with asyncio.timeout(20):
        # What a list finds is a moment behind.
        while not (await environment.run(leases.end_waiting, wish)).operations:
            await asyncio.sleep(0.05)
    assert Outcome.model_validate(await storage.result()).phase is Phase.ABORTED
    assert (await until(storage, lambda found: found.phase.ended)).detail == f"aborted by alice: cluster {tag} is gone"
    waits = await until(creation, lambda found: found.phase is Phase.WAITING_FOR_APPROVAL)
    assert waits.plan_hash is not None
    await creation.execute_update("abort", Abort(by="alice"))


async def test_who_is_approved_after_the_cluster_went_is_told_that_it_is_gone(client: Client, tag: str) -> None:
    handle = await client.start_workflow(
        VERIFY_CLUSTER.name,
        Start[VERIFY_CLUSTER.spec](  # type: ignore[name-defined]
            cluster=tag,
            region=REGION,
            spec=VERIFY_CLUSTER.spec(),
            origin=Origin(by="bot", role="agent", request_id="r-3"),
        ),
        id=operation_id(VERIFY_CLUSTER.name, tag),
        task_queue=queues.WORKFLOWS,
    )
    assert Outcome.model_validate(await handle.result()).phase is Phase.ABORTED
    told = (await until(handle, lambda found: found.phase.ended)).detail or ""
    assert f"cluster {tag} is gone" in told
