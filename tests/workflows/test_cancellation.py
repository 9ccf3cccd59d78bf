"""Cancelling in Temporal, at moments all over an operation, on a real server."""

from __future__ import annotations

import asyncio
import random
import uuid

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.testing import WorkflowEnvironment

from contracts import eks
from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ClusterSpec
from contracts.operation import Phase
from tests.workflows.conftest import create, hosting, progress
from tests.workflows.fakes import FakeAccount

GROUPS = [InstanceGroupSpec(instance_type="ml.g5.8xlarge", count=1)]


async def test_a_cancellation_is_never_swallowed_and_never_wedges_the_workflow(
    dev_server: WorkflowEnvironment, account: FakeAccount
) -> None:
    dice = random.Random(7)

    async def cancelled_after(seconds: float) -> None:
        handle = await create(dev_server.client, ClusterSpec(tag=f"c{uuid.uuid4().hex[:8]}", instance_groups=GROUPS))
        await asyncio.sleep(seconds)
        await handle.cancel()
        async with asyncio.timeout(30):
            with pytest.raises(WorkflowFailureError) as ended:
                await handle.result()
        assert isinstance(ended.value.cause, CancelledError)
        assert (await progress(handle)).phase is Phase.ABORTED

    async with hosting(dev_server.client, account):
        for _ in range(5):
            await asyncio.gather(*(cancelled_after(dice.random() * 2) for _ in range(5)))


async def test_a_cancellation_ends_a_wait_at_once_and_reports_what_exists(
    dev_server: WorkflowEnvironment, account: FakeAccount
) -> None:
    account.hold[eks.WAIT_FOR_CONTROL_PLANE.name] = asyncio.Event()
    async with hosting(dev_server.client, account):
        handle = await create(dev_server.client, ClusterSpec(tag=f"c{uuid.uuid4().hex[:8]}", instance_groups=GROUPS))
        async with asyncio.timeout(20):
            while not account.calls[eks.WAIT_FOR_CONTROL_PLANE.name]:
                await asyncio.sleep(0.02)
        await handle.cancel()
        async with asyncio.timeout(20):
            with pytest.raises(WorkflowFailureError):
                await handle.result()
        found = await progress(handle)
        assert found.phase is Phase.ABORTED
        assert found.result is not None
        assert found.result["exists"]["network/network.ensure_vpc"] == "vpc-1"
        assert account.calls["dependencies.ensure_addon"] == 0
