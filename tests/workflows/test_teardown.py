"""delete-cluster: what its stages promise, with an account that answers at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import queues
from contracts.catalogue import DELETE_CLUSTER
from contracts.decision import Resolution
from contracts.identity import ENSURE_ACCESS_ENTRY
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from contracts.teardown import (
    DELETE_OBJECTS,
    DELETE_PART,
    END_WAITING,
    KUBERNETES_PARTS,
    SURVEY,
    SWEEP,
    WAIT_UNTIL_GONE,
    WAIT_UNTIL_SETTLED,
    DeleteClusterSpec,
    DeletedPart,
    GonePart,
    Inventory,
    Kept,
    Leftover,
    Level,
    Part,
    Resource,
    Settled,
)
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

GOING = tuple(part for part in Part if part not in (Part.BUCKET, Part.FILE_SYSTEMS))


def thing(part: Part) -> Resource:
    return Resource(part=part, kind=part.value, id=f"{part.value}-1")


@pytest.fixture(autouse=True)
def there(account: FakeAccount) -> set[Part]:
    """The parts that there are: a deletion takes them out."""
    parts: set[Part] = set(GOING)

    def survey(asked: Any) -> Inventory:
        going = [thing(part) for part in Part if part in parts and part.goes(asked.spec)]
        kept = [Kept(kind="S3 bucket", id="bucket", why="it may hold data")]
        return Inventory(resources=going, kept=kept, known=asked.known)

    def delete(asked: Any) -> DeletedPart:
        found = [thing(asked.part)] if asked.part in parts else []
        parts.discard(asked.part)
        return DeletedPart(resources=found, changed=bool(found))

    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        SURVEY.name: survey,
        SWEEP.name: survey,
        WAIT_UNTIL_SETTLED.name: lambda _: Settled(active=["eks"]),
        DELETE_OBJECTS.name: delete,
        DELETE_PART.name: delete,
        WAIT_UNTIL_GONE.name: lambda asked: GonePart(part=asked.part),
    }
    return parts


async def delete(client: Client, **spec: Any) -> WorkflowHandle[Any, Outcome]:
    return await client.start_workflow(
        DELETE_CLUSTER.name,
        Start[DeleteClusterSpec](
            cluster="demo",
            region=REGION,
            spec=DeleteClusterSpec.model_validate(spec),
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(DELETE_CLUSTER.name, "demo"),
        task_queue=queues.WORKFLOWS,
        result_type=Outcome,
    )


async def ended(handle: WorkflowHandle[Any, Outcome]) -> Outcome:
    async with asyncio.timeout(30):
        return await handle.result()


def order(account: FakeAccount) -> list[Part]:
    """The parts whose deletion was begun, in order, without the looks for more."""
    asked = [argument.part for name, argument in account.arguments if name in (DELETE_PART.name, DELETE_OBJECTS.name)]
    return list(dict.fromkeys(asked))


async def test_everything_goes_after_what_uses_it_and_is_reported(client: Client, account: FakeAccount) -> None:
    outcome = await ended(await delete(client))

    assert outcome.phase is Phase.SUCCEEDED
    assert order(account) == [part for part in Part if part in GOING]
    assert account.calls[ENSURE_ACCESS_ENTRY.name] == 1
    assert [each["part"] for each in outcome.result["deleted"]] == [part.value for part in GOING]
    assert outcome.result["kept"] == [{"kind": "S3 bucket", "id": "bucket", "why": "it may hold data"}]
    assert outcome.result["remaining"] == []


@pytest.mark.parametrize(
    ("level", "parts"),
    [
        (Level.HYPERPOD, {Part.NODE_POOLS, Part.HYPERPOD}),
        (
            Level.EKS,
            {
                *(Part.WORKLOADS, Part.NODE_POOLS, Part.HYPERPOD),
                *(Part.NODE_GROUPS, Part.CONTROL_PLANE, Part.FEATURES, Part.IDENTITY),
            },
        ),
    ],
)
async def test_a_lower_level_leaves_the_rest(
    client: Client, account: FakeAccount, there: set[Part], level: Level, parts: set[Part]
) -> None:
    handle = await delete(client, level=level.value)
    outcome = await ended(handle)

    assert outcome.phase is Phase.SUCCEEDED
    assert set(order(account)) == parts
    assert there == set(GOING) - parts
    states = {stage.name: stage.state for stage in (await progress(handle)).stages}
    assert states["network"] is StageState.UNCHANGED
    assert states["hyperpod"] is StageState.DONE
    assert account.calls[END_WAITING.name] == int(level is Level.EKS)


async def test_what_waits_for_an_approval_ends_with_the_cluster(client: Client, account: FakeAccount) -> None:
    assert (await ended(await delete(client))).phase is Phase.SUCCEEDED
    ((_, told),) = [each for each in account.arguments if each[0] == END_WAITING.name]
    assert (told.cluster, told.by, told.reason) == ("demo", "alice", "cluster demo is gone (delete-cluster/demo)")


async def test_what_is_still_there_at_the_end_blocks_until_it_is_gone(client: Client, account: FakeAccount) -> None:
    survey = account.answers[SWEEP.name]
    volume = Leftover(kind="EBS volume", id="vol-1", detail="10 GiB", remedy="Delete it, then retry.")
    account.answers[SWEEP.name] = lambda asked: survey(asked).model_copy(update={"leftovers": [volume]})
    handle = await delete(client)
    blocked = await until(handle, lambda seen: seen.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert (blocked.problem.code, "vol-1" in blocked.problem.detail) == (ProblemCode.FOREIGN, True)

    account.answers[SWEEP.name] = survey
    resolution = Resolution(action="retry", stage="sweep", attempt=1, by="alice", corrections={"keep": ["vol-1"]})
    await handle.execute_update("resolve", resolution)
    assert (await ended(handle)).phase is Phase.SUCCEEDED


async def test_a_part_that_appears_again_is_deleted_again(client: Client, account: FakeAccount) -> None:
    delete_part, rounds = account.answers[DELETE_PART.name], [2]

    def appearing(asked: Any) -> Any:
        if asked.part is Part.INTERFACES and rounds[0]:
            rounds[0] -= 1
            return DeletedPart(resources=[thing(Part.INTERFACES)])
        return delete_part(asked)

    account.answers[DELETE_PART.name] = appearing
    outcome = await ended(await delete(client))
    assert outcome.phase is Phase.SUCCEEDED
    asked = [argument.part for name, argument in account.arguments if name == DELETE_PART.name]
    assert asked.count(Part.INTERFACES) == 4  # two rounds, what was there, and nothing


async def test_retained_volumes_are_told_to_what_comes_after(client: Client, account: FakeAccount) -> None:
    begun = account.answers[DELETE_OBJECTS.name]
    volume = Kept(kind="volume", id="vol-1", why="its PersistentVolume is retained")
    account.answers[DELETE_OBJECTS.name] = lambda asked: begun(asked).model_copy(update={"kept": [volume]})
    outcome = await ended(await delete(client))
    swept = next(argument for name, argument in account.arguments if name == SWEEP.name)
    assert swept.known.retained == {"vol-1": volume.why}
    assert volume.model_dump() in outcome.result["kept"]


async def test_without_a_kubernetes_api_nothing_is_asked_of_it(
    client: Client, account: FakeAccount, there: set[Part]
) -> None:
    there -= set(KUBERNETES_PARTS)
    account.answers[WAIT_UNTIL_SETTLED.name] = lambda _: Settled(active=[])
    assert (await ended(await delete(client))).phase is Phase.SUCCEEDED
    assert not set(order(account)) & set(KUBERNETES_PARTS)


async def test_a_blocker_of_the_plan_stops_it_before_anything_is_deleted(client: Client, account: FakeAccount) -> None:
    fault = FieldError(field="/level", detail="EKS cluster eks is protected", code=ProblemCode.FOREIGN)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[fault]))
    handle = await delete(client)
    await until(handle, lambda seen: seen.phase is Phase.BLOCKED)
    assert order(account) == []
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft())
    await handle.execute_update("resolve", Resolution(action="retry", stage="checks", attempt=1, by="alice"))
    assert (await ended(handle)).phase is Phase.SUCCEEDED
