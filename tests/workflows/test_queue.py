"""An operation that waits for its turn asks for its place by itself, too."""

from __future__ import annotations

import json
from datetime import timedelta

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory

from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ACQUIRE_LEASES, ClusterSpec
from contracts.lease import LeaseGrant
from contracts.operation import MEMO_PROGRESS, Outcome, Phase
from tests.workflows.conftest import create
from tests.workflows.fakes import FakeAccount
from workflows.engine.leases import FIRST_LOOK, LAST_LOOK

GROUPS = [InstanceGroupSpec(instance_type="ml.g5.8xlarge", count=1)]
FIRST, SECOND = "delete-cluster/demo", "update-software/demo"


def behind(operation: str, position: int) -> LeaseGrant:
    return LeaseGrant(granted=False, behind=operation, position=position)


def places(history: WorkflowHistory) -> list[str]:
    """What was shown of the queue, change by change."""
    written = [
        json.loads(event.workflow_properties_modified_event_attributes.upserted_memo.fields[MEMO_PROGRESS].data)
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED
    ]
    return [each["detail"] for each in written if each["phase"] == Phase.QUEUED]


def asked(history: WorkflowHistory) -> list[timedelta]:
    """How long after its start it asked for its leases, each time."""
    scheduled = [
        event.event_time.ToDatetime()
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == ACQUIRE_LEASES.name
    ]
    return [each - scheduled[0] for each in scheduled]


async def test_who_is_never_told_that_it_is_its_turn_asks_and_shows_its_place_meanwhile(
    client: Client, account: FakeAccount
) -> None:
    account.grants = [behind(FIRST, 2), behind(FIRST, 2), behind(SECOND, 1)]
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=GROUPS))
    assert Outcome.model_validate(await handle.result()).phase is Phase.SUCCEEDED
    history = await handle.fetch_history()
    assert places(history) == [
        f"waits for {FIRST}, place 2 in the queue",
        f"waits for {SECOND}, place 1 in the queue",
    ]
    first, second, third, fourth = asked(history)
    assert FIRST_LOOK <= second - first < third - second < fourth - third


async def test_who_waits_for_days_asks_a_few_times_an_hour(client: Client, account: FakeAccount) -> None:
    account.grants = [behind(FIRST, 1)] * 100
    handle = await create(client, ClusterSpec(tag="demo", instance_groups=GROUPS))
    await handle.result()
    times = asked(await handle.fetch_history())
    assert timedelta(days=1) < times[-1]
    assert times[-1] - times[-2] < LAST_LOOK + timedelta(minutes=1)
