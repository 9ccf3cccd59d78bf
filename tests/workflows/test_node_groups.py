"""Operations on EKS node groups and on node pools: what their stages promise, with an account that answers at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from contracts import node_groups, node_pools, queues
from contracts.activity import Wait
from contracts.catalogue import (
    CREATE_NODE_GROUP,
    CREATE_NODE_POOL,
    DELETE_NODE_GROUP,
    DELETE_NODE_POOL,
    SCALE_NODE_GROUP,
    OperationKind,
)
from contracts.cluster import RecordChange
from contracts.decision import Abort, Resolution, Supersede
from contracts.eks import ControlPlane
from contracts.hyperpod import HyperPodCluster
from contracts.identity import Role
from contracts.names import operation_id
from contracts.network import ENSURE_COMPUTE_SUBNET, Network
from contracts.node_groups import CleanedUp, NodeGroup, NodeGroups
from contracts.node_pools import NodePool, NodePools
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from tests.workflows.conftest import progress, recorded, until
from tests.workflows.fakes import REGION, FakeAccount

SPEC = {"name": "gpu", "instance_types": ["g5.8xlarge"], "scaling": {"desired": 2}}
POOL = NodePool(name="gpus", node_class="gpus", instance_groups=["scaled"], ready=True)


def group(desired: int, **more: Any) -> NodeGroup:
    return NodeGroup(name="gpu", status="ACTIVE", desired=desired, ready=desired, **more)


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    account.record = {
        "control_plane": ControlPlane(
            name="eks",
            arn="arn:eks",
            status="ACTIVE",
            kubernetes_version="1.34",
            cluster_security_group_id="sg-cluster",
        ),
        "hyperpod": HyperPodCluster(name="hp", arn="arn:hp", status="InService"),
        "network": Network(
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
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        node_groups.PLACE_NODE_GROUP.name: lambda a: node_groups.NodePlacement(
            zones=a.spec.availability_zones or ["us-west-2a", "us-west-2b"],
            addresses=60,
            accelerator_resource="nvidia.com/gpu",
        ),
        node_groups.ENSURE_NODE_ROLE.name: lambda _: Role(name="node", arn="arn:node"),
        node_groups.ENSURE_LAUNCH_TEMPLATE.name: lambda _: node_groups.LaunchTemplate(
            launch_template_id="lt-1", name="lt", version=1
        ),
        node_groups.ENSURE_DEVICE_PLUGINS.name: lambda a: node_groups.DevicePlugins(names=a.resources),
        node_groups.ENSURE_NODE_GROUP.name: lambda a: group(a.spec.scaling.desired),
        node_groups.SCALE_NODE_GROUP_TO.name: lambda a: group(a.spec.desired),
        node_groups.WAIT_FOR_NODE_GROUP.name: lambda a: group(a.desired, accelerators=a.desired),
        node_groups.START_NODE_GROUP_DELETION.name: lambda a: node_groups.NodeGroupGone(name=a.name),
        node_groups.WAIT_FOR_NODE_GROUP_GONE.name: lambda a: node_groups.NodeGroupGone(name=a.name),
        node_groups.DELETE_LAUNCH_TEMPLATE.name: lambda _: CleanedUp(name="lt"),
        node_groups.DELETE_NODE_ROLE.name: lambda _: CleanedUp(name="node", kept="cpu has it", changed=False),
        node_groups.LIST_NODE_GROUPS.name: lambda _: NodeGroups(node_groups=[group(2)]),
        node_pools.ENSURE_NODE_CLASS.name: lambda a: node_pools.NodeClass(name=a.name),
        node_pools.ENSURE_NODE_POOL.name: lambda _: POOL,
        node_pools.WAIT_FOR_NODE_POOL.name: lambda _: POOL,
        node_pools.START_NODE_POOL_DELETION.name: lambda a: node_pools.NodePoolGone(name=a.name, node_class="gpus"),
        node_pools.WAIT_FOR_NODE_POOL_GONE.name: lambda a: node_pools.NodePoolGone(name=a.name),
        node_pools.DELETE_NODE_CLASS.name: lambda a: node_pools.NodeClassGone(name=a.name, kept="it is not ours"),
        node_pools.LIST_NODE_POOLS.name: lambda _: NodePools(node_pools=[POOL]),
    }


async def start(client: Client, kind: OperationKind[Any], spec: dict[str, Any]) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=kind.spec.model_validate(spec),
            origin=Origin(by="alice", role="operator", request_id="r-1"),
        ),
        id=operation_id(kind.name, "demo", "x"),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


async def aborted_while(
    client: Client, account: FakeAccount, kind: OperationKind[Any], spec: dict[str, Any], waits: Wait[Any, Any]
) -> RecordChange:
    """What an operation had changed last in the record when somebody ended it while it waited."""
    account.hold[waits.name] = asyncio.Event()
    handle = await start(client, kind, spec)
    await until(handle, lambda _: account.calls[waits.name] > 0)
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED
    return (await recorded(client, handle))[-1]


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


async def test_a_node_group_gets_a_subnet_in_each_zone_and_its_device_plugin(
    client: Client, account: FakeAccount
) -> None:
    done = await outcome(await start(client, CREATE_NODE_GROUP, SPEC))
    assert (done.phase, done.result["ready"], done.result["accelerators"]) == (Phase.SUCCEEDED, 2, 2)
    (wanted,) = asked(account, node_groups.ENSURE_NODE_GROUP)
    assert wanted.subnet_ids == ["subnet-compute-us-west-2a", "subnet-compute-us-west-2b"]
    assert asked(account, node_groups.ENSURE_DEVICE_PLUGINS)[0].resources == ["nvidia.com/gpu"]


async def test_given_subnets_are_used_as_they_are(client: Client, account: FakeAccount) -> None:
    spec = {**SPEC, "subnet_ids": ["subnet-1"], "efa": True}
    assert (await outcome(await start(client, CREATE_NODE_GROUP, spec))).phase is Phase.SUCCEEDED
    assert account.calls[ENSURE_COMPUTE_SUBNET.name] == 0
    assert asked(account, node_groups.ENSURE_NODE_GROUP)[0].subnet_ids == ["subnet-1"]
    assert asked(account, node_groups.ENSURE_LAUNCH_TEMPLATE)[0].security_group_ids == ["sg-cluster", "sg-efa"]


async def test_a_shortage_blocks_and_a_retry_with_another_type_makes_the_group_anew(
    client: Client, account: FakeAccount
) -> None:
    account.fail(node_groups.WAIT_FOR_NODE_GROUP, ProblemCode.CAPACITY)
    handle = await start(client, CREATE_NODE_GROUP, SPEC)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.code is ProblemCode.CAPACITY
    replacing = iter([True])
    account.answers[node_groups.ENSURE_NODE_GROUP.name] = lambda a: group(2, replacing=next(replacing, False))
    corrected = Resolution(
        action="retry", stage="node_group", attempt=1, corrections={"instance_types": ["g5.12xlarge"]}, by="alice"
    )
    await handle.execute_update("resolve", corrected)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    first, second, third = asked(account, node_groups.ENSURE_NODE_GROUP)
    assert second.spec.instance_types == third.spec.instance_types == ["g5.12xlarge"]
    assert len({first.round, second.round, third.round}) == 3
    assert account.calls[node_groups.WAIT_FOR_NODE_GROUP_GONE.name] == 1


@pytest.mark.real_server
async def test_the_last_number_wins(client: Client, account: FakeAccount) -> None:
    account.hold[node_groups.WAIT_FOR_NODE_GROUP.name] = asyncio.Event()
    handle = await start(client, SCALE_NODE_GROUP, {"node_group": "gpu", "desired": 5})
    async with asyncio.timeout(20):
        while not account.calls[node_groups.WAIT_FOR_NODE_GROUP.name]:
            await asyncio.sleep(0.02)
    wish = Supersede(spec={"node_group": "gpu", "desired": 1, "minimum": None, "maximum": None}, by="bob")
    await handle.execute_update("supersede", wish)
    async with asyncio.timeout(20):
        while account.calls[node_groups.WAIT_FOR_NODE_GROUP.name] < 2:
            await asyncio.sleep(0.02)
    account.hold[node_groups.WAIT_FOR_NODE_GROUP.name].set()
    done = await outcome(handle)
    assert (done.phase, done.result["desired"]) == (Phase.SUCCEEDED, 1)
    assert [each.spec.desired for each in asked(account, node_groups.SCALE_NODE_GROUP_TO)] == [5, 1]


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("kind", "spec", "waits", "member", "there"),
    [
        (CREATE_NODE_GROUP, SPEC, node_groups.WAIT_FOR_NODE_GROUP, "node_groups", {"name": "gpu", "desired": 2}),
        (
            SCALE_NODE_GROUP,
            {"node_group": "gpu", "desired": 5},
            node_groups.WAIT_FOR_NODE_GROUP,
            "node_groups",
            {"name": "gpu", "desired": 5},
        ),
        (
            CREATE_NODE_POOL,
            {"name": "gpus", "instance_groups": ["scaled"]},
            node_pools.WAIT_FOR_NODE_POOL,
            "node_pools",
            {"name": "gpus"},
        ),
    ],
)
async def test_what_an_abort_leaves_in_place_is_in_the_record(
    client: Client,
    account: FakeAccount,
    kind: OperationKind[Any],
    spec: dict[str, Any],
    waits: Wait[Any, Any],
    member: str,
    there: dict[str, Any],
) -> None:
    (put,) = (await aborted_while(client, account, kind, spec, waits)).put[member]
    assert put.items() >= there.items()


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("kind", "spec", "waits", "member", "name"),
    [
        (DELETE_NODE_GROUP, {"node_group": "gpu"}, node_groups.WAIT_FOR_NODE_GROUP_GONE, "node_groups", "gpu"),
        (DELETE_NODE_POOL, {"node_pool": "gpus"}, node_pools.WAIT_FOR_NODE_POOL_GONE, "node_pools", "gpus"),
    ],
)
async def test_what_goes_is_in_no_record_although_its_deletion_was_aborted(
    client: Client,
    account: FakeAccount,
    kind: OperationKind[Any],
    spec: dict[str, Any],
    waits: Wait[Any, Any],
    member: str,
    name: str,
) -> None:
    account.record |= {"node_groups": [group(2)], "node_pools": [POOL]}
    assert (await aborted_while(client, account, kind, spec, waits)).gone[member] == [{"name": name}]


async def test_what_is_kept_of_a_deleted_group_is_said(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, DELETE_NODE_GROUP, {"node_group": "gpu"}))
    assert (done.phase, done.result) == (
        Phase.SUCCEEDED,
        {"node_group": "gpu", "kept": ["node is kept: cpu has it"]},
    )


async def test_a_pool_is_there_when_its_controller_says_so(client: Client, account: FakeAccount) -> None:
    account.fail(node_pools.WAIT_FOR_NODE_POOL, ProblemCode.NOT_READY)
    handle = await start(client, CREATE_NODE_POOL, {"name": "gpus", "instance_groups": ["scaled"]})
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    await handle.execute_update("resolve", Resolution(action="retry", stage="node_pool", attempt=1, by="alice"))
    done = await outcome(handle)
    assert (done.phase, done.result["ready"]) == (Phase.SUCCEEDED, True)


async def test_a_pool_that_may_not_be_made_blocks_before_anything_is_changed(
    client: Client, account: FakeAccount
) -> None:
    blocker = FieldError(field="/instance_groups/0", detail="busy has 1 instance now")
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[blocker]))
    handle = await start(client, CREATE_NODE_POOL, {"name": "gpus", "instance_groups": ["busy"]})
    found = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert found.stages[0].state is StageState.BLOCKED
    assert account.calls[node_pools.ENSURE_NODE_CLASS.name] == 0
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft())
    await handle.execute_update(
        "resolve",
        Resolution(action="retry", stage="checks", attempt=1, corrections={"accept_scale_down": True}, by="alice"),
    )
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert (await progress(handle)).phase is Phase.SUCCEEDED


async def test_a_pools_class_goes_after_its_nodes(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, DELETE_NODE_POOL, {"node_pool": "gpus"}))
    assert (done.phase, done.result) == (
        Phase.SUCCEEDED,
        {"node_pool": "gpus", "kept": ["gpus is kept: it is not ours"]},
    )
    order = [name for name, _ in account.arguments if name.startswith("node_pools.")]
    assert order == [
        node_pools.START_NODE_POOL_DELETION.name,
        node_pools.WAIT_FOR_NODE_POOL_GONE.name,
        node_pools.DELETE_NODE_CLASS.name,
        node_pools.LIST_NODE_POOLS.name,
    ]
