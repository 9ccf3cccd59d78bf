"""Operations on instance groups: what their stages promise, with an account that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from contracts import drain, hyperpod, instance_groups, network, queues
from contracts.catalogue import (
    ADD_INSTANCE_GROUP,
    CREATE_HYPERPOD,
    DELETE_INSTANCE_GROUP,
    SCALE_INSTANCE_GROUP,
    UPDATE_INSTANCE_GROUP,
    OperationKind,
)
from contracts.cluster import RecordChange
from contracts.decision import Answer, Supersede
from contracts.eks import ControlPlane
from contracts.hyperpod import HyperPodCluster, InstanceGroup
from contracts.identity import Identity
from contracts.instance_groups import Road, ScalingPlan
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import ProblemCode
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

SPEC = {"name": "new", "instance_type": "ml.g5.8xlarge", "count": 2}


def cluster(**targets: int) -> HyperPodCluster:
    groups = [
        InstanceGroup(name=name, instance_type="ml.g5.8xlarge", current=count, target=count, status="InService")
        for name, count in targets.items()
    ]
    return HyperPodCluster(name="hp", arn="arn:hp", status="InService", provisioning="Continuous", groups=groups)


def node(group: str, number: int) -> hyperpod.Node:
    return hyperpod.Node(
        name=f"hyperpod-i-{number}",
        instance_id=f"i-{number}",
        instance_group=group,
        instance_type="ml.g5.8xlarge",
        zone="us-west-2a",
        capacity_type="on-demand",
        ready=True,
        accelerators=1,
    )


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34"),
        "hyperpod": cluster(workers=1),
        "network": network.Network(
            vpc_id="vpc-1",
            vpc_cidrs=["10.90.0.0/16"],
            owned=True,
            service_cidr="10.100.0.0/16",
            zones=["us-west-2a", "us-west-2b"],
            public_subnet_ids=[],
            control_plane_subnet_ids=[],
            security_group_id="sg-efa",
        ),
    }

    def ready(wanted: hyperpod.WaitForHyperPod) -> hyperpod.NodesReady:
        (group,) = wanted.groups
        count = wanted.targets[group]
        return hyperpod.NodesReady(cluster=cluster(**wanted.targets), nodes=[node(group, n) for n in range(count)])

    answers: dict[str, Callable[[Any], BaseModel]] = {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        instance_groups.ADD_GROUP.name: lambda a: instance_groups.GroupEnsured(
            group=a.group.spec.name, cluster=cluster(workers=1, new=a.group.spec.count)
        ),
        instance_groups.READ_GROUPS.name: lambda _: cluster(workers=1, new=0),
        instance_groups.PLAN_SCALING.name: lambda a: ScalingPlan(road=Road.ADD, target=1, current=1),
        instance_groups.ADD_NODES.name: lambda a: instance_groups.Scaled(group=a.group, target=a.base + a.count),
        instance_groups.REMOVE_NODES.name: lambda a: instance_groups.Scaled(group=a.group, target=1),
        instance_groups.UPDATE_GROUP.name: lambda a: instance_groups.GroupUpdated(
            group=a.group, changed_members=["KubernetesConfig"]
        ),
        instance_groups.WAIT_FOR_UPDATE.name: lambda a: instance_groups.GroupSettled(
            cluster=cluster(workers=1), group=cluster(workers=1).groups[0], nodes=1
        ),
        instance_groups.DELETE_GROUP.name: lambda a: instance_groups.GroupDeleted(group=a.group),
        hyperpod.WAIT_FOR_HYPERPOD.name: ready,
        hyperpod.LIST_NODES.name: lambda a: hyperpod.Nodes(
            cluster=cluster(workers=1),
            nodes=[node("workers", 1), node("new", 2)],
            names=[each.name for each in (node("workers", 1), node("new", 2)) if each.instance_group == a.names_of],
        ),
        drain.CORDON_NODES.name: lambda a: drain.Cordoned(nodes=a.nodes),
        drain.DRAIN_NODES.name: lambda a: drain.Drained(nodes=a.nodes, evicted=3),
    }
    account.answers |= answers


async def start(
    client: Client, kind: OperationKind[Any], spec: dict[str, Any], needs_approval: bool = False
) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=kind.spec.model_validate(spec),
            needs_approval=needs_approval,
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(kind.name, "demo", "x"),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


async def answer(handle: WorkflowHandle[Any, Any], stage: str, **remedy: Any) -> None:
    await handle.execute_update("decide", Answer(decision=stage, answer={"remedy": remedy}, by="bob"))


async def refused(handle: WorkflowHandle[Any, Any], stage: str, **remedy: Any) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await answer(handle, stage, **remedy)
    assert isinstance(caught.value.cause, ApplicationError)
    return str(caught.value.cause.details[0]["field"])


async def asks(handle: WorkflowHandle[Any, Any]) -> Any:
    found = await until(handle, lambda p: p.phase is Phase.WAITING_FOR_DECISION)
    return found.decision


async def test_a_group_is_added_in_one_step_with_its_subnet_and_awaited_at_its_count(
    client: Client, account: FakeAccount
) -> None:
    done = await outcome(await start(client, ADD_INSTANCE_GROUP, SPEC))
    assert (done.phase, len(done.result["nodes"])) == (Phase.SUCCEEDED, 2)
    (subnet,) = asked(account, network.ENSURE_COMPUTE_SUBNET)
    assert (subnet.zone, subnet.addresses, subnet.hyperpod_cluster) == ("us-west-2a", 60, "hp")
    (wanted,) = asked(account, instance_groups.ADD_GROUP)
    assert (wanted.group.threads_per_core, wanted.security_group_id, wanted.execution_role_arn) == (1, "sg-efa", None)
    assert asked(account, hyperpod.WAIT_FOR_HYPERPOD)[0].targets == {"new": 2}


async def test_a_shortage_is_a_question_and_a_group_without_nodes_is_made_anew_elsewhere(
    client: Client, account: FakeAccount
) -> None:
    account.fail(hyperpod.WAIT_FOR_HYPERPOD, ProblemCode.CAPACITY)
    handle = await start(client, ADD_INSTANCE_GROUP, SPEC)
    decision = await asks(handle)
    assert "capacity" in decision.question
    remedies = decision.options["remedy"]
    assert {"kind": "zone", "availability_zone": "us-west-2b"} in remedies
    assert {"kind": "capacity", "capacity": {"kind": "spot"}} in remedies
    assert not [each for each in remedies if each["kind"] == "type"], "no other type has a quota"
    assert "keep" not in [each["kind"] for each in remedies]
    stage = "instance_group"
    assert (
        await refused(handle, stage, kind="zone", availability_zone="us-west-2c") == "/answer/remedy/availability_zone"
    )
    assert await refused(handle, stage, kind="keep") == "/answer/remedy/kind"
    assert await refused(handle, stage, kind="fewer", count=2) == "/answer/remedy/count"
    assert (await refused(handle, stage, kind="nothing")).startswith("/answer/remedy")
    replacing = iter([["new"]])

    def add(a: instance_groups.AddGroup) -> instance_groups.GroupEnsured:
        found = cluster(workers=1, new=2).model_copy(update={"replacing": next(replacing, [])})
        return instance_groups.GroupEnsured(group="new", cluster=found)

    account.answers[instance_groups.ADD_GROUP.name] = add
    await answer(handle, stage, kind="zone", availability_zone="us-west-2b")
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert [each.group.subnet.zone for each in asked(account, instance_groups.ADD_GROUP)] == [
        "us-west-2a",
        "us-west-2b",
        "us-west-2b",
    ]
    assert account.calls[hyperpod.WAIT_FOR_GROUPS_GONE.name] == 1
    assert (await handle.query("spec"))["availability_zone"] == "us-west-2b"


async def test_what_came_can_be_kept_and_is_not_lost_to_another_zone(client: Client, account: FakeAccount) -> None:
    account.fail(hyperpod.WAIT_FOR_HYPERPOD, ProblemCode.CAPACITY)
    account.answers[instance_groups.READ_GROUPS.name] = lambda _: cluster(workers=1, new=1)
    handle = await start(client, ADD_INSTANCE_GROUP, SPEC)
    decision = await asks(handle)
    assert [each["kind"] for each in decision.options["remedy"]] == ["wait", "keep", "abort"]
    field = await refused(handle, "instance_group", kind="zone", availability_zone="us-west-2b")
    assert field == "/answer/remedy/kind"
    await answer(handle, "instance_group", kind="keep")
    assert len((await outcome(handle)).result["nodes"]) == 1
    assert [each.group.spec.count for each in asked(account, instance_groups.ADD_GROUP)] == [2, 1]


async def test_another_failure_than_a_shortage_blocks(client: Client, account: FakeAccount) -> None:
    account.fail(network.ENSURE_COMPUTE_SUBNET, ProblemCode.CAPACITY)
    handle = await start(client, ADD_INSTANCE_GROUP, SPEC)
    found = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert found.decision is None


@pytest.mark.real_server
async def test_the_last_of_two_counts_wins(client: Client, account: FakeAccount) -> None:
    account.hold[hyperpod.WAIT_FOR_HYPERPOD.name] = asyncio.Event()
    handle = await start(client, SCALE_INSTANCE_GROUP, {"group": "workers", "count": 5})
    async with asyncio.timeout(20):
        while not account.calls[hyperpod.WAIT_FOR_HYPERPOD.name]:
            await asyncio.sleep(0.02)
    down = ScalingPlan(road=Road.REMOVE, target=5, current=2, nodes=["i-4", "i-5"])
    account.answers[instance_groups.PLAN_SCALING.name] = lambda _: down
    await handle.execute_update("supersede", Supersede(spec={"group": "workers", "count": 3}, by="bob"))
    async with asyncio.timeout(20):
        while account.calls[hyperpod.WAIT_FOR_HYPERPOD.name] < 2:
            await asyncio.sleep(0.02)
    account.hold[hyperpod.WAIT_FOR_HYPERPOD.name].set()
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert [each.count for each in asked(account, instance_groups.PLAN_SCALING)] == [5, 3]
    (added,) = asked(account, instance_groups.ADD_NODES)
    assert (added.base, added.count) == (1, 4)
    assert asked(account, instance_groups.REMOVE_NODES)[0].nodes == ["i-4", "i-5"]


async def test_each_step_up_of_a_run_has_a_name_of_its_own(client: Client, account: FakeAccount) -> None:
    account.fail(hyperpod.WAIT_FOR_HYPERPOD, ProblemCode.QUOTA)
    handle = await start(client, SCALE_INSTANCE_GROUP, {"group": "workers", "count": 5})
    assert [each["kind"] for each in (await asks(handle)).options["remedy"]] == ["wait", "keep", "fewer", "abort"]
    await answer(handle, "scaling", kind="fewer", count=3)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    first, second = asked(account, instance_groups.ADD_NODES)
    assert (first.count, second.count) == (4, 2)
    assert first.step != second.step


async def test_a_count_that_is_asked_while_the_operation_asks_begins_anew(client: Client, account: FakeAccount) -> None:
    account.fail(hyperpod.WAIT_FOR_HYPERPOD, ProblemCode.CAPACITY)
    handle = await start(client, SCALE_INSTANCE_GROUP, {"group": "workers", "count": 5})
    await asks(handle)
    await handle.execute_update("supersede", Supersede(spec={"group": "workers", "count": 2}, by="bob"))
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert asked(account, hyperpod.WAIT_FOR_HYPERPOD)[-1].targets == {"workers": 2}


async def test_a_person_who_asks_anew_needs_no_approval_of_what_an_agent_asked(
    client: Client, account: FakeAccount
) -> None:
    handle = await start(client, SCALE_INSTANCE_GROUP, {"group": "workers", "count": 5}, needs_approval=True)
    await until(handle, lambda p: p.phase is Phase.WAITING_FOR_APPROVAL)
    await handle.execute_update("supersede", Supersede(spec={"group": "workers", "count": 2}, by="bob"))
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert [each.count for each in asked(account, instance_groups.PLAN_SCALING)] == [2]


async def test_an_end_leaves_the_group_as_it_is(client: Client, account: FakeAccount) -> None:
    account.fail(hyperpod.WAIT_FOR_HYPERPOD, ProblemCode.CAPACITY)
    handle = await start(client, SCALE_INSTANCE_GROUP, {"group": "workers", "count": 5})
    await asks(handle)
    by_name = Answer(decision="scaling", answer={"remedy": "abort"}, by="bob")
    await handle.execute_update("decide", by_name)
    assert (await outcome(handle)).phase is Phase.ABORTED
    assert account.calls[instance_groups.REMOVE_NODES.name] == 0


async def test_an_imported_cluster_without_nodes_gets_their_role_and_scripts(
    client: Client, account: FakeAccount
) -> None:
    account.record |= {
        "hyperpod": None,
        "identity": Identity(account="123456789012", platform_principal_arn="arn:me", cluster_role_arn="arn:c"),
    }
    account.answers[hyperpod.WAIT_FOR_HYPERPOD.name] = lambda _: hyperpod.NodesReady(
        cluster=cluster(new=2), nodes=[node("new", 1)]
    )
    handle = await start(client, CREATE_HYPERPOD, {"instance_groups": [SPEC]})
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    (made,) = asked(account, hyperpod.ENSURE_HYPERPOD)
    assert (made.execution_role_arn, made.lifecycle_scripts_uri) == ("arn:e", "s3://sagemaker-demo/x")


async def test_an_update_is_done_when_the_nodes_have_it(client: Client, account: FakeAccount) -> None:
    spec = {"group": "workers", "labels": {"example.com/team": "a"}}
    done = await outcome(await start(client, UPDATE_INSTANCE_GROUP, spec))
    assert (done.phase, done.result["changed"]) == (Phase.SUCCEEDED, ["KubernetesConfig"])
    assert asked(account, instance_groups.WAIT_FOR_UPDATE)[0].changes.labels == {"example.com/team": "a"}


async def test_a_group_is_deleted_after_its_pods_have_left(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, DELETE_INSTANCE_GROUP, {"group": "new"}))
    assert done.result == {"deleted": "new", "groups": ["workers"]}
    order = [name for name, _ in account.arguments if name.startswith(("drain.", "instance_groups.", "hyperpod.wait"))]
    assert order == [
        drain.CORDON_NODES.name,
        drain.DRAIN_NODES.name,
        instance_groups.DELETE_GROUP.name,
        hyperpod.WAIT_FOR_GROUPS_GONE.name,
    ]
    assert asked(account, drain.DRAIN_NODES)[0].nodes == ["hyperpod-i-2"]


async def test_pods_go_with_their_nodes_where_no_drain_was_asked_for(client: Client, account: FakeAccount) -> None:
    handle = await start(client, DELETE_INSTANCE_GROUP, {"group": "new", "drain": False})
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert account.calls[drain.CORDON_NODES.name] == 0
    assert {stage.name: stage.state for stage in (await progress(handle)).stages}["drain"] is StageState.UNCHANGED


async def recorded(client: Client, handle: WorkflowHandle[Any, Any]) -> HyperPodCluster:
    """What the operation put into the cluster's record last."""
    told: list[RecordChange] = []
    async for event in handle.fetch_history_events():
        signal = event.signal_external_workflow_execution_initiated_event_attributes
        if signal.signal_name == "amend":
            (change,) = await client.data_converter.decode(signal.input.payloads, [RecordChange])
            told.append(change)
    return HyperPodCluster.model_validate(next(each.changes["hyperpod"] for each in reversed(told)))


@pytest.mark.parametrize(
    ("kind", "spec", "own"),
    [
        (ADD_INSTANCE_GROUP, SPEC, {"new": 2}),
        (SCALE_INSTANCE_GROUP, {"group": "new", "count": 3}, {"new": 3}),
        (UPDATE_INSTANCE_GROUP, {"group": "new", "labels": {"team": "a"}}, {"new": 7}),
        (DELETE_INSTANCE_GROUP, {"group": "new"}, {}),
    ],
    ids=lambda value: value.name if isinstance(value, OperationKind) else None,
)
async def test_a_group_that_others_changed_meanwhile_stays_as_recorded(
    client: Client, account: FakeAccount, kind: OperationKind[Any], spec: dict[str, Any], own: dict[str, int]
) -> None:
    """Somebody has scaled ``workers`` from 1 to 9 beside this platform, and made ``theirs``."""

    def seen(wanted: Any) -> HyperPodCluster:
        mine = own.get("new")
        return cluster(workers=9, theirs=4, **({} if mine is None else {"new": mine}))

    account.record["hyperpod"] = cluster(workers=1, **({} if kind is ADD_INSTANCE_GROUP else {"new": 1}))
    account.answers |= {
        instance_groups.ADD_GROUP.name: lambda a: instance_groups.GroupEnsured(group="new", cluster=seen(a)),
        instance_groups.WAIT_FOR_UPDATE.name: lambda a: instance_groups.GroupSettled(
            cluster=seen(a), group=cluster(new=7).groups[0], nodes=7
        ),
        hyperpod.WAIT_FOR_HYPERPOD.name: lambda a: hyperpod.NodesReady(cluster=seen(a), nodes=[]),
        hyperpod.WAIT_FOR_GROUPS_GONE.name: lambda a: hyperpod.GroupsGone(groups=a.groups),
        hyperpod.LIST_NODES.name: lambda a: hyperpod.Nodes(cluster=seen(a), nodes=[node("new", 1)], names=[]),
    }
    handle = await start(client, kind, spec)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    found = {each.name: (each.target, each.current) for each in (await recorded(client, handle)).groups}
    assert found == {"workers": (1, 9), **{name: (count, count) for name, count in own.items()}}
