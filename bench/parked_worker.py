"""A worker whose activities have no outside, for measuring what operations cost while they wait.

``create-storage`` parks in a wait that never ends, ``create-hyperpod`` in the capacity decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.common import VersioningBehavior

from contracts import queues
from contracts.cluster import ACQUIRE_LEASES, Acquire, Acquired
from contracts.eks import ControlPlane
from contracts.identity import Identity
from contracts.lease import LeaseGrant
from contracts.network import Network
from contracts.storage import WAIT_FOR_CLAIM
from temporal.connection import connect
from tests.workflows.fakes import REGION, FakeAccount
from worker.platform import WorkerFactory
from worker.settings import WorkerSettings
from workflows.registry import LOOKUPS, OPERATIONS


class ParkingAccount(FakeAccount):
    """Every cluster is as far as its control plane; no claim is ever Bound."""

    def __init__(self) -> None:
        super().__init__()
        self.hold[WAIT_FOR_CLAIM.name] = asyncio.Event()
        self.pace = 4.0  # as the real waits

    def _leases(self) -> Callable[..., Any]:
        @activity.defn(name=ACQUIRE_LEASES.name)
        async def acquire(call: Acquire) -> Acquired:
            made = {
                "control_plane": ControlPlane(
                    name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34", changed=False
                ),
                "identity": Identity(
                    account="123456789012",
                    platform_principal_arn="arn:me",
                    cluster_role_arn="arn:c",
                    execution_role_arn="arn:e",
                    bucket="b",
                    lifecycle_scripts_uri="s3://b/x",
                ),
                "network": Network(
                    vpc_id="vpc-1",
                    vpc_cidrs=["10.90.0.0/16"],
                    owned=True,
                    service_cidr="10.100.0.0/16",
                    zones=["us-west-2a", "us-west-2b"],
                    public_subnet_ids=[],
                    control_plane_subnet_ids=[],
                    internet_gateway_id="igw",
                    security_group_id="sg",
                    s3_endpoint_id="vpce",
                ),
                "updated_at": datetime.now(UTC),
            }
            return Acquired(grant=LeaseGrant(granted=True), record=call.record.model_copy(update=made))

        return acquire


async def main() -> None:
    factory = WorkerFactory(await connect(), WorkerSettings(), [])
    activities = ParkingAccount().activities()
    workers = [
        factory.workflows(queues.WORKFLOWS, [*OPERATIONS, *LOOKUPS], VersioningBehavior.PINNED),
        *(
            factory.waits(queue, activities, 2000)
            for queue in (queues.PLATFORM, queues.WAIT, queues.KUBERNETES, queues.aws(REGION))
        ),
    ]
    await asyncio.gather(*(worker.run() for worker in workers))


if __name__ == "__main__":
    asyncio.run(main())
