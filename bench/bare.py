"""The baseline of the pipeline: a bare asyncio script that makes the same calls with the best parallelism.

It runs the very activities that the workers run, as plain functions: no Temporal, no record, no leases, no stages. What
the workflow does for order, this does by hand, and it looks nothing up twice.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.errors import classify
from activities.registry import Activities
from contracts.activity import Act, Wait
from contracts.capacity import InstanceGroupSpec, threads_per_core
from contracts.cluster import ClusterSpec
from contracts.dependencies import COMPONENTS, ComponentState, ComponentStatus
from contracts.eks import ENSURE_CONTROL_PLANE, WAIT_FOR_CONTROL_PLANE, EnsureControlPlane, WaitForControlPlane
from contracts.hyperpod import (
    ENSURE_HYPERPOD,
    LIST_NODES,
    WAIT_FOR_HYPERPOD,
    EnsureHyperPod,
    ListNodes,
    PlacedGroup,
    WaitForHyperPod,
)
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_OIDC_PROVIDER,
    VERIFY_ACCESS,
    EnsureAccessEntry,
    EnsureOidcProvider,
    VerifyAccess,
)
from contracts.network import (
    ENSURE_COMPUTE_SUBNET,
    ENSURE_NAT_GATEWAY,
    WAIT_FOR_NAT_GATEWAYS,
    EnsureComputeSubnet,
    EnsureNatGateway,
    Network,
    Scope,
    Subnet,
    WaitForNatGateways,
)
from contracts.options import CHECK_CLUSTER, LOOK_UP_OPTIONS, CheckCluster, LookUpOptions
from contracts.storage import ENSURE_CLAIM, WAIT_FOR_CLAIM, EnsureClaim, WaitForClaim
from workflows.dependencies import await_components, install
from workflows.identity import build_identity
from workflows.network import build_network

Out = TypeVar("Out", bound=BaseModel)


class DirectRun:
    """Stands where a stage's road to activities is, and calls them at once. Counts them and their time."""

    def __init__(self, activities: Activities) -> None:
        self._methods = activities.all()
        self._workflow = f"bare/{uuid.uuid4().hex}"
        self.count = 0
        self.busy = 0.0

    async def act(self, signature: Act[Any, Out], argument: BaseModel, key: str | None = None) -> Out:
        self.count += 1
        for attempt in range(1, signature.attempts + 1):
            began = time.perf_counter()
            try:
                result: Out = await asyncio.to_thread(
                    self._environment(attempt).run, self._methods[signature.name], argument
                )
                return result
            except Exception as error:
                classified = (
                    error if isinstance(error, ApplicationError) else classify(error, attempt=attempt, pace=0.5)
                )
                if classified.non_retryable:
                    raise
                delay = classified.next_retry_delay
                await asyncio.sleep(delay.total_seconds() if delay is not None else 1.0)
            finally:
                self.busy += time.perf_counter() - began
        raise AssertionError(f"{signature.name} did not succeed in {signature.attempts} attempts")

    async def wait(self, signature: Wait[Any, Out], argument: BaseModel, key: str | None = None) -> Out:
        self.count += 1
        result: Out = await self._environment(1).run(self._methods[signature.name], argument)
        return result

    def _environment(self, attempt: int) -> ActivityEnvironment:
        environment = ActivityEnvironment()
        environment.info = ActivityEnvironment.default_info().__class__(
            **{
                **vars(ActivityEnvironment.default_info()),
                "workflow_id": self._workflow,
                "workflow_run_id": self._workflow,
                "attempt": attempt,
                "scheduled_time": datetime.now(UTC),
            }
        )
        return environment


async def create(activities: Activities, spec: ClusterSpec, region: str) -> DirectRun:
    """Make the cluster of ``spec``. Returns the run with its counts; raises when something cannot be made."""
    run: Any = DirectRun(activities)
    scope = Scope(cluster=spec.tag, region=region, created_by="bench", request_id="bench")
    group = spec.instance_groups[0]
    await run.act(CHECK_CLUSTER, CheckCluster(spec=spec, region=region))
    network, identity = await asyncio.gather(build_network(run, scope, spec.network), build_identity(run, scope))

    async def control_plane() -> Any:
        made = await run.act(
            ENSURE_CONTROL_PLANE,
            EnsureControlPlane(
                scope=scope,
                kubernetes_version=spec.kubernetes_version,
                role_arn=identity.cluster_role_arn,
                subnet_ids=network.control_plane_subnet_ids,
                security_group_id=network.security_group_id,
                service_cidr=network.service_cidr,
            ),
        )
        return await run.wait(WAIT_FOR_CONTROL_PLANE, WaitForControlPlane(scope=scope, name=made.name))

    eks, (subnet, zone) = await asyncio.gather(control_plane(), _compute(run, scope, network, group))
    await asyncio.gather(
        run.act(ENSURE_OIDC_PROVIDER, EnsureOidcProvider(scope=scope, eks_cluster=eks.name)),
        run.act(
            ENSURE_ACCESS_ENTRY,
            EnsureAccessEntry(scope=scope, eks_cluster=eks.name, principal_arn=identity.platform_principal_arn),
        ),
    )
    await run.act(VERIFY_ACCESS, VerifyAccess(scope=scope, eks_cluster=eks.name))
    statuses = {each.name: ComponentStatus(name=each.name, state=ComponentState.PENDING) for each in COMPONENTS}
    await install(run, scope, eks, identity, [each.name for each in COMPONENTS], statuses)

    async def nodes() -> None:
        placed = PlacedGroup(
            spec=group.model_copy(update={"availability_zone": zone}),
            subnet=subnet,
            threads_per_core=threads_per_core(group.instance_type),
        )
        cluster = await run.act(
            ENSURE_HYPERPOD,
            EnsureHyperPod(
                scope=scope,
                spec=spec.hyperpod,
                eks_cluster_arn=eks.arn,
                security_group_id=network.security_group_id,
                execution_role_arn=identity.execution_role_arn,
                lifecycle_scripts_uri=identity.lifecycle_scripts_uri,
                groups=[placed],
            ),
        )
        await run.wait(
            WAIT_FOR_HYPERPOD,
            WaitForHyperPod(scope=scope, name=cluster.name, eks_cluster=eks.name, groups=[group.name]),
        )
        await asyncio.gather(
            await_components(run, scope, eks, list(statuses.values())),
            run.act(LIST_NODES, ListNodes(scope=scope, name=cluster.name, eks_cluster=eks.name)),
        )

    async def storage() -> None:
        claim = await run.act(
            ENSURE_CLAIM, EnsureClaim(scope=scope, eks_cluster=eks.name, bucket=identity.bucket, spec=spec.storage)
        )
        await run.wait(
            WAIT_FOR_CLAIM,
            WaitForClaim(scope=scope, eks_cluster=eks.name, claim=claim.claim, namespace=claim.namespace),
        )

    await asyncio.gather(nodes(), storage())
    direct: DirectRun = run
    return direct


async def _compute(run: Any, scope: Scope, network: Network, group: InstanceGroupSpec) -> tuple[Subnet, str]:
    """NAT gateways and the compute subnet, while the control plane comes up."""
    gateways = await asyncio.gather(
        *(
            run.act(ENSURE_NAT_GATEWAY, EnsureNatGateway(scope=scope, resource=f"nat-{n}", subnet_id=subnet_id))
            for n, subnet_id in enumerate(network.public_subnet_ids, start=1)
        )
    )
    options = await run.act(LOOK_UP_OPTIONS, LookUpOptions(region=scope.region, instance_types=[group.instance_type]))
    option = options.instance_type(group.instance_type)
    zone = option.availability_zones[0]
    waited = WaitForNatGateways(scope=scope, nat_gateway_ids=[each.nat_gateway_id for each in gateways])
    _, subnet = await asyncio.gather(
        run.wait(WAIT_FOR_NAT_GATEWAYS, waited),
        run.act(
            ENSURE_COMPUTE_SUBNET,
            EnsureComputeSubnet(
                scope=scope,
                vpc_id=network.vpc_id,
                zone=zone,
                addresses=group.count * option.addresses,
                nat_gateways=list(gateways),
                s3_endpoint_id=network.s3_endpoint_id,
            ),
        ),
    )
    return subnet, zone
