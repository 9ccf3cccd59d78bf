"""Operations on nodes and their software: what their stages promise, with an account that answers at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from contracts import drain, queues, software
from contracts.catalogue import DELETE_NODES as DELETE
from contracts.catalogue import REBOOT_NODES as REBOOT
from contracts.catalogue import REPLACE_NODES as REPLACE
from contracts.catalogue import UPDATE_SOFTWARE as UPDATE
from contracts.catalogue import OperationKind
from contracts.decision import Abort, Answer, Resolution
from contracts.eks import ControlPlane
from contracts.hyperpod import HyperPodCluster, InstanceGroup
from contracts.names import operation_id
from contracts.nodes import (
    DELETE_BATCH,
    DELETE_NODES,
    OBSERVE_NODES,
    REBOOT_NODES,
    REPAIR_BATCH,
    REPLACE_NODES,
    WAIT_FOR_NODES_BACK,
    WAIT_FOR_NODES_GONE,
    NodeFailure,
    NodeIdentity,
    NodeOutcome,
    NodesAccepted,
    NodesBack,
    ObservedNodes,
)
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import FieldError, ProblemCode
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount
from workflows.nodes import DeleteNodes, RebootNodes, ReplaceNodes
from workflows.software import UpdateSoftwareOfGroups

OPERATIONS = (RebootNodes, ReplaceNodes, DeleteNodes, UpdateSoftwareOfGroups)
NODES = ["i-00000001", "i-00000002"]
HYPERPOD = HyperPodCluster(
    name="hp",
    arn="arn:hp",
    status="InService",
    groups=[InstanceGroup(name="workers", instance_type="ml.g5.8xlarge", current=2, target=2, status="InService")],
)


def identity(name: str) -> NodeIdentity:
    return NodeIdentity(
        asked=name, instance_group="workers", instance_id=name, kubernetes_name=f"hyperpod-{name}", boot_id="1"
    )


def back(request: Any) -> NodesBack:
    outcomes = [
        NodeOutcome(before=each.name, now=f"new-{each.name}", instance_group="workers") for each in request.nodes
    ]
    return NodesBack(cluster=HYPERPOD, nodes=[], outcomes=outcomes)


@pytest.fixture(autouse=True)
def _answers(account: FakeAccount) -> None:
    control_plane = ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34")
    account.record = {"control_plane": control_plane, "hyperpod": HYPERPOD}
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft()),
        OBSERVE_NODES.name: lambda a: ObservedNodes(nodes=[identity(name) for name in a.nodes], others=["i-9"]),
        WAIT_FOR_NODES_BACK.name: back,
        WAIT_FOR_NODES_GONE.name: back,
        drain.CORDON_NODES.name: lambda a: drain.Cordoned(nodes=a.nodes),
        drain.UNCORDON_NODES.name: lambda a: drain.Cordoned(nodes=a.nodes),
        drain.DRAIN_NODES.name: lambda a: drain.Drained(nodes=a.nodes, evicted=3),
    }
    for signature in (REBOOT_NODES, REPLACE_NODES, DELETE_NODES):
        account.answers[signature.name] = lambda a: NodesAccepted(
            summary="nodes", accepted=[each.asked for each in a.nodes]
        )


async def start(client: Client, kind: OperationKind[Any], **spec: Any) -> WorkflowHandle[Any, Any]:
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


def sizes(account: FakeAccount, signature: Any) -> list[int]:
    return [len(argument.nodes) for name, argument in account.arguments if name == signature.name]


async def test_nodes_are_replaced_and_their_successors_named(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, REPLACE, nodes=NODES))
    assert done.phase is Phase.SUCCEEDED
    assert [(each["before"], each["now"]) for each in done.result["nodes"]] == [
        (f"hyperpod-{name}", f"new-hyperpod-{name}") for name in NODES
    ]
    assert account.calls[drain.CORDON_NODES.name] == 0, "nobody asked for a drain"


@pytest.mark.parametrize(
    ("kind", "signature", "limit"),
    [
        (REBOOT, REBOOT_NODES, REPAIR_BATCH),
        (REPLACE, REPLACE_NODES, REPAIR_BATCH),
        (DELETE, DELETE_NODES, DELETE_BATCH),
    ],
)
async def test_many_nodes_go_in_batches_of_what_the_api_takes(
    client: Client, account: FakeAccount, kind: OperationKind[Any], signature: Any, limit: int
) -> None:
    many = [f"i-{number:08x}" for number in range(limit + 3)]
    done = await outcome(await start(client, kind, nodes=many))
    assert len(done.result["nodes"]) == limit + 3
    assert sizes(account, signature) == [limit, 3]


async def test_a_blocker_is_found_before_anything_is_done(client: Client, account: FakeAccount) -> None:
    blocker = FieldError(field="/nodes/0", detail="no such node", code=ProblemCode.NOT_FOUND)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(blockers=[blocker]))
    handle = await start(client, REBOOT, nodes=NODES)
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.field == "/nodes/0"
    assert account.calls[REBOOT_NODES.name] == 0
    await handle.execute_update("abort", Abort(by="alice"))


async def test_refused_nodes_are_told_and_only_they_are_asked_for_again(client: Client, account: FakeAccount) -> None:
    first, second = NODES
    failure = NodeFailure(node=second, code="InvalidInstanceStatus", message="it is Pending")
    answers = [
        NodesAccepted(summary="one", accepted=[first], failed=[failure]),
        NodesAccepted(summary="two", accepted=[second]),
    ]
    account.answers[REBOOT_NODES.name] = lambda _: answers.pop(0)
    handle = await start(client, REBOOT, nodes=NODES)
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert [error.field for error in blocked.problem.errors] == ["/nodes/1"]
    assert "InvalidInstanceStatus: it is Pending" in blocked.problem.detail
    resolution = Resolution(action="retry", stage="request", attempt=1, by="bob")
    await handle.execute_update("resolve", resolution)
    done = await outcome(handle)
    assert len(done.result["nodes"]) == 2
    assert sizes(account, REBOOT_NODES) == [2, 1]
    observed = [argument.nodes for name, argument in account.arguments if name == OBSERVE_NODES.name]
    assert observed == [NODES, [second]], "what was accepted is not looked at anew: it has changed since"


async def test_after_a_skip_it_goes_on_with_the_nodes_that_were_accepted(client: Client, account: FakeAccount) -> None:
    first, second = NODES
    failure = NodeFailure(node=second, code="InstanceIdNotFound")
    account.answers[REPLACE_NODES.name] = lambda _: NodesAccepted(summary="x", accepted=[first], failed=[failure])
    handle = await start(client, REPLACE, nodes=NODES)
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    await handle.execute_update("resolve", Resolution(action="skip", stage="request", attempt=1, by="bob"))
    done = await outcome(handle)
    assert [each["before"] for each in done.result["nodes"]] == [f"hyperpod-{first}"]
    assert [each["node"] for each in done.result["refused"]] == [second]


async def test_drained_nodes_get_pods_again_after_their_reboot(client: Client, account: FakeAccount) -> None:
    done = await outcome(await start(client, REBOOT, nodes=NODES, drain=True, drain_timeout_minutes=7))
    assert done.phase is Phase.SUCCEEDED
    signatures: list[Any] = [drain.CORDON_NODES, drain.DRAIN_NODES, REBOOT_NODES, WAIT_FOR_NODES_BACK]
    order = [each.name for each in [*signatures, drain.UNCORDON_NODES]]
    assert [name for name, _ in account.arguments if name in order] == order
    asked = next(argument for name, argument in account.arguments if name == drain.DRAIN_NODES.name)
    assert (asked.nodes, asked.timeout_minutes) == ([f"hyperpod-{name}" for name in NODES], 7)


@pytest.mark.parametrize(
    ("choice", "phase", "drains", "rebooted"),
    [
        ("wait", Phase.SUCCEEDED, 2, 1),
        ("go-on", Phase.SUCCEEDED, 1, 1),
        ("stop", Phase.ABORTED, 1, 0),
    ],
)
async def test_pods_that_do_not_leave_are_a_choice(
    client: Client, account: FakeAccount, choice: str, phase: Phase, drains: int, rebooted: int
) -> None:
    account.fail(drain.DRAIN_NODES, ProblemCode.NOT_READY)
    handle = await start(client, REBOOT, nodes=NODES, drain=True)
    waiting = await until(handle, lambda p: p.phase is Phase.WAITING_FOR_DECISION)
    assert waiting.decision is not None
    assert waiting.decision.options == {"choice": ["wait", "go-on", "stop"]}
    await handle.execute_update("decide", Answer(decision="drain", answer={"choice": choice}, by="bob"))
    assert (await outcome(handle)).phase is phase
    assert account.calls[drain.DRAIN_NODES.name] == drains
    assert account.calls[REBOOT_NODES.name] == rebooted
    assert account.calls[drain.UNCORDON_NODES.name] == 1, "in every case pods may come again at the end"


async def test_an_aborted_deletion_gives_back_only_nodes_that_stay(client: Client, account: FakeAccount) -> None:
    first, second = NODES
    failure = NodeFailure(node=second, code="InvalidNodeStatus")
    account.answers[DELETE_NODES.name] = lambda _: NodesAccepted(summary="x", accepted=[first], failed=[failure])
    handle = await start(client, DELETE, nodes=NODES, drain=True)
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED
    given = [argument.nodes for name, argument in account.arguments if name == drain.UNCORDON_NODES.name]
    assert given == [[f"hyperpod-{second}"]]


@pytest.mark.real_server
async def test_an_operation_that_is_cancelled_lets_pods_come_again(client: Client, account: FakeAccount) -> None:
    account.hold[drain.DRAIN_NODES.name] = asyncio.Event()
    handle = await start(client, REPLACE, nodes=NODES, drain=True)
    await until(handle, lambda _: account.calls[drain.DRAIN_NODES.name] == 1)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert account.calls[drain.UNCORDON_NODES.name] == 1
    assert account.calls[REPLACE_NODES.name] == 0


def group(**more: Any) -> software.GroupSoftware:
    given = {"group": "workers", "instance_type": "ml.g5.8xlarge", "nodes": 2, "current_version": "1.0.4"}
    return software.GroupSoftware.model_validate(given | more)


def software_answers(account: FakeAccount) -> None:
    account.answers |= {
        software.READ_SOFTWARE.name: lambda _: software.SoftwareRead.model_validate(
            {"cluster_status": "InService", "groups": [group()], "read_at": "2026-01-01T00:00:00Z"}
        ),
        software.UPDATE_SOFTWARE.name: lambda _: software.SoftwareUpdate(groups=["workers"], unchanged=["cpu"]),
        software.WAIT_FOR_SOFTWARE.name: lambda _: software.SoftwareUpdated(
            cluster=HYPERPOD, nodes=[], groups=[group(current_version="1.0.5", update_status="Succeeded")]
        ),
    }


async def test_an_update_ends_with_what_every_group_is_on(client: Client, account: FakeAccount) -> None:
    software_answers(account)
    done = await outcome(await start(client, UPDATE))
    assert [each["current_version"] for each in done.result["updated"]] == ["1.0.5"]
    assert done.result["unchanged"] == ["cpu"]


async def test_an_update_with_nothing_to_do_is_unchanged(client: Client, account: FakeAccount) -> None:
    software_answers(account)
    account.answers[software.UPDATE_SOFTWARE.name] = lambda _: software.SoftwareUpdate(
        changed=False, groups=[], unchanged=["workers"]
    )
    handle = await start(client, UPDATE, groups=["workers"])
    done = await outcome(handle)
    assert done.result == {"updated": [], "unchanged": ["workers"]}
    assert {each.name: each.state for each in (await progress(handle)).stages}["software"] is StageState.UNCHANGED
    assert account.calls[software.WAIT_FOR_SOFTWARE.name] == 0


@pytest.mark.parametrize(("code", "looks"), [(ProblemCode.NOT_READY, 2), (ProblemCode.TIMEOUT, 1)])
async def test_only_an_update_that_is_at_its_end_is_looked_at_anew_by_a_retry(
    client: Client, account: FakeAccount, code: ProblemCode, looks: int
) -> None:
    software_answers(account)
    account.fail(software.WAIT_FOR_SOFTWARE, code)
    handle = await start(client, UPDATE)
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    await handle.execute_update("resolve", Resolution(action="retry", stage="software", attempt=1, by="bob"))
    async with asyncio.timeout(60):
        assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert account.calls[software.READ_SOFTWARE.name] == looks
