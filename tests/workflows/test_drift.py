"""Checks for drift, its adoption and its restoration, with a cluster that shows what it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle

from contracts import queues
from contracts.catalogue import ADOPT_DRIFT, RESTORE_DRIFT, OperationKind
from contracts.cluster import ClusterRecord, ClusterView, EntityState, HistoryEntry
from contracts.decision import Resolution
from contracts.drift import (
    CHECK_DRIFT_WORKFLOW,
    REMOVE_DRIFT_SCHEDULE,
    RESTORE_WAYS_OUT,
    SET_NODE_RECOVERY,
    AdoptDriftSpec,
    CheckDrift,
    DriftAnswer,
    DriftKind,
    DriftReport,
    DriftState,
    Member,
    NodeRecoverySet,
    RestoreDriftSpec,
    Sight,
    WaysOutRestored,
    identifier,
)
from contracts.drift_look import LOOK_AT_CLUSTERS, LOOK_AT_IDENTITY, LOOK_AT_NETWORK, LOOKS, READ_MANAGED, Managed
from contracts.drift_recorded import recorded
from contracts.hyperpod import HyperPodCluster, InstanceGroup
from contracts.lease import Lease
from contracts.names import cluster_id, drift_check_id, operation_id
from contracts.network import ENSURE_NAT_GATEWAY, NatGateway, Network
from contracts.operation import Origin, Outcome, Phase, Start
from contracts.plans import MAKE_PLAN
from contracts.problem import ProblemCode
from tests.workflows.conftest import until
from tests.workflows.fakes import REGION, FakeAccount

TAG = "demo"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
KNOWN = {"hyperpod/hp": {"node_recovery": "Automatic"}}
ID = identifier(DriftKind.HYPERPOD, "hp", "node_recovery", "Automatic", "None")


def cluster_record() -> ClusterRecord:
    group = InstanceGroup(name="workers", instance_type="ml.g5.8xlarge", current=2, target=2, status="InService")
    return ClusterRecord(
        tag=TAG,
        region=REGION,
        created_by="alice",
        created_at=NOW,
        updated_at=NOW,
        hyperpod=HyperPodCluster(name="hp", arn="arn:hp", status="InService", groups=[group]),
        drift=DriftState(report=DriftReport(checked_at=NOW), known=KNOWN),
    )


def _nothing(kinds: list[DriftKind], _: Any) -> Sight:
    return Sight(kinds=kinds)


class Shown:
    """What the cluster shows: its node recovery, its count, and what goes on with it."""

    def __init__(self, account: FakeAccount) -> None:
        self.recovery, self.target = "Automatic", 2
        self.view = ClusterView(record=cluster_record())
        account.record = {"hyperpod": self.view.record.hyperpod, "drift": self.view.record.drift}
        for signature, kinds in LOOKS.values():
            account.answers[signature.name] = partial(_nothing, list(kinds))
        account.answers |= {
            READ_MANAGED.name: lambda _: Managed(view=self.view),
            LOOK_AT_CLUSTERS.name: lambda _: self.clusters(),
            SET_NODE_RECOVERY.name: self.set_recovery,
        }

    def clusters(self) -> Sight:
        hyperpod = {"state": "healthy", "node_recovery": self.recovery}
        group = {"instance_types": ["ml.g5.8xlarge"], "target": self.target}
        return Sight(
            kinds=list(LOOKS["clusters"][1]),
            members=[
                Member(kind=DriftKind.HYPERPOD, name="hp", properties=dict(hyperpod)),
                Member(kind=DriftKind.INSTANCE_GROUP, name="workers", properties=dict(group)),
            ],
        )

    def set_recovery(self, asked: Any) -> NodeRecoverySet:
        self.recovery = asked.node_recovery
        return NodeRecoverySet(hyperpod_cluster=asked.hyperpod_cluster)


@pytest.fixture
def shown(account: FakeAccount) -> Shown:
    return Shown(account)


async def start(client: Client, kind: OperationKind[Any], spec: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster=TAG, region=REGION, spec=spec, origin=Origin(by="alice", role="operator", request_id="r-1")
        ),
        id=operation_id(kind.name, TAG),
        task_queue=queues.WORKFLOWS,
    )


async def check(client: Client) -> DriftReport | None:
    answer: DriftAnswer = await client.execute_workflow(
        CHECK_DRIFT_WORKFLOW,
        CheckDrift(cluster=TAG, region=REGION),
        id=drift_check_id(TAG),
        task_queue=queues.WORKFLOWS,
        result_type=DriftAnswer,
    )
    return answer.report


async def checked(client: Client) -> DriftReport:
    """What a check of a cluster that there is has found."""
    report = await check(client)
    assert report is not None
    return report


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


async def test_a_restoration_acts_and_is_done_when_the_difference_is_gone(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    shown.recovery = "None"
    done = await outcome(await start(client, RESTORE_DRIFT, RestoreDriftSpec(differences=[ID])))
    assert done.phase is Phase.SUCCEEDED
    assert done.result["restored"] == ["HyperPod cluster hp: node recovery is None, recorded is Automatic"]
    assert (shown.recovery, account.calls[SET_NODE_RECOVERY.name]) == ("Automatic", 1)


async def test_a_restoration_blocks_while_somebody_changes_it_back(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    shown.recovery = "None"
    account.answers[SET_NODE_RECOVERY.name] = lambda _: NodeRecoverySet(hyperpod_cluster="hp")
    handle = await start(client, RESTORE_DRIFT, RestoreDriftSpec(differences=[ID]))
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert {each.name: each.problem.code for each in blocked.stages if each.problem} == {
        "verification": ProblemCode.NOT_READY
    }


def _busy(view: ClusterView) -> ClusterView:
    """The cluster, in which one more operation has ended."""
    ended = HistoryEntry(
        operation="update-deployment/demo/chat",
        run_id=f"r-{len(view.history)}",
        kind="update-deployment",
        by="bob",
        phase=Phase.SUCCEEDED,
        started_at=NOW,
        finished_at=NOW,
    )
    return view.model_copy(update={"history": [ended, *view.history]})


async def test_a_restoration_that_could_not_be_looked_at_is_not_called_done(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    shown.recovery = "None"

    def read(_: Any) -> Managed:
        if account.calls[SET_NODE_RECOVERY.name]:
            # From then on operations end during every look, and everything is left out of it.
            shown.view = _busy(shown.view)
        return Managed(view=shown.view)

    account.answers[READ_MANAGED.name] = read
    handle = await start(client, RESTORE_DRIFT, RestoreDriftSpec(differences=[ID]))
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    (problem,) = [each.problem for each in blocked.stages if each.problem]
    assert problem.code is ProblemCode.NOT_READY
    assert "hyperpod/hp: update-deployment/demo/chat" in problem.detail
    account.answers[READ_MANAGED.name] = lambda _: Managed(view=shown.view)
    await handle.execute_update("resolve", Resolution(action="retry", stage="verification", attempt=1, by="alice"))
    assert (await outcome(handle)).phase is Phase.SUCCEEDED


async def test_a_retry_of_a_restoration_does_not_stumble_over_what_the_first_attempt_restored(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    def network(*gateways: str) -> Network:
        return Network(
            vpc_id="vpc-1",
            vpc_cidrs=["10.90.0.0/16"],
            owned=True,
            service_cidr="172.20.0.0/16",
            zones=["us-west-2a"],
            public_subnet_ids=["subnet-p1"],
            control_plane_subnet_ids=[],
            security_group_id="sg-1",
            nat_gateways=[
                NatGateway(nat_gateway_id=each, allocation_id="eip", subnet_id="subnet-p1", zone="us-west-2a")
                for each in gateways
            ],
            compute_subnets=[],
        )

    def look(_: Any) -> Sight:
        kinds = list(LOOKS["network"][1])
        members = [each for each in recorded(shown.view.record) if each.kind in kinds and each.name != "nat-lost"]
        return Sight(kinds=kinds, members=members)

    def restore_ways(asked: Any) -> WaysOutRestored:
        shown.view = ClusterView(record=shown.view.record.model_copy(update={"network": asked.network}))
        return WaysOutRestored(subnets=[])

    shown.recovery = "None"
    shown.view = ClusterView(record=cluster_record().model_copy(update={"network": network("nat-lost")}))
    account.record |= {"network": network("nat-lost")}
    account.answers |= {LOOK_AT_NETWORK.name: look, RESTORE_WAYS_OUT.name: restore_ways}
    account.fail(SET_NODE_RECOVERY, ProblemCode.DENIED)
    lost = identifier(DriftKind.NAT_GATEWAY, "nat-lost", None, {"state": "available"}, None)
    handle = await start(client, RESTORE_DRIFT, RestoreDriftSpec(differences=[lost, ID]))
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    assert {each.name: each.problem.code for each in blocked.stages if each.problem} == {
        "restoration": ProblemCode.DENIED
    }
    await handle.execute_update("resolve", Resolution(action="retry", stage="restoration", attempt=1, by="alice"))
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert account.calls[ENSURE_NAT_GATEWAY.name] == 1


async def test_a_difference_that_has_changed_since_is_refused_and_nothing_is_touched(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    stale = identifier(DriftKind.INSTANCE_GROUP, "workers", "target", 2, 1)
    shown.target = 0
    handle = await start(client, RESTORE_DRIFT, RestoreDriftSpec(differences=[stale]))
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    (problem,) = [each.problem for each in blocked.stages if each.problem]
    assert f"{stale} has changed since: now Instance group workers: target is 0" in problem.detail
    acts = {name for name in account.calls if not name.startswith(("drift.", "plans.", "cluster."))}
    assert acts == set()


@pytest.mark.parametrize(
    ("kind", "spec"), [(ADOPT_DRIFT, AdoptDriftSpec), (RESTORE_DRIFT, RestoreDriftSpec)], ids=["adopt", "restore"]
)
async def test_what_has_changed_since_can_be_chosen_anew_as_its_remedy_says(
    client: Client,
    account: FakeAccount,
    shown: Shown,
    kind: OperationKind[Any],
    spec: type[AdoptDriftSpec | RestoreDriftSpec],
) -> None:
    stale = identifier(DriftKind.HYPERPOD, "hp", "node_recovery", "Automatic", "Other")
    shown.recovery = "None"
    handle = await start(client, kind, spec(differences=[stale]))
    blocked = await until(handle, lambda p: p.phase is Phase.BLOCKED)
    (problem,) = [each.problem for each in blocked.stages if each.problem]
    assert problem.errors[0].remedy == f"Look at it, and choose {ID}."
    corrected = Resolution(action="retry", stage="drift", attempt=1, by="alice", corrections={"differences": [ID]})
    await handle.execute_update("resolve", corrected)
    assert (await outcome(handle)).phase is Phase.SUCCEEDED


async def test_a_correction_leads_to_no_part_of_the_cluster_that_the_operation_does_not_hold(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    shown.recovery = "None"
    account.fail(MAKE_PLAN, ProblemCode.CONFLICT)
    begun_for = identifier(DriftKind.ROLE, "a-role", "policy", "as made", "other")
    handle = await start(client, RESTORE_DRIFT, RestoreDriftSpec(differences=[begun_for]))
    await until(handle, lambda p: p.phase is Phase.BLOCKED)
    corrected = Resolution(action="retry", stage="checks", attempt=1, by="alice", corrections={"differences": [ID]})
    await handle.execute_update("resolve", corrected)
    blocked = await until(handle, lambda p: any(each.problem for each in p.stages if each.name == "drift"))
    (problem,) = [each.problem for each in blocked.stages if each.problem]
    assert (problem.code, account.calls[SET_NODE_RECOVERY.name]) == (ProblemCode.CONFLICT, 0)
    assert "does not hold hyperpod" in problem.detail


async def test_adoption_puts_what_is_into_the_record_and_changes_nothing_else(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    shown.target = 5
    entity = await client.start_workflow(
        "cluster", EntityState(record=cluster_record()), id=cluster_id(TAG), task_queue=queues.ENTITIES
    )
    identity = identifier(DriftKind.INSTANCE_GROUP, "workers", "target", 2, 5)
    done = await outcome(await start(client, ADOPT_DRIFT, AdoptDriftSpec(differences=[identity])))
    assert done.phase is Phase.SUCCEEDED
    view: ClusterView = await entity.query("view", result_type=ClusterView)
    assert view.record.hyperpod is not None
    assert [each.target for each in view.record.hyperpod.groups] == [5]
    assert view.record.drift is not None
    assert view.record.drift.report.differences == []
    assert not {name for name in account.calls if not name.startswith(("drift.", "plans.", "cluster."))}


async def test_a_check_that_began_during_an_adoption_and_ends_after_does_not_undo_it(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    shown.recovery = "None"
    began: list[datetime] = []

    def look(_: Any) -> Sight:
        began.append(activity.info().started_time)
        return shown.clusters()

    account.answers[LOOK_AT_CLUSTERS.name] = look
    entity = await client.start_workflow(
        "cluster", EntityState(record=cluster_record()), id=cluster_id(TAG), task_queue=queues.ENTITIES
    )
    done = await outcome(await start(client, ADOPT_DRIFT, AdoptDriftSpec(differences=[ID])))
    assert done.phase is Phase.SUCCEEDED
    other = DriftState(report=DriftReport(checked_at=began[0]), known=KNOWN)
    change = {"changes": {"drift": other.model_dump(mode="json")}, "by": drift_check_id(TAG)}
    await entity.signal("amend", change)
    view: ClusterView = await entity.query("view", result_type=ClusterView)
    assert view.record.drift is not None
    assert view.record.drift.known["hyperpod/hp"] == {"node_recovery": "None"}


async def test_a_look_that_fails_is_unread_and_the_others_are_told(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    account.fail(LOOK_AT_NETWORK, ProblemCode.THROTTLED)
    shown.recovery = "None"
    report = await checked(client)
    assert [each.id for each in report.differences] == [ID]
    assert [each.kinds for each in report.unread] == [list(LOOKS["network"][1])]


async def test_a_check_without_a_cluster_takes_away_the_schedule_that_starts_it(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    await checked(client)
    assert account.calls[REMOVE_DRIFT_SCHEDULE.name] == 0
    account.answers[READ_MANAGED.name] = lambda _: Managed()
    assert await check(client) is None
    assert account.calls[REMOVE_DRIFT_SCHEDULE.name] == 1


async def test_what_a_running_operation_holds_is_left_out(client: Client, account: FakeAccount, shown: Shown) -> None:
    shown.target = 1
    holder = Lease(
        operation="scale-instance-group/demo/workers", run_id="r", kind="k", by="b", leases=("hyperpod",), since=NOW
    )
    shown.view = ClusterView(record=cluster_record(), holding=[holder])
    report = await checked(client)
    assert report.differences == []
    assert report.skipped == [f"{each}: {holder.operation}" for each in ("hyperpod/hp", "instance-group/workers")]


async def test_a_cluster_in_which_an_operation_ended_meanwhile_is_looked_at_anew(
    client: Client, account: FakeAccount, shown: Shown
) -> None:
    entry = HistoryEntry(
        operation="scale-instance-group/demo/workers",
        run_id="r",
        kind="scale-instance-group",
        by="bob",
        phase=Phase.SUCCEEDED,
        started_at=NOW,
        finished_at=NOW + timedelta(minutes=1),
    )
    scaled = cluster_record()
    assert scaled.hyperpod is not None
    group = scaled.hyperpod.groups[0].model_copy(update={"target": 7})
    scaled = scaled.model_copy(update={"hyperpod": scaled.hyperpod.model_copy(update={"groups": [group]})})

    def first_look(_: Any) -> Sight:
        # The operation ends while the identity is looked at.
        shown.view = ClusterView(record=scaled, history=[entry])
        shown.target = 7
        return Sight(kinds=list(LOOKS["identity"][1]))

    account.answers[LOOK_AT_IDENTITY.name] = first_look
    assert (await checked(client)).differences == []
    assert account.calls[LOOK_AT_CLUSTERS.name] == 2


async def test_a_check_that_began_before_an_adoption_does_not_undo_it(client: Client, account: FakeAccount) -> None:
    entity = await client.start_workflow(
        "cluster", EntityState(record=cluster_record()), id=cluster_id(TAG), task_queue=queues.ENTITIES
    )
    later = DriftState(report=DriftReport(checked_at=NOW + timedelta(minutes=2)), known={"a/b": {}})
    earlier = DriftState(report=DriftReport(checked_at=NOW + timedelta(minutes=1)))
    for state in (later, earlier):
        change = {"changes": {"drift": state.model_dump(mode="json")}, "by": drift_check_id(TAG)}
        await entity.signal("amend", change)
    view: ClusterView = await entity.query("view", result_type=ClusterView)
    assert view.record.drift == later
    assert view.record.updated_at == NOW
