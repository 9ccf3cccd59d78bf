"""create-cluster: what its stages promise, with an account that answers at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from contracts import dependencies, eks, hyperpod, network, options, storage
from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ClusterSpec
from contracts.decision import Abort, Answer, Approval, Resolution
from contracts.operation import Outcome, Phase, StageState
from contracts.problem import FieldError, ProblemCode, problem
from tests.workflows.conftest import create, progress, until
from tests.workflows.fakes import FakeAccount

WORKERS = [InstanceGroupSpec(instance_type="ml.g5.8xlarge", count=1)]


def resolution(action: str, stage: str, attempt: int = 1, **more: Any) -> Resolution:
    return Resolution.model_validate({"action": action, "stage": stage, "attempt": attempt, "by": "bob", **more})


async def refused(handle: WorkflowHandle[Any, Any], update: str, argument: Any) -> dict[str, Any]:
    """The problem with which an update is refused."""
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await handle.execute_update(update, argument)
    assert isinstance(caught.value.cause, ApplicationError)
    found: dict[str, Any] = caught.value.cause.details[0]
    return found


async def test_a_cluster_with_given_groups_is_made_without_a_question(client: Client, account: FakeAccount) -> None:
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    outcome = Outcome.model_validate(await handle.result())
    assert outcome.phase is Phase.SUCCEEDED
    assert outcome.result["nodes"][0]["instance_type"] == "ml.g5.8xlarge"
    found = await progress(handle)
    assert {stage.state for stage in found.stages} == {StageState.DONE}
    assert account.calls[eks.ENSURE_CONTROL_PLANE.name] == 1


async def test_without_groups_it_asks_and_takes_the_first_valid_answer(client: Client, account: FakeAccount) -> None:
    handle = await create(client, ClusterSpec(tag="demo"))
    waiting = await until(handle, lambda p: p.phase is Phase.WAITING_FOR_DECISION)
    assert waiting.decision is not None
    assert waiting.decision.options["instance_type"] == ["ml.g5.8xlarge"], "a type without quota is no option"
    assert waiting.decision.default == {
        "instance_type": "ml.g5.8xlarge",
        "count": 1,
        "availability_zone": "us-west-2a",
        "capacity": {"kind": "on-demand"},
    }
    assert account.calls[hyperpod.ENSURE_HYPERPOD.name] == 0

    wrong = {"instance_type": "ml.g5.8xlarge", "count": 1, "availability_zone": "us-west-2c"}
    found = await refused(handle, "decide", Answer(decision="capacity", answer=wrong, by="bob"))
    assert found["code"] == ProblemCode.INVALID
    assert found["field"] == "/answer/availability_zone"

    right = wrong | {"availability_zone": "us-west-2b"}
    await handle.execute_update("decide", Answer(decision="capacity", answer=right, by="bob"))
    await handle.result()
    ensured = next(a for name, a in account.arguments if name == hyperpod.ENSURE_HYPERPOD.name)
    assert ensured.groups[0].subnet.zone == "us-west-2b"
    history = await handle.fetch_history()
    rejected = [e for e in history.events if e.HasField("workflow_execution_update_rejected_event_attributes")]
    assert not rejected


async def test_a_training_plan_in_another_zone_is_refused_with_both_zones(client: Client) -> None:
    handle = await create(client, ClusterSpec(tag="demo"))
    await until(handle, lambda p: p.phase is Phase.WAITING_FOR_DECISION)
    answer = {
        "instance_type": "ml.p5.48xlarge",
        "count": 1,
        "availability_zone": "us-west-2a",
        "capacity": {"kind": "training-plan", "training_plan": "plan-1"},
    }
    found = await refused(handle, "decide", Answer(decision="capacity", answer=answer, by="bob"))
    assert "us-west-2a" in found["detail"]
    assert "us-west-2b" in found["detail"]
    await handle.execute_update("abort", Abort(by="bob"))
    await handle.result()


async def test_a_plan_places_its_group_in_its_own_zone(client: Client, account: FakeAccount) -> None:
    handle = await create(client, ClusterSpec(tag="demo"))
    await until(handle, lambda p: p.phase is Phase.WAITING_FOR_DECISION)
    answer = {
        "instance_type": "ml.p5.48xlarge",
        "count": 2,
        "capacity": {"kind": "training-plan", "training_plan": "plan-1"},
    }
    await handle.execute_update("decide", Answer(decision="capacity", answer=answer, by="bob"))
    await handle.result()
    ensured = next(a for name, a in account.arguments if name == hyperpod.ENSURE_HYPERPOD.name)
    assert ensured.groups[0].subnet.zone == "us-west-2b"
    assert ensured.groups[0].training_plan_arn.endswith("training-plan/plan-1")
    assert ensured.groups[0].threads_per_core == 2


async def test_findings_block_before_anything_is_made_and_a_correction_goes_on(
    client: Client, account: FakeAccount
) -> None:
    answers = iter(
        [options.Findings(errors=[FieldError(field="/network/vpc_cidr", detail="overlaps vpc-9")]), options.Findings()]
    )
    account.answers[options.CHECK_CLUSTER.name] = lambda _: next(answers)
    spec = ClusterSpec.model_validate(
        {"tag": "demo", "network": {"vpc_cidr": "10.0.0.0/16"}, "instance_groups": WORKERS}
    )
    handle = await create(client, spec)
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.field == "/network/vpc_cidr"
    assert set(account.calls) == {options.CHECK_CLUSTER.name}
    corrections = {"network": {"vpc_cidr": "10.91.0.0/16"}}
    await handle.execute_update("resolve", resolution("retry", "preflight", corrections=corrections))
    await handle.result()
    planned = next(a for name, a in account.arguments if name == network.PLAN_NETWORK.name)
    assert planned.spec.vpc_cidr == "10.91.0.0/16"


async def test_a_blocked_stage_waits_for_days_and_a_retry_in_another_zone_leaves_earlier_stages_alone(
    client: Client, time_skipping: WorkflowEnvironment, account: FakeAccount
) -> None:
    account.fail(hyperpod.WAIT_FOR_HYPERPOD, ProblemCode.CAPACITY)
    groups = [InstanceGroupSpec(instance_type="ml.g5.8xlarge", count=1, availability_zone="us-west-2a")]
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=groups))
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.code is ProblemCode.CAPACITY
    assert blocked.problem.remedy
    before = dict(account.calls)
    await time_skipping.sleep(timedelta(days=3))
    corrections = {"instance_groups": [{"name": "workers", "availability_zone": "us-west-2b"}]}
    await handle.execute_update("resolve", resolution("retry", "hyperpod", corrections=corrections))
    await handle.result()
    for name in (network.ENSURE_VPC.name, eks.ENSURE_CONTROL_PLANE.name, options.CHECK_CLUSTER.name):
        assert account.calls[name] == before[name]
    last = [a for name, a in account.arguments if name == hyperpod.ENSURE_HYPERPOD.name][-1]
    assert last.groups[0].subnet.zone == "us-west-2b"
    assert last.groups[0].spec.count == 1, "what was not corrected stays"


async def test_a_correction_that_cannot_be_had_blocks_again_before_anything_is_made_for_it(
    client: Client, account: FakeAccount
) -> None:
    account.fail(hyperpod.WAIT_FOR_HYPERPOD, ProblemCode.CAPACITY)
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    subnets = account.calls[network.ENSURE_COMPUTE_SUBNET.name]
    elsewhere = {"instance_groups": [{"availability_zone": "us-west-2c"}]}
    await handle.execute_update("resolve", resolution("retry", "hyperpod", corrections=elsewhere))
    blocked = await until(handle, lambda p: any(s.attempt == 2 and s.state is StageState.BLOCKED for s in p.stages))
    assert blocked.problem is not None
    assert blocked.problem.field == "/instance_groups/0/availability_zone"
    assert account.calls[network.ENSURE_COMPUTE_SUBNET.name] == subnets
    back = {"instance_groups": [{"availability_zone": "us-west-2b"}]}
    await handle.execute_update("resolve", resolution("retry", "hyperpod", attempt=2, corrections=back))
    assert Outcome.model_validate(await handle.result()).phase is Phase.SUCCEEDED


async def test_what_finished_stages_used_cannot_be_corrected(client: Client, account: FakeAccount) -> None:
    account.fail(hyperpod.ENSURE_HYPERPOD, ProblemCode.QUOTA)
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    wrong = resolution("retry", "hyperpod", corrections={"network": {"vpc_cidr": "10.91.0.0/16"}})
    found = await refused(handle, "resolve", wrong)
    assert found["field"] == "/corrections/network/vpc_cidr"
    bad = resolution("retry", "hyperpod", corrections={"instance_groups": [{"count": 9999}]})
    found = await refused(handle, "resolve", bad)
    assert found["field"] == "/corrections/instance_groups/0/count"
    await handle.execute_update("resolve", resolution("retry", "hyperpod"))
    assert Outcome.model_validate(await handle.result()).phase is Phase.SUCCEEDED


async def test_an_answer_to_an_earlier_failure_is_refused(client: Client, account: FakeAccount) -> None:
    account.fail(eks.ENSURE_CONTROL_PLANE, ProblemCode.DENIED, times=2)
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    await handle.execute_update("resolve", resolution("retry", "control_plane"))
    await until(handle, lambda p: any(s.attempt == 2 and s.state is StageState.BLOCKED for s in p.stages))
    assert (await refused(handle, "resolve", resolution("retry", "control_plane")))["code"] == ProblemCode.CONFLICT
    assert (await refused(handle, "resolve", resolution("retry", "network")))["code"] == ProblemCode.CONFLICT
    await handle.execute_update("resolve", resolution("retry", "control_plane", attempt=2))
    await handle.result()
    assert account.calls[network.ENSURE_VPC.name] == 1


async def test_only_a_skippable_stage_can_be_skipped_and_the_rest_goes_on(client: Client, account: FakeAccount) -> None:
    account.fail(storage.ENSURE_CLAIM, ProblemCode.CONFLICT)
    account.fail(eks.ENSURE_CONTROL_PLANE, ProblemCode.DENIED)
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    found = await refused(handle, "resolve", resolution("skip", "control_plane"))
    assert "cannot be skipped" in found["detail"]
    await handle.execute_update("resolve", resolution("retry", "control_plane"))
    await until(handle, lambda p: p.phase is Phase.BLOCKED and p.stages[-3].state is StageState.BLOCKED)
    await handle.execute_update("resolve", resolution("skip", "storage"))
    await handle.result()
    states = {stage.name: stage.state for stage in (await progress(handle)).stages}
    assert states["storage"] is StageState.SKIPPED
    assert states["verification"] is StageState.DONE


async def test_what_others_took_away_before_the_end_is_installed_again_with_a_retry(
    client: Client, account: FakeAccount
) -> None:
    healthy = account.answers[dependencies.WAIT_FOR_ADDON.name]
    gone = {"cert-manager"}

    def install(asked: dependencies.EnsureAddon) -> dependencies.Addon:
        if account.calls[dependencies.VERIFY_RELEASE.name] > 1:  # The verification has begun.
            gone.discard(asked.name)
        return dependencies.Addon(name=asked.name, version="v1", status="CREATING")

    def watch(asked: dependencies.WaitForAddon) -> dependencies.ComponentStatus:
        if not asked.accept_waiting_for_nodes and asked.name in gone:
            found = problem(ProblemCode.NOT_FOUND, f"There is no add-on {asked.name}", remedy="install it")
            details = found.model_dump(mode="json")
            raise ApplicationError(found.detail, details, type=found.code.value, non_retryable=True)
        answer: dependencies.ComponentStatus = healthy(asked)
        return answer

    account.answers |= {dependencies.ENSURE_ADDON.name: install, dependencies.WAIT_FOR_ADDON.name: watch}
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert [each.name for each in blocked.stages if each.state is StageState.BLOCKED] == ["verification"]
    await handle.execute_update("resolve", resolution("retry", "verification"))
    assert (await handle.result())["phase"] == Phase.SUCCEEDED
    assert gone == set()
    assert account.calls[eks.ENSURE_CONTROL_PLANE.name] == 1


async def test_two_stages_that_fail_side_by_side_block_together_and_each_is_resolved_alone(
    client: Client, account: FakeAccount
) -> None:
    account.fail(network.ENSURE_NAT_GATEWAY, ProblemCode.QUOTA, times=2)
    account.fail(eks.ENSURE_CONTROL_PLANE, ProblemCode.QUOTA)
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await until(handle, lambda p: sum(s.state is StageState.BLOCKED for s in p.stages) == 2)
    await handle.execute_update("resolve", resolution("retry", "egress"))
    await until(handle, lambda p: {s.name: s.state for s in p.stages}["egress"] is StageState.DONE)
    await handle.execute_update("resolve", resolution("retry", "control_plane"))
    assert Outcome.model_validate(await handle.result()).phase is Phase.SUCCEEDED


@pytest.mark.real_server
async def test_an_abort_stops_the_wait_starts_nothing_more_and_reports_what_exists(
    client: Client, account: FakeAccount
) -> None:
    account.hold[eks.WAIT_FOR_CONTROL_PLANE.name] = asyncio.Event()
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    async with asyncio.timeout(20):
        while not account.calls[eks.WAIT_FOR_CONTROL_PLANE.name]:
            await asyncio.sleep(0.02)
    await handle.execute_update("abort", Abort(by="bob", reason="wrong region"))
    found = await until(handle, lambda p: p.phase.ended)
    assert found.phase is Phase.ABORTED
    states = {stage.name: stage.state for stage in found.stages}
    assert states["network"] is StageState.DONE
    assert states["control_plane"] is StageState.PENDING
    assert account.calls["dependencies.ensure_addon"] == 0
    assert found.result is not None
    exists = found.result["exists"]
    assert exists["network/network.ensure_vpc"] == "vpc-1"
    assert exists["control_plane/eks.ensure_control_plane"] == "eks-cluster-demo"
    assert found.result["unknown"] == []


async def test_an_agents_creation_waits_for_a_person_who_approves_exactly_that_plan(
    client: Client, account: FakeAccount
) -> None:
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS), needs_approval=True)
    waiting = await until(handle, lambda p: p.phase is Phase.WAITING_FOR_APPROVAL)
    assert not account.calls
    found = await refused(handle, "approve", Approval(approved=True, plan_hash="other", by="carol"))
    assert found["code"] == ProblemCode.CONFLICT
    await handle.execute_update("approve", Approval(approved=True, plan_hash=waiting.plan_hash, by="carol"))
    assert Outcome.model_validate(await handle.result()).phase is Phase.SUCCEEDED


async def test_a_rejected_plan_is_aborted_untouched(client: Client, account: FakeAccount) -> None:
    handle = await create(client, ClusterSpec(tag="demo"), needs_approval=True)
    waiting = await until(handle, lambda p: p.phase is Phase.WAITING_FOR_APPROVAL)
    await handle.execute_update("approve", Approval(approved=False, plan_hash=waiting.plan_hash, by="carol"))
    assert Outcome.model_validate(await handle.result()).phase is Phase.ABORTED
    assert not account.calls


async def test_where_nothing_had_to_be_done_the_stages_say_so(client: Client, account: FakeAccount) -> None:
    account.changed = False
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await handle.result()
    states = {stage.name: stage.state for stage in (await progress(handle)).stages}
    assert states["network"] is StageState.UNCHANGED
    assert states["hyperpod"] is StageState.UNCHANGED
    assert states["verification"] is StageState.DONE


async def test_a_group_that_must_move_is_gone_before_it_is_made_anew(client: Client, account: FakeAccount) -> None:
    normal = account.answers[hyperpod.ENSURE_HYPERPOD.name]
    answers = iter([{"replacing": ["workers"]}, {}])
    account.answers[hyperpod.ENSURE_HYPERPOD.name] = lambda a: normal(a).model_copy(update=next(answers))
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await handle.result()
    made = [name for name, _ in account.arguments if name.startswith("hyperpod.")]
    assert made[:3] == ["hyperpod.ensure_cluster", "hyperpod.wait_for_groups_gone", "hyperpod.ensure_cluster"]


async def test_a_wait_adds_at_most_six_events_to_the_history(client: Client, account: FakeAccount) -> None:
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=WORKERS))
    await handle.result()
    events = (await handle.fetch_history()).events
    scheduled = next(
        event.event_id
        for event in events
        if event.HasField("activity_task_scheduled_event_attributes")
        and event.activity_task_scheduled_event_attributes.activity_id.startswith("control_plane/eks.wait")
    )
    own = [
        event
        for event in events
        if event.event_id == scheduled
        or event.activity_task_started_event_attributes.scheduled_event_id == scheduled
        or event.activity_task_completed_event_attributes.scheduled_event_id == scheduled
    ]
    assert len(own) == 3, "scheduled, started, completed: the rest of the six is one workflow task"
