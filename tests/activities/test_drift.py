"""Looking for drift: what cannot be read is told so; schedules of checks are as the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    ScheduleUpdate,
)
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.drift.looking import looked
from activities.drift.managed import DriftChecks, ensure_drift_schedules
from activities.drift.workloads import last_writer
from activities.settings import Settings
from contracts import queues, visibility
from contracts.cluster import ClusterRecord, EntityState
from contracts.drift import CheckDrift, DriftKind, EnsureDriftSchedule, Member
from contracts.names import cluster_id, drift_schedule_id
from tests.conftest import a_dev_server

TAG, REGION = "demo", "us-west-2"
ASKED = EnsureDriftSchedule(cluster=TAG, region=REGION)


def test_a_look_that_fails_leaves_its_kinds_unread_and_the_others_go_on() -> None:
    def throttled() -> Iterator[Member]:
        yield Member(kind=DriftKind.VPC, name="vpc-1")
        raise ClientError({"Error": {"Code": "Throttling", "Message": "slow down"}}, "DescribeVpcs")

    subnet = Member(kind=DriftKind.SUBNET, name="subnet-1")
    seen = looked((((DriftKind.VPC,), throttled), ((DriftKind.SUBNET,), lambda: [subnet])))
    assert (seen.kinds, seen.members) == ([DriftKind.SUBNET], [subnet])
    ((kinds, detail),) = [(each.kinds, each.detail) for each in seen.unread]
    assert kinds == [DriftKind.VPC]
    assert "slow down" in detail


@pytest.mark.parametrize(
    ("managers", "by"),
    [
        ([("instantstart", "2026-01-01T00:00:00Z")], None),
        ([("instantstart", "2026-01-01T00:00:00Z"), ("kubectl-edit", "2026-01-02T00:00:00Z")], "kubectl-edit"),
        ([("kubectl-edit", "2026-01-01T00:00:00Z"), ("instantstart", "2026-01-02T00:00:00Z")], None),
        ([("kube-controller-manager", "2026-01-02T00:00:00Z")], None),
        ([], None),
    ],
)
def test_who_wrote_last_is_told_where_it_was_not_this_platform(managers: list[tuple[str, str]], by: str | None) -> None:
    fields = [{"manager": manager, "time": time} for manager, time in managers]
    assert last_writer({"metadata": {"managedFields": fields}}) == by


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with a_dev_server() as environment:
        yield environment.client


@pytest.mark.real_server
async def test_a_schedule_is_made_once_follows_the_settings_and_goes(client: Client) -> None:
    environment = ActivityEnvironment(client=client)
    checks = DriftChecks(client, Settings())
    made = await environment.run(checks.ensure_schedule, ASKED)
    again = await environment.run(checks.ensure_schedule, ASKED)
    assert (made.changed, again.changed, again.paused) == (True, False, False)
    handle = client.get_schedule_handle(drift_schedule_id(TAG))
    assert (await handle.describe()).schedule.policy.overlap is ScheduleOverlapPolicy.SKIP

    off = DriftChecks(client, Settings(drift_checks="off", drift_interval_minutes=5))
    paused = await environment.run(off.ensure_schedule, ASKED)
    assert (paused.changed, paused.paused, paused.every_minutes) == (True, True, 5)

    await handle.update(lambda found: ScheduleUpdate(schedule=_unpaused(found.description.schedule)))
    assert (await environment.run(off.ensure_schedule, ASKED)).paused

    elsewhere = EnsureDriftSchedule(cluster=TAG, region="eu-west-1")
    moved = [await environment.run(checks.ensure_schedule, elsewhere) for _ in range(2)]
    assert [each.changed for each in moved] == [True, False]
    assert await _region(client, handle) == "eu-west-1"

    await handle.update(lambda found: ScheduleUpdate(schedule=_asking(found.description.schedule, "nothing")))
    assert (await environment.run(checks.ensure_schedule, elsewhere)).changed
    assert await _region(client, handle) == "eu-west-1"

    gone = [await environment.run(checks.remove_schedule, ASKED) for _ in range(2)]
    assert [each.changed for each in gone] == [True, False]
    with pytest.raises(RPCError) as error:
        await handle.describe()
    assert error.value.status is RPCStatusCode.NOT_FOUND


async def _region(client: Client, handle: ScheduleHandle) -> str:
    """The region that a schedule's checks are told."""
    action = (await handle.describe()).schedule.action
    assert isinstance(action, ScheduleActionStartWorkflow)
    (asked,) = await client.data_converter.decode(action.args, [CheckDrift])
    return str(asked.region)


def _asking(schedule: Schedule, argument: object) -> Schedule:
    assert isinstance(schedule.action, ScheduleActionStartWorkflow)
    schedule.action.args = [argument]
    return schedule


def _unpaused(schedule: Schedule) -> Schedule:
    schedule.state.paused = False
    return schedule


async def test_clusters_from_before_there_were_checks_get_their_schedules(client: Client) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    record = ClusterRecord(tag=TAG, region=REGION, created_by="a", created_at=now, updated_at=now)
    where = SearchAttributePair(SearchAttributeKey.for_keyword(visibility.REGION), REGION)
    await client.start_workflow(
        "cluster",
        EntityState(record=record),
        id=cluster_id(TAG),
        task_queue=queues.ENTITIES,
        search_attributes=TypedSearchAttributes([where]),
    )
    async with asyncio.timeout(30):
        while not (made := await ensure_drift_schedules(client, Settings())):
            await asyncio.sleep(0.2)
    assert made == 1
    assert await ensure_drift_schedules(client, Settings()) == 0
    found = await client.get_schedule_handle(drift_schedule_id(TAG)).describe()
    assert not found.schedule.state.paused


async def test_without_a_cluster_there_is_nothing_to_look_at(client: Client) -> None:
    environment = ActivityEnvironment(client=client)
    found = await environment.run(DriftChecks(client).read_managed, CheckDrift(cluster="nobody", region=REGION))
    assert found.view is None


async def test_a_cluster_whose_record_has_ended_is_none(client: Client) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    record = ClusterRecord(tag=TAG, region=REGION, created_by="a", created_at=now, updated_at=now)
    entity = await client.start_workflow(
        "cluster", EntityState(record=record), id=cluster_id(TAG), task_queue=queues.ENTITIES
    )
    await entity.terminate()
    found = await ActivityEnvironment(client=client).run(
        DriftChecks(client).read_managed, CheckDrift(cluster=TAG, region=REGION)
    )
    assert found.view is None
